"""What a run is: frozen, closed models; TOML in, canonical JSON and an id made from content out."""

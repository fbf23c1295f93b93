"""Specifications of runs: frozen, closed models read from TOML, with ids made from content."""

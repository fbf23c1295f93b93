"""GRU: options (torch-free) and architecture."""

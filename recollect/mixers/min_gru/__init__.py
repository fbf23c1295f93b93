"""MinGRU: options (torch-free) and architecture."""

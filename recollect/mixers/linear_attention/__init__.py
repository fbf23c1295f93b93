"""Linear attention: options (torch-free) and architecture."""

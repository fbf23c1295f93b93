"""Based: options (torch-free) and architecture."""

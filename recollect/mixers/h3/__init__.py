"""H3: options (torch-free) and architecture."""

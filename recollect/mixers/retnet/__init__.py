"""RetNet: options (torch-free) and architecture."""

"""BaseConv: options (torch-free) and architecture."""

"""Gated linear attention: options (torch-free) and architecture."""

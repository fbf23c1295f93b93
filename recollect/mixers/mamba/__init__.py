"""Mamba and S6: options (torch-free) and architecture."""

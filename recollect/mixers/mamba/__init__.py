"""Mamba and of S6: options (torch-free) and architecture."""

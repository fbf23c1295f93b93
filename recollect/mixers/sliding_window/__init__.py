"""Sliding-window attention: options (torch-free) and architecture."""

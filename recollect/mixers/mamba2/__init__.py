"""Mamba2: options (torch-free) and architecture."""

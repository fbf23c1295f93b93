"""Hyena: options (torch-free) and architecture."""

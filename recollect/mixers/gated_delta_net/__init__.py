"""Gated DeltaNet: options (torch-free) and architecture."""

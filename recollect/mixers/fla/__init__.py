"""Layers of the package flash-linear-attention as mixers."""

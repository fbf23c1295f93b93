"""Softmax attention: options (torch-free) and architecture."""

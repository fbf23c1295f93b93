"""RWKV-4: options (torch-free) and architecture."""

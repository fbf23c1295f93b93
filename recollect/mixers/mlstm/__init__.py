"""MLSTM: options (torch-free) and architecture."""

"""LSTM: options (torch-free) and architecture."""

"""The sequence mixers: one folder per architecture, its options (torch-free) next to its code."""

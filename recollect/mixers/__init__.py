"""The sequence mixers: one architecture a folder, its options (torch-free) beside its code."""

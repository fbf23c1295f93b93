"""Whether what a folder holds is as it was written, beyond the type of each value."""

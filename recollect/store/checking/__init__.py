"""Checks that the content of a folder is as it was written, beyond the type of each value."""

"""Searches: which runs of a cell tell most about its window, or about its best score."""

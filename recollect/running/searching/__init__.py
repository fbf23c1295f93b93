"""Searches: choose the runs of a cell that tell most about its window or its best score."""

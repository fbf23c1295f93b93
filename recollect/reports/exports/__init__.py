"""Stored results for other programs: runs replayed into experiment trackers, and a data set of
Parquet files with its card.
"""

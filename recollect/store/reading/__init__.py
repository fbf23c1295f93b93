"""What comes out of a results database: queries, and values that are checked before use."""

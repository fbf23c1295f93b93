"""Reading a results database: queries, and values that are checked before use."""

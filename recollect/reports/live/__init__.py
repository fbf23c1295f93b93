"""A training as it is seen while it goes on: on a terminal, in a log, in a notebook."""

"""The display of a running training: on a terminal, in a log, in a notebook."""

"""The tasks: options (torch-free), and their data as pure functions."""

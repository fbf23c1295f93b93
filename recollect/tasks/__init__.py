"""The tasks: their options (torch-free) in options/, their rows as pure functions here."""

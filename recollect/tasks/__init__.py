"""The tasks: options/ holds their options (without torch), this package draws their rows."""

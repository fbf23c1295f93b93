"""Mixers from outside: plain modules that a user names."""

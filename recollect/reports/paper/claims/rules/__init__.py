"""The rules of the claims, by subject; each is a function of a group and returns a check."""

"""Functions of strings."""

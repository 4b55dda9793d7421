"""Whole segment files: encode, open, copy, describe and verify."""

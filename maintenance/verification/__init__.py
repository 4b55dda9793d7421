"""Verify everything a reader trusts, past every cache."""

"""Versions of the schema of a catalog's database, and the steps from one to the next."""

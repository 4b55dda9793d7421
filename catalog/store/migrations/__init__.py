"""Steps from one schema of a catalog's database to the next."""

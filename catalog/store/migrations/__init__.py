"""Versions of the schema of a catalog's database, which alembic runs by `env`."""

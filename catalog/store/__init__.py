"""Definitions in a database: SQLite or PostgreSQL."""

"""Stores of definitions: SQLite and PostgreSQL with their migrations, and a client of REST."""

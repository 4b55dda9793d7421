"""Definitions that outlive segments: names, locations, columns and layouts of tables.

`spec` is pure: what a definition says, and how it is edited. `store` keeps definitions in SQLite,
in PostgreSQL or behind a server. `external` reads files from outside. `Catalog` joins definitions
with tables, which are read and written by name, and `rest_server` serves it.
"""

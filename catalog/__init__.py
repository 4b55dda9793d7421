"""Definitions that outlive segments: names, locations, columns and layouts of tables.

`spec` is pure: what a definition says, and how it is edited. `store` keeps definitions in SQLite or
PostgreSQL. `Catalog` joins them with tables, which are read and written by name.
"""

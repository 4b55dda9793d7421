"""Foreign files that hold the base rows of tables: their lists, identities and columns.

A source is a folder of Parquet files, a Delta log or an Iceberg table, whose columns may have field
ids; its schema and state come from its files, whose rows are offered as a segment's.
"""

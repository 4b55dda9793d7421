"""The segment file format: bytes to arrays and back, without threads and without queries.

`file` has whole files, `encodings` those of columns, `indexes` those of their values.
"""

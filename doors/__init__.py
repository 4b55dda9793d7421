"""Questions of DuckDB, answered by ours where equal functions have one meaning in both engines.

Rows also leave as exported files, and as plain values of JSON.
"""

"""The query log: records of queries without their values, in files of JSON lines.

`log_files` writes lines from a thread of its own, `query_text` makes the text of a query,
`query_record` a record of an answer, and `read_log` reads them back.
"""

"""Work on whole tables: compaction, projections and indexes for old segments, verification.

`row_changes` deletes, updates and merges rows.
"""

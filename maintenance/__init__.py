"""Work on whole tables: compaction, projections and indexes for old segments, verification.

Foreign tables follow their source, and samples tell what a projection or index takes.
`row_changes` deletes, updates, merges, replaces and erases rows.
"""

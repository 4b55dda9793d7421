"""Work on whole tables: compaction, projections and indexes for old segments, verification.

Tables over files of others follow their source, and samples tell what a projection or index takes.
`row_changes` deletes, updates, merges, replaces and erases rows.
"""

"""Arrow batches to immutable segment files: checked, sorted, cut, with projections and filters.

Columns become vectors; a foreign file gets a companion, whose rows stay where they are; a table's
writer publishes nothing.
"""

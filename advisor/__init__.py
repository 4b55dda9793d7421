"""The advisor: what a table should store for what is asked of it, and what of it nobody uses.

`workload` gathers a log's queries in shapes, and `filled_queries` puts values in the place of those
that the log hides. `candidates` makes projections of shapes, `shape_costs` plans shapes as if they
were there, and `search` chooses some. `advise` does all of it, `advice` holds what it found.
"""

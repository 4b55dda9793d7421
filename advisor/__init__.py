"""The advisor: what a table should store for its logged queries, and what it stores unused.

`workload` gathers a log's queries in shapes, and `filled_queries` puts values in the place of those
that the log hides. `candidates` makes projections of shapes, `shape_costs` plans shapes as if they
were there, and `search` chooses some. `advise` does all of it, `advice` holds what it found.
"""

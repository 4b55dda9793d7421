"""Plan a query: segments pruned by facts and Bloom filters, sources chosen, less to fold.

Counts of a whole table are summed from its manifests. Templates bind and plan once what differs in
values alone, and rebind it to others. What a table would do with other projections or imagined
indexes is planned alike.
"""

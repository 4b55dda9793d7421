"""From a query to rows: plan, prune, select, fold, merge, finish; and the log of queries."""

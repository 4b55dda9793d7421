"""Stars: a fact and dimensions of which at most one row matches, as a query over the fact."""

"""Run a plan: read, fold, merge and finish."""

"""Expressions as block programs: for each function the steps that compute it over many rows."""

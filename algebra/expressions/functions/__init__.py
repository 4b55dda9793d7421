"""The functions, one family in each file: their type rules and their evaluation over arrays."""

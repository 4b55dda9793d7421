"""The functions, one family a file: each with its type rule and its evaluation over arrays."""

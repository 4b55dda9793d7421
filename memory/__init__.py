"""Memory of the process: the pool it is taken from, what is kept in it, and what a fork does."""

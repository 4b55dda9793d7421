"""The process's memory: its pool, its cache, deadlines of work in it, and locks across a fork."""

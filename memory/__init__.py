"""The process's memory: pool, cache, deadlines, the door of a question, locks across a fork."""

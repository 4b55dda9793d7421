"""The process's memory: pool, cache, temporary batches, deadlines, door of a question, forks.

What it counts for monitors is in `metrics`, and what it reports to them in `tracing`.
"""

"""The process's memory: pool, cache, deadlines, the door of a question, locks across a fork.

What it counts for monitors is in `metrics`, and what it reports to them in `tracing`.
"""

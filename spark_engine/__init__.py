"""The process that Spark's extension asks: answers, statements, jobs, catalog."""

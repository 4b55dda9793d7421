"""The segment file format: bytes to arrays and back. No files, no threads, no Spark."""

"""One encoding a file; `table` lists them all."""

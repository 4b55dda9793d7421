"""One encoding a file; the closed tables of them are in `integers` and `numbers`."""

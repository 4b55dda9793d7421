"""Pages: a run of rows as bytes, compressed, with a zone map."""

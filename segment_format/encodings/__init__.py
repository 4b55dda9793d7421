"""The encodings, one in each file; `encoding_table` lists them all."""

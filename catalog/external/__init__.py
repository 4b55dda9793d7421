"""Files from outside as rows: text and Parquet, places that may be read, parameters."""

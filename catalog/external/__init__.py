"""Files from outside as rows and columns: text and Parquet, places that may be read, parameters."""

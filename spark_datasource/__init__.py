"""The only folder that imports pyspark: `format("projseg")` and the helpers around it."""

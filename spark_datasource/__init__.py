"""Spark's data source, `format("projseg")`, and the extension of Spark's plans in `catalyst`."""

from projseg.extras import require

# Nothing here imports pyspark: the daemon sets the path right first.
require("pyspark", "reading and writing through Spark")

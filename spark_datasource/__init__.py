"""The only folder that imports pyspark: `format("projseg")` and the helpers around it."""

from projseg.extras import require

require("pyspark", "reading and writing through Spark")

"""A program of two streams, which a test kills: files to a table, and that table to another.

python two_streams.py FOLDER
"""

import sys

from pyspark.sql import SparkSession

ZONE = "America/New_York"


def start(spark, folder, *, to_the_end=False):
    """Start both streams; or run one and then the other over what there is."""
    files = spark.readStream.schema("time timestamp, n bigint").option(
        "maxFilesPerTrigger", "100" if to_the_end else "1"
    )
    rows = spark.readStream.format("projseg").option("maxSegmentsPerTrigger", "3")
    queries = []
    for name, frame in [
        ("first", files.parquet(f"{folder}/files")),
        ("second", rows.load(f"{folder}/first")),
    ]:
        writer = frame.writeStream.format("projseg").option("timeColumn", "time")
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint-{name}")
        if to_the_end:
            writer.trigger(availableNow=True).start(f"{folder}/{name}").awaitTermination()
        else:
            queries.append(writer.start(f"{folder}/{name}"))
    return queries


def main(folder):
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", ZONE)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    for query in start(spark, folder):
        query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1])

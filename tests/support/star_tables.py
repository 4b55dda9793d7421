"""A fact with dimensions, as views over Parquet and over projseg."""

from __future__ import annotations

from spark_sql import using

import projseg

_ROWS = 6_000


def make_stars(spark, folder):
    """Make views `jf_parquet` and `jf_projseg`, empty `jo_*` like them, and six of dimensions."""
    made = spark.range(_ROWS).selectExpr(
        "if(id % 41 = 0, NULL, CAST(id * 7 % 12 AS int)) AS k",
        "if(id % 37 = 0, NULL, concat('s', id % 11)) AS s",
        "if(id % 31 = 0, NULL, CAST(id % 97 AS int)) AS n",
        "id AS v",
        "CAST(if(id % 29 = 0, NULL, id / 8) AS decimal(12, 2)) AS d",
        "CAST(id % 6 AS double) AS x",
        "id % 3 = 0 AS flag",
        "date_add(DATE'2023-12-28', CAST(id % 9 AS int)) AS day",
        "timestamp_seconds(1703721600 + id * 120) AS t",
    )
    texts = {
        "by_ks": "SELECT k, s, count(*), sum(n), count(n), sum(d), count(d), max(d) GROUP BY k, s",
        "by_sd": "SELECT s, day, count(*), sum(n) GROUP BY s, day",
    }
    projections = [{"name": name, "sql": text} for name, text in texts.items()]
    for name, rows in (("jf", made), ("jo", made.limit(0))):
        rows.coalesce(1).write.parquet(str(folder / name))
        read = spark.read.parquet(str(folder / name))
        read.createOrReplaceTempView(f"{name}_parquet")
        location = folder / f"{name}_projseg"
        projseg.write(read, location, timeColumn="t", segmentGranularity="P4D",
                      projections=projections)  # fmt: skip
        with using(spark, enabled="true"):
            frame = spark.read.format("projseg").load(str(location))
            frame.createOrReplaceTempView(f"{name}_projseg")
    dimensions = {
        "ja": "SELECT CAST(if(id = 9, NULL, id % 9) AS int) AS k, if(id = 4, NULL, "
        "concat('name', id % 5)) AS name, CAST(id % 7 AS int) AS weight FROM range(16)",
        "jb": "SELECT concat('s', id) AS s, concat('r', id % 3) AS region FROM range(8)",
        "jd": "SELECT date_add(DATE'2023-12-26', CAST(id AS int)) AS day, "
        "year(date_add(DATE'2023-12-26', CAST(id AS int))) AS year FROM range(9)",
        "je": "SELECT CAST(id AS int) AS k, 'e' AS name FROM range(0)",
        "jl": "SELECT id % 6 AS k, concat('name', id % 5) AS name FROM range(10)",
        "jt": "SELECT CAST(id % 6 AS string) AS k, concat('name', id % 5) AS name FROM range(10)",
    }
    for name, text in dimensions.items():
        spark.sql(text).coalesce(1).write.parquet(str(folder / name))
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)

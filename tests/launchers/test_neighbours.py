"""Delta's and Iceberg's catalogs in Spark's own place, with projseg: each table is its format's.

Run by `make test-neighbours`, whose Spark all three know.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.spark]

HOME = Path(__file__).parents[2] / ".venvs/neighbours"
SETTINGS = {
    "delta": {
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    },
    "iceberg": {
        "spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog",
        "spark.sql.catalog.spark_catalog.type": "hadoop",
        "spark.sql.catalog.spark_catalog.warehouse": "iceberg",
    },
}
EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
_RUN = """
import json, os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from projseg.spark_datasource.extension import extension_jar, settings

given = json.load(sys.stdin)
own = settings(extension_jar())
extensions = [given["extension"], own["spark.sql.extensions"]]
own["spark.sql.extensions"] = ",".join(extensions if given["is_last"] else extensions[::-1])
own["spark.jars"] = ",".join([own["spark.jars"], *given["jars"]])
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for name, value in (own | given["settings"]).items():
    builder = builder.config(name, value)
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
told = []
for statement in given["statements"]:
    try:
        frame = spark.sql(statement)
        rows = [row.asDict(recursive=True) for row in frame.collect()]
        told.append({"rows": rows, "plan": frame._jdf.queryExecution().optimizedPlan().toString()})
    except Exception as error:
        told.append({"error": str(error)})
print("TOLD", json.dumps(told, default=str))
"""

# Each with what its rows have, or a word of its plan or error.
OWN = {
    "CREATE TABLE a (t timestamp, k string, n int) USING projseg": [],
    "INSERT INTO a VALUES (TIMESTAMP'2024-01-01', 'a', 1), (TIMESTAMP'2024-01-02', 'b', 2)": [],
    "ALTER TABLE a ADD PROJECTION by_k AS (SELECT k, sum(n) AS n GROUP BY k)": [{"version": 1}],
    "SELECT k, sum(n) AS n FROM a GROUP BY k ORDER BY k": "ProjsegAnswer",
    "SELECT k, n FROM default.a WHERE n > 1": [{"k": "b", "n": 2}],
    "ALTER TABLE a ADD COLUMNS (x int)": [],
    "ALTER TABLE a RENAME COLUMN x TO y": [],
    "DELETE FROM a WHERE k = 'a'": [{"num_affected_rows": 1}],
    "UPDATE a SET n = 5 WHERE k = 'b'": [{"num_affected_rows": 1}],
    "MERGE INTO a USING (SELECT 'b' AS k, 9 AS n) s ON a.k = s.k "
    "WHEN MATCHED THEN UPDATE SET n = s.n": "num_updated_rows",
    "SELECT n, y FROM a": [{"n": 9, "y": None}],
    "DESCRIBE HISTORY a": "Statement",
    "OPTIMIZE a": "Statement",
    "VACUUM a": "Statement",
    "VACUUM a RETAIN 200 HOURS DRY RUN": "Statement",
    "RESTORE TABLE a TO VERSION AS OF 4": [{"version": 7}],
    "RESTORE a TO TIMESTAMP AS OF '2999-01-01'": [{"version": 8}],
    "SELECT sum(n) AS n FROM a VERSION AS OF 1": [{"n": 3}],
    "INSERT OVERWRITE a SELECT TIMESTAMP'2024-01-02', 'z', 4, 1": [],
    "CREATE TABLE b USING projseg TBLPROPERTIES ('timeColumn' = 't') AS SELECT * FROM a": [],
    "SELECT k, sum(n) AS n FROM b GROUP BY k": [{"k": "z", "n": 4}],
    "CREATE OR REPLACE TABLE b USING projseg AS SELECT 1 AS n": [],
    "SELECT * FROM b": [{"n": 1}],
    "CREATE TEMPORARY VIEW seen AS SELECT n + 1 AS m FROM b": [],
    "INSERT INTO b VALUES (7)": [],
    "SELECT max(m) AS m FROM seen": [{"m": 8}],
    "WITH b AS (SELECT 0 AS n) SELECT n FROM b": [{"n": 0}],
    "TRUNCATE TABLE b": [{"num_affected_rows": 2}],
    "DESCRIBE EXTENDED a": "a",
    "SHOW CREATE TABLE a": "a",
    "DROP TABLE b": [],
    "SELECT n FROM b": "TABLE_OR_VIEW_NOT_FOUND",
}
THEIRS = {
    "CREATE TABLE d USING {format} AS SELECT 1 AS n, 'a' AS k": [],
    "INSERT INTO d VALUES (2, 'b')": [],
    "SELECT k, sum(n) AS n FROM d GROUP BY k ORDER BY k": [{"k": "a", "n": 1}, {"k": "b", "n": 2}],
    "SHOW PROJECTIONS FROM d": "PROJSEG_NOT_A_TABLE",
    "OPTIMIZE d FOR INTERVAL '2024/2025'": "PROJSEG_NOT_A_TABLE",
    "DELETE FROM d WHERE n = 2": "d",
}
OF_DELTA = {
    "OPTIMIZE d": "numFilesAdded",
    "VACUUM d DRY RUN": "path",
    "DESCRIBE HISTORY d": "CREATE TABLE AS SELECT",
    "RESTORE TABLE d TO VERSION AS OF 0": "table_size_after_restore",
    "SELECT count(*) AS n FROM d": [{"n": 1}],
    "DESCRIBE DETAIL d": "delta",
}
OF_ICEBERG = {
    "ALTER TABLE d ADD PARTITION FIELD k": [],
    "ALTER TABLE d CREATE BRANCH other": [],
    "CALL spark_catalog.system.rewrite_data_files('default.d')": "rewritten_data_files_count",
    "OPTIMIZE d": "PROJSEG_NOT_A_TABLE",
}


@pytest.mark.parametrize("is_last", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("neighbour", ["delta", "iceberg"])
def test_tables_of_several_formats_in_one_catalog(neighbour, is_last, tmp_path):
    cases = [*OWN.items(), *THEIRS.items()]
    cases += (OF_DELTA if neighbour == "delta" else OF_ICEBERG).items()
    given = {
        "extension": EXTENSIONS[neighbour],
        "is_last": is_last,
        "jars": [str(jar) for jar in (HOME / "jars").glob("*.jar") if neighbour in jar.name],
        "settings": SETTINGS[neighbour] | {"spark.sql.warehouse.dir": str(tmp_path / "warehouse")},
        "statements": [statement.replace("{format}", neighbour) for statement, _ in cases],
    }
    ran = subprocess.run(
        [HOME / "bin/python", "-c", _RUN],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    lines = [line for line in ran.stdout.splitlines() if "TOLD " in line]
    assert lines, ran.stderr[-2000:]
    told = json.loads(lines[0].partition("TOLD ")[2])
    wrong = [
        (statement, found)
        for (statement, expected), found in zip(cases, told, strict=True)
        if not (found.get("rows") == expected or is_in(expected, found))
    ]
    assert wrong == []


def is_in(expected, found):
    """Whether a code is in the error, or a word in what was told without one."""
    if not isinstance(expected, str):
        return False
    is_error = expected.startswith("PROJSEG_") or expected.endswith("NOT_FOUND")
    return ("error" in found) == is_error and expected in json.dumps(found)

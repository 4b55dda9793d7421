"""Delta and Iceberg tables that Spark itself writes, as sources: each answer is Spark's own.

Run by `make test-neighbours`, whose Spark knows both.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from foreign_source import asked, code_of, comparable
from test_neighbours import EXTENSIONS, HOME, SETTINGS

import projseg
from projseg import Projection

pytestmark = [pytest.mark.slow, pytest.mark.spark]

_LOOP = """
import json, os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for name, value in json.loads(sys.stdin.readline()).items():
    builder = builder.config(name, value)
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
for line in sys.stdin:
    try:
        rows = [list(row) for row in spark.sql(json.loads(line)).collect()]
        print("ROWS", json.dumps(rows, default=str), flush=True)
    except Exception as error:
        print("FAILED", str(error)[:2000].replace(chr(10), " "), flush=True)
"""
GROUPS = "SELECT k, sum(n) AS n, count(*) AS c FROM t GROUP BY k"
ROWS = "SELECT k, n FROM t WHERE n > 3"
BY_K = Projection("by_k", ["k"], ["sum(n) AS n", "count(*) AS c"])


class Session:
    """A session of Spark in a process of its own, with a neighbour's jars."""

    def __init__(self, neighbour, settings, folder):
        jars = [str(jar) for jar in (HOME / "jars").glob("*.jar") if neighbour in jar.name]
        given = {
            "spark.sql.extensions": EXTENSIONS[neighbour],
            "spark.jars": ",".join(jars),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            **settings,
        }
        self.errors = (folder / "errors").open("w+")
        self.process = subprocess.Popen(
            [HOME / "bin/python", "-c", _LOOP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=folder,
        )
        self.send(given)

    def send(self, value):
        self.process.stdin.write(json.dumps(value) + "\n")
        self.process.stdin.flush()

    def run(self, statement):
        self.send(statement)
        for line in self.process.stdout:
            word, _, rest = line.partition(" ")
            if word == "ROWS":
                return json.loads(rest)
            if word == "FAILED":
                pytest.fail(f"{statement}: {rest}")
        self.errors.seek(0)
        pytest.fail(self.errors.read()[-2000:])

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=60)
        self.errors.close()


def follow(session, name, opened, steps):
    """Change a table and ask it, synchronised after every second change."""
    for number, step in enumerate(steps):
        session.run(step)
        table = opened()
        if number % 2:
            table.sync()
            assert table.source.files_without_companion == 0
        for text in (GROUPS, ROWS):
            expected = session.run(text.replace("FROM t", f"FROM {name}"))
            assert asked(table, text) == comparable(map(tuple, expected)), (step, text)


def test_a_delta_table_of_spark_is_followed(tmp_path):
    settings = SETTINGS["delta"] | {
        "spark.databricks.delta.retentionDurationCheck.enabled": "false"
    }
    session = Session("delta", settings, tmp_path)
    try:
        place = tmp_path / "theirs"
        session.run(f"CREATE TABLE d (k string, n int) USING delta LOCATION '{place}'")
        session.run("INSERT INTO d VALUES ('a', 1), ('b', 2), (NULL, 3)")
        table = projseg.Table.attach(tmp_path / "ours", f"delta:{place}", projections=[BY_K])

        def opened():
            return projseg.Table(table.location)

        steps = [
            "INSERT INTO d SELECT chr(97 + id % 5), id FROM range(100)",
            "UPDATE d SET n = n + 1 WHERE k = 'a'",
            "DELETE FROM d WHERE n = 7",
            "MERGE INTO d USING (SELECT 'z' AS k, 9 AS n) s ON d.k = s.k "
            "WHEN NOT MATCHED THEN INSERT *",
            "OPTIMIZE d",
            "RESTORE TABLE d TO VERSION AS OF 2",
            "INSERT INTO d VALUES ('y', 40)",
            "VACUUM d RETAIN 0 HOURS",
            "INSERT OVERWRITE d SELECT 'x', id FROM range(10)",
        ]
        follow(session, "d", opened, steps)
        session.run("ALTER TABLE d SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        session.run("DELETE FROM d WHERE n = 4")
        assert code_of(opened) == "PROJSEG_SOURCE_DELETES"
        follow(session, "d", opened, ["INSERT OVERWRITE d SELECT 'w', id FROM range(9)"])
    finally:
        session.close()


def test_an_iceberg_table_of_spark_is_followed(tmp_path):
    pytest.importorskip("pyiceberg")
    from iceberg_source import NAME, catalog_properties, open_catalog

    settings = {
        "spark.sql.catalog.theirs": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.theirs.type": "hadoop",
        "spark.sql.catalog.theirs.warehouse": str(tmp_path / "theirs"),
    }
    session = Session("iceberg", settings, tmp_path)
    name, call = f"theirs.{NAME}", "CALL theirs.system"
    folder = tmp_path / "theirs" / NAME.replace(".", "/") / "metadata"
    properties = catalog_properties(tmp_path / "catalog")

    def metadata():
        return f"file://{folder}/v{Path(folder / 'version-hint.text').read_text()}.metadata.json"

    def opened():
        """Let our catalog name what theirs does, which is a folder, and open the table."""
        with closing(sqlite3.connect(tmp_path / "catalog" / "catalog.db")) as connection:
            connection.execute("UPDATE iceberg_tables SET metadata_location = ?", (metadata(),))
            connection.commit()
        return projseg.Table(tmp_path / "ours", source_options=properties)

    try:
        session.run(f"CREATE TABLE {name} (k string, n int) USING iceberg")
        session.run(f"INSERT INTO {name} VALUES ('a', 1), ('b', 2), (NULL, 3)")
        with closing(open_catalog(properties)) as catalog:
            catalog.create_namespace("sales")
            catalog.register_table(NAME, metadata())
        projseg.Table.attach(
            tmp_path / "ours", f"iceberg:{NAME}", source_options=properties, projections=[BY_K]
        )
        kept = session.run(f"SELECT snapshot_id FROM {name}.snapshots")[0][0]
        steps = [
            f"INSERT INTO {name} SELECT chr(97 + id % 5), id FROM range(100)",
            f"UPDATE {name} SET n = n + 1 WHERE k = 'a'",
            f"DELETE FROM {name} WHERE n = 7",
            f"ALTER TABLE {name} ADD PARTITION FIELD k",
            f"MERGE INTO {name} d USING (SELECT 'z' AS k, 9 AS n) s ON d.k = s.k "
            "WHEN NOT MATCHED THEN INSERT *",
            f"{call}.rewrite_data_files(table => '{NAME}', options => map('rewrite-all', 'true'))",
            f"{call}.rollback_to_snapshot('{NAME}', {kept})",
            f"INSERT INTO {name} VALUES ('y', 40), ('a', 5)",
            f"{call}.expire_snapshots(table => '{NAME}', older_than => now(), retain_last => 1)",
            f"ALTER TABLE {name} ADD COLUMN x int",
            f"ALTER TABLE {name} RENAME COLUMN x TO y",
            f"INSERT OVERWRITE {name} SELECT 'x', id, 1 FROM range(10)",
        ]
        follow(session, name, opened, steps)
        assert opened().schema.names == ["k", "n", "y"]
        session.run(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        session.run(f"DELETE FROM {name} WHERE n = 4")
        assert code_of(opened) == "PROJSEG_SOURCE_DELETES"
        follow(session, name, opened, [steps[5]])  # its deletes name no file of it by now
    finally:
        session.close()

"""Applications of Spark over a catalog: one is killed amid a statement, one could show a token."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from catalog_servers import started_server

import projseg

pytest.importorskip("starlette")
pytestmark = pytest.mark.slow
START = """
import json, sys, time
import projseg
from pyspark.sql import SparkSession

settings = json.loads(sys.argv[1])
builder = projseg.configure(SparkSession.builder.master("local[2]"))
for key, value in settings.items():
    builder = builder.config(key, value)
house = "spark.sql.catalog.house"
builder = builder.config(house, "org.apache.spark.sql.projseg.ProjsegCatalog")
spark = builder.getOrCreate()
"""
KILLED = """
def slow(number):
    time.sleep(600)

spark.udf.register("slow", slow, "bigint")
spark.sql(sys.argv[2])
"""
CREATE = "CREATE TABLE house.default.new AS SELECT slow(id) AS x FROM range(10)"
REPLACE = (
    "CREATE OR REPLACE TABLE house.default.old TBLPROPERTIES ('targetSegmentRows' = '1000') "
    "AS SELECT id AS x FROM range(0, 5000000, 1, 2)"
)
SHOWN = """
for text in (
    "CREATE TABLE house.s.t (a INT, k STRING)", "INSERT INTO house.s.t VALUES (1, 'x')",
    "CREATE TABLE house.s.u AS SELECT a + 1 AS a FROM house.s.t", "SHOW CREATE TABLE house.s.t",
    "SHOW TBLPROPERTIES house.s.t", "DESCRIBE EXTENDED house.s.t", "SHOW TABLES IN house.s",
    "EXPLAIN EXTENDED SELECT k, sum(a) FROM house.s.t GROUP BY k", "SELECT * FROM house.s.t",
    "EXPLAIN FORMATTED INSERT INTO house.s.t SELECT a, 'y' FROM house.s.u", "SET -v",
    "SELECT * FROM house.information_schema.columns", "SELECT count(*) FROM house.s.t.segments",
    "DELETE FROM house.s.t WHERE a = 1", "SELECT none FROM house.s.t",
    "SELECT * FROM house.other.t", "CREATE TABLE house.other.t (a INT)",
):
    try:
        spark.sql(text).show(1000, False)
    except Exception as error:
        print("refused:", error)
context = spark.sparkContext
print("ADDRESS", context.uiWebUrl, context.applicationId, flush=True)
sys.stdin.read()
spark.stop()
"""


def started(code, settings, *words, **pipes):
    """Start an application in a group of processes of its own."""
    words = [sys.executable, "-c", START + code, json.dumps(settings), *words]
    own = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen(words, env=own, start_new_session=True, **pipes)


@pytest.fixture
def house(tmp_path):
    """A catalog with a table of one row."""
    with projseg.Catalog(tmp_path / "house.db", warehouse=tmp_path / "tables") as house:
        house.create("old", {"columns": [{"name": "x", "sqlType": "bigint"}]})
        house.table("old").append({"x": [7]})
        yield house


def kill_amid(tmp_path, statement, is_amid, folder):
    """Run a statement, and kill all of its processes once `is_amid`; wait for the last file."""
    settings = {"spark.ui.enabled": "false", "spark.driver.memory": "1g"}
    for key, value in (("uri", "house.db"), ("warehouse", "tables")):
        settings[f"spark.sql.catalog.house.{key}"] = str(tmp_path / value)
    application = started(KILLED, settings, statement)
    try:
        while not is_amid():
            assert application.poll() is None, "it ended before it was killed"
            time.sleep(0.05)
    finally:
        os.killpg(application.pid, signal.SIGKILL)
        application.wait()
    files = None
    while files != (files := set(Path(folder()).rglob("*"))):
        time.sleep(3)  # Spark's workers in Python end when they miss the killed process


def test_a_kill_amid_a_new_table_of_a_query(tmp_path, house):
    """While its query computes."""
    before = [one.to_json() for one in house.tables()]
    kill_amid(tmp_path, CREATE, house.store.staged, lambda: house.store.staged()[0].location)
    (staged,) = house.store.staged()
    assert [one.to_json() for one in house.tables()] == before
    assert house.gc(dry_run=False).num_rows == 0, "it may still be written"
    older = "UPDATE definitions SET created_us = created_us - 86400001000"
    house.store.database.edit(lambda c: c.exec_driver_sql(older), lambda _: True)
    assert house.gc(dry_run=False)["location"].to_pylist() == [staged.location]
    assert not os.path.exists(staged.location)
    assert house.sql("SELECT x FROM old").to_pylist() == [{"x": 7}]


def test_a_kill_amid_a_replaced_table_of_a_query(tmp_path, house):
    """While its files are written, of which there are some, into the table's own folder."""
    before = [one.to_json() for one in house.tables()]
    table = house.table("old")
    folder = Path(table.location)
    known = set(folder.rglob("*.pseg"))
    kill_amid(tmp_path, REPLACE, lambda: set(folder.rglob("*.pseg")) > known, lambda: folder)
    assert [one.to_json() for one in house.tables()] == before
    assert house.sql("SELECT x FROM old").to_pylist() == [{"x": 7}]
    assert house.store.staged() == []
    table.vacuum(0, dry_run=False, force=True)
    assert set(folder.rglob("*.pseg")) == known
    assert house.sql("SELECT x FROM old").to_pylist() == [{"x": 7}]


def test_nothing_that_spark_shows_or_keeps_has_a_token(tmp_path):
    (tmp_path / "log").mkdir()
    with projseg.Catalog(tmp_path / "house.db") as house:
        house.admin.create_tenant("default", str(tmp_path / "tables"))
        house.create_namespace("s")
        house.admin.create_principal("ada")
        house.admin.grant("ada", "WRITE", r"s\..*")
        _, token = house.admin.create_token("ada")
        with started_server(house) as port:
            settings = {
                "spark.sql.catalog.house.uri": f"http://127.0.0.1:{port}",
                "spark.sql.catalog.house.token": token,
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": (tmp_path / "log").as_uri(),
                "spark.eventLog.compress": "false",
                "spark.ui.port": "0",
            }
            pipe = subprocess.PIPE
            with started(
                SHOWN, settings, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True
            ) as application:
                told = []
                for line in application.stdout:
                    told.append(line)
                    if line.startswith("ADDRESS"):
                        break
                _, address, own = told[-1].split()
                rest = f"/api/v1/applications/{own}"
                paths = ["/environment/", "/SQL/", "/jobs/", "/stages/", f"{rest}/environment"]
                paths += [f"{rest}/sql?details=true&planDescription=true&length=100"]
                paths += [f"/SQL/execution/?id={number}" for number in range(12)]
                shown = []
                for path in paths:
                    with urllib.request.urlopen(address + path) as reply:
                        shown.append(reply.read().decode())
                told += application.communicate()[0]
        assert application.returncode == 0
    kept = [one.read_text() for one in (tmp_path / "log").rglob("*") if one.is_file()]
    assert "refused:" in "".join(told)
    assert "house.s.t" in "".join(kept)
    assert "spark.sql.catalog.house.token" in shown[4], "it is named, and hidden"
    _, _, secret = token.partition(".")
    for text in (*told, *shown, *kept):
        assert secret not in text
    assert "PROJSEG_PERMISSION_DENIED" in "".join(told)

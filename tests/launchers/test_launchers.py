"""Plain SQL from all that starts Spark: the SQL shell, Thrift server, Connect, a cluster.

Each is started as its user would, from PySpark's own scripts, with the settings that
`projseg extension build` prints in `spark-defaults.conf`'s form.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import projseg

pytestmark = [pytest.mark.slow, pytest.mark.spark]

CONNECT = Path(__file__).parents[2] / ".venvs/connect/bin/python"
SECONDS = 300
BY_CHANNEL = "SELECT channel, count(*) FROM edits GROUP BY channel ORDER BY channel"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Return a folder with a table, the same rows as Parquet, and `spark-defaults.conf`."""
    folder = tmp_path_factory.mktemp("launchers")
    chance = random.Random(1)
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    minutes = [chance.randrange(5 * 24 * 60) for _ in range(10_000)]
    rows = pa.table(
        {
            "time": pa.array(
                [start + datetime.timedelta(minutes=one) for one in minutes],
                pa.timestamp("us", tz="UTC"),
            ),
            "channel": [f"c{chance.randrange(5)}" for _ in minutes],
            "added": pa.array([chance.randrange(1000) for _ in minutes], pa.int64()),
        }
    )
    table = projseg.Table.create(
        folder / "edits",
        schema=rows.schema,
        time_column="time",
        segment_granularity="day",
        projections=[
            {"name": "by_channel", "sql": "SELECT channel, sum(added), count(*) GROUP BY ALL"}
        ],
    )
    table.append(rows)
    pq.write_table(rows, folder / "edits.parquet")

    ran = subprocess.run(
        [sys.executable, "-m", "projseg", "extension", "build", "--folder", folder / "jar"],
        capture_output=True,
        text=True,
        check=True,
    )
    settings = [json.loads(line) for line in ran.stdout.splitlines()]
    lines = [f"{one['setting']} {one['value']}" for one in settings]
    lines += ["spark.ui.enabled false", "spark.sql.shuffle.partitions 2"]
    (folder / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def counted(work):
    """Return how many rows each channel has, without projseg and Spark."""
    channels = pq.read_table(work / "edits.parquet")["channel"].to_pylist()
    return sorted(Counter(channels).items())


def home():
    import pyspark

    return Path(pyspark.__file__).parent


def launched(work, *words, script="spark-submit"):
    """Return the command that runs a script of PySpark with the settings."""
    settings = ["--properties-file", str(work / "spark-defaults.conf")]
    return [str(home() / "bin" / script), *settings, *map(str, words)]


def environment():
    import pyspark

    return {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
    }


def run(command, cwd):
    """Return what a command prints; show it all if it fails."""
    ran = subprocess.run(
        command,
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def serving(command, port, folder):
    """Run a server until the block ends; the block starts when the port answers."""
    folder.mkdir()
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment(), stdout=log, stderr=log)
        try:
            end = time.monotonic() + SECONDS
            while not _answers(port):
                assert server.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < end, (folder / "log").read_text()
                time.sleep(0.2)
            yield
        finally:
            server.terminate()
            server.wait(SECONDS)


def _answers(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def create(work, name="edits"):
    return (
        f"CREATE TABLE {name} (time timestamp, channel string, added bigint) "
        f"USING projseg LOCATION '{work}/edits'"
    )


def test_the_sql_shell(work, counted, tmp_path):
    script = tmp_path / "script.sql"
    statements = [create(work), BY_CHANNEL, f"EXPLAIN {BY_CHANNEL}", "SHOW PROJECTIONS FROM edits"]
    script.write_text(";\n".join(statements) + ";\n")
    command = launched(work, "--master", "local[2]", "-f", script, script="spark-sql")
    said = run(command, tmp_path)
    rows = [tuple(line.split("\t")) for line in said.splitlines()]
    assert rows[:5] == [(channel, str(count)) for channel, count in counted]
    assert "5 x by_channel" in said
    assert [row[0] for row in rows if row[0] == "by_channel"] == ["by_channel"]


def test_the_thrift_server_and_a_jdbc_client(work, counted, tmp_path):
    port = free_port()
    server = launched(
        work,
        "--master",
        "local[2]",
        "--class",
        "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2",
        "--conf",
        f"spark.hadoop.hive.server2.thrift.port={port}",
        "--conf",
        "spark.hadoop.hive.server2.thrift.bind.host=127.0.0.1",
        "spark-internal",
    )
    script = tmp_path / "script.sql"
    hours = "SELECT hour(time), count(*) GROUP BY ALL"
    add = f"ALTER TABLE edits ADD PROJECTION IF NOT EXISTS hours AS ({hours})"
    statements = [create(work), BY_CHANNEL, f"EXPLAIN {BY_CHANNEL}", add, "DESCRIBE HISTORY edits"]
    script.write_text(";\n".join(statements) + ";\n")
    with serving(server, port, tmp_path / "server"):
        beeline = [str(home() / "bin/beeline"), "-u", f"jdbc:hive2://127.0.0.1:{port}"]
        said = run([*beeline, "--outputformat=tsv2", "-n", "me", "-f", str(script)], tmp_path)
    lines = [tuple(line.split("\t")) for line in said.splitlines()]
    counts = [line for line in lines if line[0].startswith("c") and len(line) == 2]
    assert counts == [(channel, str(count)) for channel, count in counted]
    assert "5 x by_channel" in said
    assert any("add projection" in line for line in lines)


CLUSTER = """
import sys
from pyspark.sql import SparkSession, functions as F

work = sys.argv[1]
spark = SparkSession.builder.getOrCreate()
assert spark.sparkContext.master.startswith("local-cluster")
edits = spark.read.format("projseg").load(work + "/edits")
rows = spark.read.parquet(work + "/edits.parquet")
def grouped(frame):
    return frame.groupBy("channel").agg(F.sum("added"), F.count("*"), F.avg("added"))
def sorted_rows(frame):
    return sorted(map(tuple, frame.collect()))
for is_local in ("true", "false"):
    spark.conf.set("spark.projseg.local.enabled", is_local)
    assert sorted_rows(grouped(edits)) == sorted_rows(grouped(rows))
    columns = ("channel", "added")
    assert sorted_rows(edits.select(*columns)) == sorted_rows(rows.select(*columns))
    plan = edits.groupBy("channel").count()._jdf.queryExecution().toString()
    assert ("ProjsegAnswer" in plan) == (is_local == "true")
written = rows.write.format("projseg").mode("append").option("timeColumn", "time")
written.option("segmentGranularity", "day").save(work + "/written")
assert spark.read.format("projseg").load(work + "/written").count() == rows.count()
print("all equal")
"""


def test_a_submitted_script_on_a_cluster_of_two_workers(work, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(CLUSTER)
    shutil.rmtree(work / "written", ignore_errors=True)
    said = run(launched(work, "--master", "local-cluster[2,1,1024]", script, work), tmp_path)
    assert "all equal" in said


CLIENT = """
import sys
from pyspark.sql import SparkSession, functions as F

port, work = sys.argv[1:]
spark = SparkSession.builder.remote("sc://127.0.0.1:" + port).getOrCreate()
edits = spark.read.format("projseg").load(work + "/edits")
rows = edits.groupBy("channel").count().orderBy("channel")
print([tuple(row) for row in rows.collect()])
rows.explain()
spark.sql("SHOW PROJECTIONS FROM projseg.`" + work + "/edits`").show()
spark.read.parquet(work + "/edits.parquet").write.format("projseg").mode("append").option(
    "timeColumn", "time").save(work + "/connected")
print("written", spark.read.format("projseg").load(work + "/connected").count())
"""


def test_a_connect_client(work, counted, tmp_path):
    assert CONNECT.exists(), "`make test-launchers` makes the environment of the Connect client"
    port = free_port()
    server = launched(
        work,
        "--master",
        "local[2]",
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf",
        f"spark.connect.grpc.binding.port={port}",
        "spark-internal",
    )
    script = tmp_path / "client.py"
    script.write_text(CLIENT)
    with serving(server, port, tmp_path / "server"):
        said = run([str(CONNECT), str(script), str(port), str(work)], tmp_path)
    assert str(counted) in said
    assert "5 x by_channel" in said
    assert "written 10000" in said

"""Workers born from the daemon have the engine already, and behave as Spark's own do."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import pytest

from projseg.spark_datasource.daemon import prefer_unpacked_spark

_IMPORT = """
import json, os, sys, threading
from projseg.spark_datasource import daemon
early = [name for name in ("pyspark", "numba", "pyarrow") if name in sys.modules]
daemon.import_engine()
late = ("numba", "projseg.writer.segment_writer", "projseg.aggregation.hash_sketches")
late = [name for name in late if name in sys.modules]
threads = [thread.name for thread in threading.enumerate()]
child = os.fork()
if child == 0:
    import pyarrow as pa
    import pyarrow.compute as pc
    from projseg.reader.threads import Workers
    assert pc.sum(pa.chunked_array([pa.array(range(1000))] * 100)).as_py() == 49_950_000
    os._exit(0)
print(json.dumps([early, late, threads, os.waitpid(child, 0)[1]]))
"""
_NOISY = """
import sys, types
from projseg.spark_datasource import daemon
def import_engine():
    print("printed")
    raise RuntimeError("broken")
daemon.import_engine = import_engine
fake = sys.modules["pyspark.daemon"] = types.ModuleType("pyspark.daemon")
fake.manager = lambda: print("port")
daemon.main()
"""
_SPARK = """
import json, os, sys
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
import projseg
from pyspark.sql import SparkSession

location = sys.argv[1]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.warehouse.dir", location + "-warehouse")
    .config("spark.python.daemon.module", "projseg.spark_datasource.daemon")
    .getOrCreate()
)
rows = spark.range(20_000).selectExpr("timestamp_seconds(id) AS time", "id % 7 AS key", "id")
projseg.write(rows.repartition(4), location, time_column="time", segment_granularity="hour")
answers = []
for _ in range(3):
    answers.append(
        [
            projseg.read(spark, location, group_by="key", aggregators="sum(id) AS total")
            .orderBy("key").collect(),
            spark.read.format("projseg").load(location).repartition(3).count(),
        ]
    )
assert answers[0] == answers[1] == answers[2]

def modules_at_birth(numbers):
    import gc, sys
    list(numbers)
    yield "projseg.reader.run_plan" in sys.modules, gc.get_freeze_count() > 10_000

births = spark.sparkContext.parallelize(range(4), 2).mapPartitions(modules_at_birth).collect()
print(json.dumps([[list(row) for row in answers[0][0]], answers[0][1], births]))
spark.stop()
"""


def run(code, *arguments):
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def test_the_engine_is_imported_without_a_thread_of_its_own():
    late = ["numba", "projseg.writer.segment_writer", "projseg.aggregation.hash_sketches"]
    assert json.loads(run(_IMPORT).stdout) == [[], late, ["MainThread"], 0]


def test_an_engine_that_prints_and_breaks_keeps_no_worker_from_starting():
    told = run(_NOISY)
    assert told.stdout == "port\n"
    assert "printed" in told.stderr
    assert "RuntimeError: broken" in told.stderr


@pytest.mark.slow
@pytest.mark.spark
def test_spark_writes_and_reads_with_workers_of_the_daemon(tmp_path):
    told = run(_SPARK, str(tmp_path / "t"))
    totals = [[key, sum(range(key, 20_000, 7))] for key in range(7)]
    assert json.loads(told.stdout.splitlines()[-1]) == [totals, 20_000, [[True, True]] * 2]


@pytest.mark.parametrize(
    ("installed", "is_moved"),
    [
        pytest.param({"pyspark/a.py": "1", "pyspark/b.py": "22"}, True, id="the same"),
        pytest.param({"pyspark/a.py": "1", "pyspark/b.py": "2"}, False, id="another"),
        pytest.param({"pyspark/a.py": "1"}, False, id="less"),
        pytest.param({}, False, id="nothing"),
    ],
)
def test_zipped_sources_go_last_where_the_same_are_installed(tmp_path, installed, is_moved):
    archive = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for name, text in {"a.py": "1", "b.py": "22", "tests/c.py": "3"}.items():
            opened.writestr(f"pyspark/{name}", text)
    for name, text in installed.items():
        path = tmp_path / "installed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    path = [str(archive), "mine.zip", str(tmp_path / "installed")]
    expected = [*path[1:], path[0]] if is_moved else list(path)
    prefer_unpacked_spark(path)
    assert path == expected


def test_a_damaged_archive_stays_where_it_is(tmp_path):
    (tmp_path / "pyspark.zip").write_text("no archive")
    path = [str(tmp_path / "pyspark.zip"), str(tmp_path)]
    prefer_unpacked_spark(path)
    assert path == [str(tmp_path / "pyspark.zip"), str(tmp_path)]

"""Workers that Spark forks collect no garbage among what they imported; other processes do."""

import gc
import subprocess
import sys

import pytest

from projseg.spark_datasource.python_workers import freeze_imports

pytestmark = pytest.mark.spark

# What a daemon of workers looks like to a module: Python ran it by `-m`, under this name.
AS_DAEMON = """
import gc, importlib.machinery, sys
sys.modules["__main__"].__spec__ = importlib.machinery.ModuleSpec({name!r}, None)
from projseg.spark_datasource.python_workers import freeze_imports
freeze_imports()
frozen = gc.get_freeze_count()
held = [[] for _ in range(1000)]
freeze_imports()
print(frozen > 1000, gc.get_freeze_count() <= frozen)
"""


def test_only_workers_freeze_what_they_imported_and_once():
    before = gc.get_freeze_count()
    freeze_imports()
    assert gc.get_freeze_count() == before
    names = ["pyspark.daemon", "projseg.spark_datasource.daemon", "app"]
    told = []
    for name in names:
        ran = subprocess.run(
            [sys.executable, "-c", AS_DAEMON.format(name=name)],
            capture_output=True,
            text=True,
            check=True,
        )
        told.append(ran.stdout.split())
    assert told == [["True", "True"], ["True", "True"], ["False", "True"]]


def test_what_plans_in_spark_freezes(spark, tmp_path):
    from pyspark.sql.datasource import DataSource

    import projseg
    from projseg.spark_datasource.datasource import ProjsegDataSource

    projseg.write(spark.range(3), tmp_path / "t")

    class Told(ProjsegDataSource, DataSource):
        @classmethod
        def name(cls):
            return "told"

        def schema(self):
            import gc

            super().schema()
            return f"n{gc.get_freeze_count() > 1000} int"

    spark.dataSource.register(Told)
    assert spark.read.format("told").load(str(tmp_path / "t")).columns == ["nTrue"]

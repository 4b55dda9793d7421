"""The engine process may hang, or answer too much: statements go on without it."""

from __future__ import annotations

import subprocess
import threading
import time

import pytest
from spark_sql import plan_of, using

import projseg

GROUPED = "SELECT n % 1000 AS k, count(*) AS c FROM limited_rows GROUP BY 1"


@pytest.fixture(scope="module")
def view(spark, tmp_path_factory):
    location = str(tmp_path_factory.mktemp("limits") / "table")
    rows = spark.range(0, 200_000, 1, 1).selectExpr("id AS n", "concat('k', id) AS k")
    projseg.write(rows, location)
    with using(spark, enabled="true"):
        frame = spark.read.format("projseg").load(location)
        frame.createOrReplaceTempView("limited_rows")
    return location


@pytest.fixture(params=["silent", "in the middle of a reply"])
def hanging(request, tmp_path):
    """An engine that never replies, or not to the end."""
    path = tmp_path / "python"
    start = r"printf '\000\000\000\377{'" if request.param != "silent" else "true"
    path.write_text(f"#!/bin/sh\n{start}\nexec sleep 5077\n")
    path.chmod(0o755)
    return str(path)


def sleeping():
    found = subprocess.run(["pgrep", "-f", "sleep 5077"], capture_output=True, check=False)
    return found.stdout.split()


def test_an_engine_that_hangs_is_stopped_and_spark_answers(spark, view, hanging):
    with using(spark, enabled="true", python=hanging, local_timeout="300ms"):
        frame = spark.sql(GROUPED)
        assert "the engine took longer than spark.projseg.local.timeout" in str(
            frame._jdf.queryExecution().executedPlan()
        )
        assert {row.c for row in frame.collect()} == {200}
        assert frame.count() == 1000
        assert not sleeping()
        assert projseg.query_log(spark).filter("answered = 'not'").tail(1)[0].reasons


def test_a_statement_that_waits_for_the_engine_can_be_interrupted(spark, view, hanging):
    failures = []

    def ask():
        try:
            spark.sql(GROUPED)._jdf.queryExecution().optimizedPlan()
        except Exception as error:  # noqa: BLE001 - told to the test
            failures.append(str(error))

    with using(spark, enabled="true", python=hanging, local_timeout="10m"):
        asking = threading.Thread(target=ask)
        asking.start()
        while not sleeping():
            time.sleep(0.05)
        interrupted = _interrupt_those_that_ask(spark)
        asking.join()
    assert interrupted == 1
    assert len(failures) == 1
    assert not sleeping()


def _interrupt_those_that_ask(spark):
    count = 0
    for _ in range(20):
        for thread in spark._jvm.java.lang.Thread.getAllStackTraces().keySet():
            if any("EngineProcess" in str(frame) for frame in thread.getStackTrace()):
                thread.interrupt()
                count += 1
        if count:
            break
        time.sleep(0.05)
    return count


def test_an_answer_larger_than_the_driver_should_hold_is_shared(spark, view):
    text = "SELECT k, sum(n) FROM limited_rows GROUP BY k"
    with using(spark, enabled="true", local_maxRows="10000000", local_maxBytes="3m"):
        shared = spark.sql(text)
        assert "ProjsegAnswer" not in plan_of(shared)
        assert shared.count() == 200_000
    with using(spark, enabled="true", local_maxRows="10000000", local_maxBytes="64m"):
        assert "ProjsegAnswer" in plan_of(spark.sql(text))

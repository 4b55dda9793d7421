"""A program whose Spark tasks kill their executors; a test runs it on a cluster.

python hurt_jobs.py MASTER FOLDER ROUNDS

Only first attempts do, a part of them, each at a moment of its own. A round appends, builds a
projection and compacts; after each of them the table must hold every row once. Each kill leaves a
file in FOLDER/hurt.
"""

import os
import random
import signal
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import projseg
from projseg.maintenance.compact import Compaction
from projseg.maintenance.materialize_projections import Materialization
from projseg.maintenance.replace_segments import Replacement
from projseg.spark_datasource.rewrite_runner import SparkRunner

DAYS = 3
TASKS = 4
ROWS = 3600  # of an append; each task has some of each day, for three segments
SECONDS_AFTERWARDS = 6
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"  # an executor that starts sooner
MOMENTS = ("before", "during", "after")


@dataclass(frozen=True)
class Hurt:
    """What befalls the first attempts of some tasks."""

    folder: str
    share: float
    seed: str

    def moment(self, what):
        """Return when a task is hurt; None: never."""
        context = TaskContext.get()
        chance = random.Random(f"{self.seed} {what}")
        if context.attemptNumber() > 0 or chance.random() >= self.share:
            return None
        return chance.choice(MOMENTS)

    def strike(self, moment):
        """Kill the executor of the task that calls this, which may go on for a moment."""
        Path(self.folder, "hurt", f"{moment}-{uuid.uuid4().hex}").touch()
        os.kill(executor(), signal.SIGKILL)
        time.sleep(SECONDS_AFTERWARDS)


def executor():
    """Return the process id of the executor whose Python worker calls this."""
    process = os.getpid()
    while process > 1:
        if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes():
            return process
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    raise RuntimeError("no executor is above this process")


@dataclass(frozen=True)
class HurtTask:
    """A task of a rewrite that may be hurt."""

    task: object
    hurt: Hurt

    @property
    def key(self):
        return self.task.key

    @property
    def replaced(self):
        return self.task.replaced

    def write(self, file, pool):
        moment = self.hurt.moment([entry.row_count for entry in self.replaced] + [file.name])
        if moment == "before":
            self.hurt.strike(moment)
        if moment == "during":
            threading.Timer(random.random() / 10, self.hurt.strike, [moment]).start()
        entry = self.task.write(file, pool)
        if moment == "after":
            self.hurt.strike(moment)
        return entry


@dataclass(frozen=True)
class HurtRewrite:
    """A rewrite some of whose tasks are hurt."""

    rewrite: object
    hurt: Hurt

    def plan(self, target):
        return [HurtTask(task, self.hurt) for task in self.rewrite.plan(target)]

    def task(self, target, replaced):
        return HurtTask(self.rewrite.task(target, replaced), self.hurt)


def append(spark, location, number, hurt):
    """Append rows by tasks of which some are hurt while they write."""

    def at_row(row):
        partition = TaskContext.get().partitionId()
        chance = random.Random(f"{hurt.seed} {partition}")
        if TaskContext.get().attemptNumber() == 0 and chance.random() < hurt.share:
            first = number * ROWS + partition * (ROWS // TASKS)
            if row == first + chance.randrange(ROWS // TASKS):
                hurt.strike("during")
        return row

    passing = F.udf(at_row, "bigint", useArrow=False).asNondeterministic()
    rows = spark.range(number * ROWS, (number + 1) * ROWS, 1, TASKS).select(
        passing("id").alias("n")
    )
    rows = rows.selectExpr(
        f"timestamp_micros(1714521600000000 + (n % {DAYS}) * 86400000000 + n) AS time",
        "n",
        "concat('#', n % 7) AS channel",
    )
    rows.write.format("projseg").mode("append").save(location)


def must_hold(location, row_count):
    """Say so if a row is lost or doubled, in base rows or in projections."""
    table = projseg.Table(location)
    wanted = {"rows": row_count, "sum": row_count * (row_count - 1) // 2, "distinct": row_count}
    asked = "count(*) AS rows, sum(n) AS sum, count(DISTINCT n) AS distinct"
    found = table.query(aggregators=asked).to_pylist()[0]
    assert found == wanted, (found, wanted)
    for context in ({}, {"noProjections": True}):
        by_channel = table.query("channel", "count(*) AS n", order_by="channel", context=context)
        counts = [len(range(one, row_count, 7)) for one in range(7)]
        assert by_channel["n"].to_pylist() == counts, (context, by_channel)


def tell(folder, what, started):
    """Say how far the round is."""
    hurts = len(os.listdir(f"{folder}/hurt"))
    print(f"{what}, {hurts} hurt so far, {time.monotonic() - started:.0f} s", flush=True)


def main(master, folder, rounds):
    location = f"{folder}/table"
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.executor.memory": "600m",
        "spark.executor.extraJavaOptions": JAVA,
        "spark.driver.memory": "600m",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        "spark.deploy.maxExecutorRetries": "-1",
        "spark.python.daemon.module": "projseg.spark_datasource.daemon",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    runner = SparkRunner.of(spark)
    projseg.Table.create(
        location,
        {"time": "timestamp", "n": "bigint", "channel": "string"},
        time_column="time",
        segment_granularity="day",
        target_segment_rows=100,
    )
    for number in range(int(rounds)):
        started, row_count = time.monotonic(), (number + 1) * ROWS

        def hurt(share, what, number=number):
            return Hurt(folder, share, f"{number} {what}")

        append(spark, location, number, hurt(0.5, "append"))
        tell(folder, "appended", started)
        must_hold(location, row_count)
        grouping = f"SELECT channel, n % {number + 2} AS part, count(*) AS n GROUP BY ALL"
        projseg.Table(location).add_projection({"name": f"p{number}", "sql": grouping})
        table = projseg.Table(location)
        rewrite = HurtRewrite(Materialization(), hurt(0.08, "build"))
        built = Replacement(table.snapshot, rewrite, "build", runner).run()[1]
        assert len(built) == len(table.snapshot.segments)
        tell(folder, f"built {len(built)}", started)
        must_hold(location, row_count)
        rewrite = HurtRewrite(Compaction(None, 10**6), hurt(0.5, "compact"))
        table = projseg.Table(location)
        merged = Replacement(table.snapshot, rewrite, "compact", runner).run()[1]
        assert len(merged) == DAYS
        must_hold(location, row_count)
        tell(folder, f"merged into {len(merged)}", started)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

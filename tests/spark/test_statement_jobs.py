"""OPTIMIZE and MATERIALIZE PROJECTION of the extension, done by the tasks of Spark jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from life_tables import BY_CHANNEL, HOURLY, answers, new_table, rows, sources, stored_rows
from pyspark import InheritableThread
from pyspark.errors import IllegalArgumentException
from spark_sql import using

import projseg
from projseg.spark_engine.engine import reply_to

pytestmark = pytest.mark.spark

BATCHES = [rows(n % 3, count=7, first=n * 7) for n in range(9)]


@pytest.fixture
def sql(spark):
    with using(spark, enabled="true", local_maxBytes="0"):
        yield spark.sql


@pytest.fixture
def table(tmp_path):
    """Nine small segments of three days, a projection that they lack, and deleted rows."""
    return filled(tmp_path / "it's a `table` of edits")


def filled(location):
    made = new_table(location, projections=[HOURLY])
    for batch in BATCHES:
        made.append(batch)
    made.add_projection(BY_CHANNEL)
    made.delete("page = 'page 3'", interval="2024-05-01/P1D")
    return made


def named(table):
    return "projseg.`" + str(table.location).replace("`", "``") + "`"


@contextmanager
def tasks_of(spark):
    """Yield a list that takes the number of tasks of each job that was run."""
    group, counts = uuid.uuid4().hex, []
    spark.sparkContext.setJobGroup(group, "counted")
    try:
        yield counts
    finally:
        tracker = spark.sparkContext.statusTracker()
        for job in sorted(tracker.getJobIdsForGroup(group)):
            (stage,) = tracker.getJobInfo(job).stageIds
            counts.append(tracker.getStageInfo(stage).numTasks)
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        spark.sparkContext.setLocalProperty("spark.job.description", None)


def files_of(table):
    return {f"data/{path.name}" for path in Path(table.location, "data").iterdir()}


def listed(table):
    """The files that any version lists."""
    versions = [
        projseg.Table(table.location, number).snapshot for number in range(table.version + 1)
    ]
    entries = [entry for version in versions for entry in version.segments]
    vectors = [entry.deletion_vector.file for entry in entries if entry.deletion_vector]
    return {entry.file for entry in entries} | set(vectors)


def test_statements_do_in_tasks_what_threads_do(spark, sql, table, tmp_path):
    threads, before = filled(tmp_path / "threads"), stored_rows(table)
    steps = {
        "ALTER TABLE {} MATERIALIZE PROJECTION by_channel FOR INTERVAL '2024-05-01/P2D'": (
            6,
            lambda: threads.materialize_projection("by_channel", "2024-05-01/P2D"),
        ),
        "ALTER TABLE {} MATERIALIZE PROJECTION by_channel": (
            3,
            lambda: threads.materialize_projection("by_channel"),
        ),
        "OPTIMIZE {}": (3, threads.compact),
    }
    for statement, (task_count, here) in steps.items():
        with tasks_of(spark) as counts:
            found = sql(statement.format(named(table))).collect()
        assert counts == [task_count]
        made = here()
        assert found == [(made.version, made.segments, made.rows)]
        table.refresh()
        assert sources(table) == sources(threads)
        assert stored_rows(table) == before
        assert answers(table) == answers(threads) == answers(table, noProjections=True)
        last, other = (one.history().to_pylist()[0] for one in (table, threads))
        for name in ("operation", "operationParameters", "version", "rows"):
            assert last[name] == other[name]
    assert table.verify(deep=True) == []
    assert files_of(table) == listed(table)
    with tasks_of(spark) as counts:
        for statement in steps:
            assert sql(statement.format(named(table))).collect() == [(made.version, 0, 0)]
    assert counts == []


def test_postings_of_old_segments_are_written_by_tasks(spark, sql, table):
    with tasks_of(spark) as counts:
        sql(f"CREATE INDEX words ON {named(table)} USING token (page)").collect()
    assert counts == [len(table.segments())]
    table.refresh()
    (row,) = table.indexes().to_pylist()
    assert row["covered"] == row["segments"] == counts[0]
    assert row["postings_bytes"] > 0
    asked = {"aggregators": "count(*) AS n", "filter": "text_match(page, 'page')"}
    assert table.query(**asked) == table.query(**asked, context={"noIndexes": True})
    assert table.verify(deep=True) == []


def test_few_bytes_and_single_segments_need_no_task(spark, sql, table):
    with tasks_of(spark) as counts:
        assert len(sql(f"OPTIMIZE {named(table)} DRY RUN").collect()) == 3
        one_day = f"OPTIMIZE {named(table)} FOR INTERVAL '2024-05-01/P1D'"
        assert sql(one_day).first().segments == 1
        with using(spark, local_maxBytes="64m"):
            assert sql(f"OPTIMIZE {named(table)}").first().segments == 2
    assert counts == []
    assert answers(projseg.Table(table.location)) == answers(table)


def test_with_planted_answers_off_tasks_do_all_that_is_more_than_one_piece(spark, sql, table):
    with using(spark, local_maxBytes="64m", local_enabled="false"), tasks_of(spark) as counts:
        assert sql(f"OPTIMIZE {named(table)}").first().segments == 3
    assert counts == [3]


def test_views_of_carbondata_are_built_by_tasks(spark, sql, table):
    select = f"SELECT page, sum(added) FROM {named(table)} GROUP BY page"
    with tasks_of(spark) as counts:
        sql(f"CREATE MATERIALIZED VIEW by_page ON TABLE {named(table)} AS {select}")
    assert counts == [9]
    table.refresh()
    assert all("by_page" in names for names in table.segments()["projections"].to_pylist())


def test_tables_of_catalogs_are_optimized_by_their_names(spark, sql, table, tmp_path):
    house = tmp_path / "a house"
    spark.conf.set("spark.sql.catalog.rewritten", "org.apache.spark.sql.projseg.ProjsegCatalog")
    spark.conf.set("spark.sql.catalog.rewritten.warehouse", str(house))
    filled(house / "here" / "edits")
    filled(tmp_path / "by name")
    sql(f'CREATE TABLE rewritten_edits USING projseg LOCATION "{tmp_path / "by name"}"')
    try:
        for name in ("rewritten.here.edits", "rewritten_edits"):
            before = sorted(map(str, sql(f"SELECT * FROM {name}").collect()))
            with tasks_of(spark) as counts:
                assert sql(f"OPTIMIZE {name}").first().segments == 3
            assert counts == [3]
            assert sorted(map(str, sql(f"SELECT * FROM {name}").collect())) == before
    finally:
        sql("DROP TABLE rewritten_edits")


def damage(table, number):
    """Change a byte of a segment; return a function that puts it right."""
    path = Path(table.location, table.snapshot.segments[number].file)
    content = path.read_bytes()
    damaged = bytearray(content)
    damaged[len(content) // 3] ^= 1
    path.write_bytes(damaged)
    return lambda: path.write_bytes(content)


@pytest.mark.parametrize(
    "statement", ["OPTIMIZE {}", "ALTER TABLE {} MATERIALIZE PROJECTION by_channel"]
)
def test_a_task_that_fails_leaves_the_table_and_its_folder_as_they_were(sql, table, statement):
    version, files = table.version, files_of(table)
    mended = damage(table, 4)
    with pytest.raises(IllegalArgumentException, match="PROJSEG_CORRUPT_SEGMENT") as caught:
        sql(statement.format(named(table)))
    assert table.snapshot.segments[4].file in str(caught.value)
    assert projseg.Table(table.location).version == version
    assert files_of(table) == files
    mended()
    assert sql(statement.format(named(table))).first().segments in (3, 9)
    assert projseg.Table(table.location).verify(deep=True) == []


def test_a_table_that_cannot_be_written_is_refused_before_a_job(spark, sql, table):
    if os.geteuid() == 0:
        pytest.skip("the superuser may write anywhere")
    data = Path(table.location, "data")
    data.chmod(0o555)
    try:
        with tasks_of(spark) as counts, pytest.raises(IllegalArgumentException, match="PERMISSION"):
            sql(f"OPTIMIZE {named(table)}")
        assert counts == []
    finally:
        data.chmod(0o755)


def optimized(spark, table, before_job=lambda: None, **fields):
    """The engine's reply to OPTIMIZE, whose jobs run in `spark` after something happened."""

    def run_job(asked):
        before_job()
        reader = spark.read.format("projseg").option("projseg.work", asked["work"])
        for key, value in asked["storage_options"].items():
            reader = reader.option(f"storage.{key}", value)
        frame = reader.load(asked["location"])
        plans.append(frame._jdf.queryExecution().toString())
        return {"messages": [row.message for row in frame.collect()]}

    plans = []
    asked = {"op": "optimize", "location": str(table.location), "dry_run": False, "small_bytes": 0}
    content, answer = reply_to(json.dumps(asked | fields).encode(), run_job)
    assert content == {}
    return pa.ipc.open_stream(answer).read_all().to_pylist()[0], plans


def test_others_append_and_replace_while_a_job_runs(spark, table):
    """The engine plans anew, uses what was written, and removes the rest."""
    wanted, jobs = table.query(aggregators="count(*) AS n")["n"][0].as_py(), []

    def meanwhile():
        jobs.append(None)
        if len(jobs) == 1:
            other = projseg.Table(table.location)
            other.append(rows(1, count=3, first=900))
            other.append(rows(2, count=3, first=950))
            other.compact(interval="2024-05-02/P1D")

    made, _ = optimized(spark, table, meanwhile)
    assert made["segments"] == 2, "the day that the other compacted has nothing left to merge"
    table.refresh()
    assert table.query(aggregators="count(*) AS n").to_pylist() == [{"n": wanted + 6}]
    assert table.verify(deep=True) == []
    assert files_of(table) == listed(table)


def test_statements_and_appends_at_once(spark, sql, table):
    wanted = table.query(aggregators="count(*) AS n")["n"][0].as_py()

    def append(number):
        projseg.Table(table.location).append(rows(number % 3, count=5, first=1000 + number * 5))

    with ThreadPoolExecutor(4) as pool:
        statements = [pool.submit(sql, f"OPTIMIZE {named(table)}") for _ in range(2)]
        build = f"ALTER TABLE {named(table)} MATERIALIZE PROJECTION by_channel"
        statements.append(pool.submit(sql, build))
        for number in range(8):
            pool.submit(append, number).result()
        found = [statement.result().first() for statement in statements]
    assert found
    table.refresh()
    assert table.query(aggregators="count(*) AS n").to_pylist() == [{"n": wanted + 40}]
    assert answers(table) == answers(table, noProjections=True)
    assert table.verify(deep=True) == []
    assert files_of(table) == listed(table)


def workers(spark):
    """The processes of Spark's Python workers, which are forks of a daemon."""
    driver = str(spark._jvm.java.lang.ProcessHandle.current().pid())

    def children(process, *named):
        found = subprocess.run(
            ["pgrep", "-P", process, *named], capture_output=True, text=True, check=False
        )
        return found.stdout.split()

    daemons = children(driver, "-f", "daemon")
    return [int(one) for daemon in daemons for one in children(daemon)]


@pytest.fixture
def slow(tmp_path):
    """A table whose two merges take a while."""
    made = new_table(tmp_path / "slow", projections=[HOURLY])
    for n in range(6):
        made.append(rows(n % 2, count=60_000, first=n * 60_000))
    return made


def stages_of(tracker, group):
    """The stages of the jobs of a group that Spark has begun."""
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    return [stage for stage in stages if stage]


@contextmanager
def optimizing(spark, table, tasks="numActiveTasks"):
    """Optimize a table in a thread; yield the job group once it has tasks, and await the thread."""
    group, outcome = uuid.uuid4().hex, []
    tracker = spark.sparkContext.statusTracker()

    def optimize():
        spark.sparkContext.setJobGroup(group, "hurt")
        try:
            outcome.append(spark.sql(f"OPTIMIZE {named(table)}").first())
        except IllegalArgumentException as error:
            outcome.append(str(error))

    def is_running():
        return any(getattr(stage, tasks) for stage in stages_of(tracker, group))

    thread = InheritableThread(target=optimize)
    thread.start()
    while thread.is_alive() and not is_running():
        time.sleep(0.01)
    yield group, outcome
    thread.join()


def test_killed_workers_double_nothing(spark, sql, slow):
    before, version = answers(slow), slow.version
    with optimizing(spark, slow) as (_, outcome):
        for worker in workers(spark):
            os.kill(worker, signal.SIGKILL)
    assert outcome == [(version + 1, 2, 360_000)]
    slow.refresh()
    assert answers(slow) == before
    assert slow.verify(deep=True) == []
    assert files_of(slow) == listed(slow)


@contextmanager
def busy(spark, release):
    """Keep all cores of Spark at work until the end."""
    group, tracker = uuid.uuid4().hex, spark.sparkContext.statusTracker()
    count = spark.sparkContext.defaultParallelism

    def wait(_):
        while not release.exists():
            time.sleep(0.01)

    def keep():
        spark.sparkContext.setJobGroup(group, "busy")
        spark.sparkContext.parallelize(range(count), count).foreach(wait)

    thread = InheritableThread(target=keep)
    thread.start()
    try:
        while sum(stage.numActiveTasks for stage in stages_of(tracker, group)) < count:
            assert thread.is_alive()
            time.sleep(0.01)
        yield
    finally:
        release.touch()
        thread.join()


def test_a_cancelled_job_fails_its_statement_and_leaves_no_file(spark, sql, table, tmp_path):
    """Its tasks await a core when it is cancelled, however fast they were."""
    files, version = files_of(table), table.version
    with (
        busy(spark, tmp_path / "release"),
        optimizing(spark, table, "numTasks") as (group, outcome),
    ):
        spark.sparkContext.cancelJobGroup(group)
    (words,) = outcome
    assert "[PROJSEG_JOB_FAILED]" in words
    assert "cancelled" in words
    assert files_of(table) == files
    assert projseg.Table(table.location).version == version
    assert spark.sql(f"OPTIMIZE {named(table)}").first().segments == 3


def test_work_that_nobody_sent_is_refused(spark, table):
    for text, words in (("{}", "BAD_ARGUMENT"), ("no work", "BAD_ARGUMENT")):
        reader = spark.read.format("projseg").option("projseg.work", text)
        with pytest.raises(Exception, match=words):
            reader.load(str(table.location)).collect()


def test_tasks_reach_a_store_and_show_no_secret(spark, store_place, store_server):
    secret = "planted-5ecret"
    options = store_server.options() | {"secret_access_key": secret, "session_token": secret}
    table = new_table(store_place, storage_options=options)
    for batch in BATCHES:
        table.append(batch)
    before = stored_rows(table)
    made, plans = optimized(spark, table, storage_options=options)
    assert made["segments"] == 3
    assert secret not in "".join(plans)
    table.refresh()
    assert stored_rows(table) == before
    assert table.verify(deep=True) == []


@pytest.fixture
def automatic(tmp_path):
    """A table of three days, of whose small segments commits merge three or more."""
    made = new_table(
        tmp_path / "auto matic",
        projections=[HOURLY],
        properties={"autoCompact": "true", "compactMinSegments": "3"},
    )
    made.append(pa.concat_tables(rows(n, count=7, first=n * 7) for n in range(3)))
    made.append(pa.concat_tables(rows(n, count=7, first=50 + n * 7) for n in range(3)))
    return made


@pytest.mark.sampled(4)
@pytest.mark.parametrize("way", ["path", "name", "save", "overwrite"])
def test_compaction_after_a_write_is_done_by_tasks(spark, sql, automatic, way):
    more = pa.concat_tables(rows(n, count=7, first=90 + n * 7) for n in range(3))
    spark.createDataFrame(more).createOrReplaceTempView("more_edits")
    before = len(automatic.segments())
    assert before == 6
    with tasks_of(spark) as counts:
        if way == "path":
            sql(f"INSERT INTO {named(automatic)} SELECT * FROM more_edits")
        elif way == "name":
            sql(f'CREATE TABLE automatic USING projseg LOCATION "{automatic.location}"')
            try:
                sql("INSERT INTO automatic SELECT * FROM more_edits")
            finally:
                sql("DROP TABLE automatic")
        else:
            writer = spark.table("more_edits").write.format("projseg")
            writer.mode("append" if way == "save" else way).save(str(automatic.location))
    automatic.refresh()
    last = automatic.history().to_pylist()[0]
    if way == "overwrite":
        assert last["operation"] == "overwrite", "there is nothing to merge"
    else:
        assert counts[-1] == 3
        assert last["operation"] == "compact"
        assert ("auto", "true") in last["operationParameters"]
        assert len(automatic.segments()) == 3
    assert automatic.verify(deep=True) == []
    assert files_of(automatic) == listed(automatic)


def test_a_compaction_after_a_write_that_fails_fails_no_write(spark, sql, automatic):
    damage(automatic, 1)
    version = automatic.version
    more = pa.concat_tables(rows(n, count=7, first=90 + n * 7) for n in range(3))
    spark.createDataFrame(more).write.format("projseg").mode("append").save(str(automatic.location))
    automatic.refresh()
    assert automatic.version == version + 1
    assert automatic.history().to_pylist()[0]["operation"] == "append"
    assert files_of(automatic) == listed(automatic)

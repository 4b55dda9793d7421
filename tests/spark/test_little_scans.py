"""Little scans of a statement of several: their rows are planted, and tell others their keys."""

from __future__ import annotations

import json

import pytest
from scale import one_of
from spark_sql import assert_same, plan_of, using

import projseg
from projseg.spark_engine import replies
from projseg.spark_engine.engine import reply_to

# Between the rows of the small tables and those of the large one.
LEAST = {"local_maxRows": "300"}

JOINS = """
SELECT f.n, d.name, d.listed FROM {f} f JOIN {d} d ON f.k = d.k
SELECT f.n, d.name FROM {f} f LEFT JOIN {d} d ON f.k = d.k AND d.day > DATE'2024-01-09'
SELECT f.n, d.* FROM {f} f FULL JOIN (SELECT * FROM {d} WHERE k % 3 = 0) d ON f.k = d.k
SELECT f.n FROM {f} f WHERE f.k IN (SELECT k FROM {d} WHERE name LIKE 'n1%')
SELECT f.n FROM {f} f WHERE f.k NOT IN (SELECT k FROM {d} WHERE k IS NOT NULL)
SELECT f.n FROM {f} f WHERE EXISTS (SELECT 1 FROM {d} d WHERE d.k = f.k AND d.name <> f.s)
SELECT f.n FROM {f} f WHERE f.k > (SELECT max(k) - 2 FROM {d} WHERE length(name) = 2)
SELECT k, name FROM {d} UNION ALL SELECT n, s FROM {f} WHERE n > 5990
SELECT a.name, b.name FROM {d} a JOIN {d} b ON a.k = b.k + 1 WHERE 100 / (a.k + 1) > 2
SELECT a.held, b.pairs, b.raw, a.at FROM {d} a JOIN {d} b USING (k) ORDER BY k, a.name, b.name
SELECT d.name, count(*), sum(f.n) FROM {f} f JOIN {d} d ON f.k = d.k WHERE d.amount > 3 \
GROUP BY d.name
""".strip().splitlines()


@pytest.fixture(scope="module", autouse=True)
def views(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("little")
    made = {
        "large": spark.range(6_000).selectExpr(
            "if(id % 41 = 0, NULL, CAST(id * 7 % 400 AS bigint)) AS k",
            "concat('s', id % 11) AS s",
            "id AS n",
        ),
        "small": spark.range(200).selectExpr(
            "if(id % 37 = 0, NULL, id) AS k",
            "concat('n', id % 17) AS name",
            "CAST(id AS decimal(12, 3)) / 8 AS amount",
            "date_add(DATE'2024-01-01', CAST(id % 19 AS int)) AS day",
            "timestamp_micros(id * 86399999999) AS at",
            "CAST(concat('b', id) AS binary) AS raw",
            "array(id, NULL) AS listed",
            "named_struct('x', id, 'y', concat('y', id)) AS held",
            "map(concat('k', id), id) AS pairs",
        ),
    }
    for name, rows in made.items():
        rows.coalesce(1).write.parquet(str(folder / f"{name}_parquet"))
        read = spark.read.parquet(str(folder / f"{name}_parquet"))
        read.createOrReplaceTempView(f"{name}_parquet")
        projseg.write(read, folder / name)
        with using(spark, enabled="true"):
            frame = spark.read.format("projseg").load(str(folder / name))
            frame.createOrReplaceTempView(f"{name}_projseg")
    return folder


def over(text, kind):
    return text.format(f=f"large_{kind}", d=f"small_{kind}")


@pytest.mark.parametrize("text", one_of(3, JOINS))
@pytest.mark.parametrize("settings", one_of(2, [{}, LEAST, {"local_enabled": "false"}]))
def test_rows_are_those_of_parquet(spark, text, settings):
    with using(spark, enabled="true", **settings):
        assert_same(spark.sql(over(text, "projseg")), spark.sql(over(text, "parquet")))


def test_a_statement_of_little_scans_starts_no_python(spark):
    text = over("SELECT f.n, d.pairs FROM {f} f JOIN {d} d ON f.k = d.k", "projseg")
    with using(spark, enabled="true"):
        frame = spark.sql(text)
        assert plan_of(frame).count("ProjsegAnswer") == 2
        assert "BatchScan" not in frame._jdf.queryExecution().executedPlan().toString()


def test_a_planted_side_is_broadcast_without_a_job(spark):
    text = over(
        "SELECT /*+ BROADCAST(d) */ n, d.name FROM range(9) f(n) JOIN {d} d ON n = d.k", "projseg"
    )
    group = "little scans"
    with using(spark, enabled="true", **{"spark.sql.adaptive.enabled": "false"}):
        frame = spark.sql(text)
        plan = frame._jdf.queryExecution().executedPlan()
        spark.sparkContext.setJobGroup(group, "counted")
        try:
            assert "BroadcastExchange" in plan.toString()
            assert len(frame.collect()) == 8
        finally:
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
            spark.sparkContext.setLocalProperty("spark.job.description", None)
    tracker = spark.sparkContext.statusTracker()
    assert len(tracker.getJobIdsForGroup(group)) == 1


def test_where_one_has_no_rows_the_others_are_not_read(spark):
    text = "SELECT f.n, d.name FROM {f} f JOIN {d} d ON f.k = d.k WHERE d.name = 'nobody'"
    with using(spark, enabled="true", **LEAST):
        plan = plan_of(spark.sql(over(text, "projseg")))
        assert plan.startswith("LocalRelation <empty>")
        outer = text.replace("JOIN {d} d ON", "LEFT JOIN (SELECT * FROM {d} WHERE name = '') d ON")
        outer = outer.replace("d.name = 'nobody'", "f.n < 9")
        assert_same(spark.sql(over(outer, "projseg")), spark.sql(over(outer, "parquet")))


def test_keys_of_planted_rows_are_passed(spark):
    text = "SELECT f.n, d.day FROM {f} f JOIN {d} d ON f.k = d.k WHERE d.name = 'n3' AND f.n >= 0"
    with using(spark, enabled="true", local_maxRows="100"):
        frame = spark.sql(over(text, "projseg"))
        leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
        (read,) = [
            leaves.apply(place)
            for place in range(leaves.size())
            if leaves.apply(place).toString().startswith("RelationV2")
        ]
        assert "`k` IN (" in json.loads(read.relation().options().get("query"))["filter"]
        assert_same(frame, spark.sql(over(text, "parquet")))


@pytest.mark.parametrize("settings", [{"local_enabled": "false"}, {"local_maxBytes": "0"}, {}])
def test_a_scan_alone_is_of_tasks_and_so_are_all_where_none_are_planted(spark, settings):
    text = "SELECT name FROM {d}" if not settings else JOINS[0]
    with using(spark, enabled="true", **settings):
        assert "ProjsegAnswer" not in plan_of(spark.sql(over(text, "projseg")))


def test_one_scan_is_logged_once(spark):
    with using(spark, enabled="true", queryLog_maxQueries="1000000", **LEAST):
        before = projseg.query_log(spark).count()
        plan_of(spark.sql(over("SELECT * FROM {f} f, {d} d WHERE f.k < d.k", "projseg")))
        found = projseg.query_log(spark).collect()[before:]
    assert sorted(row.answered for row in found) == ["planted", "scanned"]


def test_what_is_more_work_than_a_task_is_left_to_tasks(views, monkeypatch):
    request = {
        "op": "scan",
        "location": str(views / "small"),
        "query": {"projseg_query": 1, "context": {"timezone": "UTC"}},
        "columns": ["k"],
        "conditions": [],
        "max_bytes": 1 << 20,
        "max_rows": 1000,
        "plants": True,
    }
    assert reply_to(json.dumps(request).encode())[0]["answered"]
    monkeypatch.setattr(replies, "_LITTLE_WORK_MAX", 1000)
    found, rows = reply_to(json.dumps(request).encode())
    assert (found["answered"], rows) == (False, b"")
    monkeypatch.undo()
    few = {"text": "k < 50", "columns": ["k"]}
    for values, conditions, is_answered in (
        (199, [], False),
        (200, [], True),
        (47, [few], False),
        (48, [few], True),
    ):
        monkeypatch.setattr(replies, "_PLANTED_VALUES_MAX", values)
        found, _ = reply_to(json.dumps(request | {"conditions": conditions}).encode())
        assert found["answered"] == is_answered

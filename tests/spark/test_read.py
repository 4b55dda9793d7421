"""Reading into Spark: chosen columns, versions, several tasks, catalog tables, errors."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import projseg

pytestmark = pytest.mark.spark

PROJECTION = {"name": "by_k", "sql": "SELECT k, sum(n) AS n, count(*) AS c GROUP BY ALL"}


@pytest.fixture(scope="module")
def rows(spark):
    return spark.range(5000).selectExpr(
        "timestamp_micros(id * 60000000) AS t",
        "if(id % 11 = 0, NULL, concat('k', id % 7)) AS k",
        "id AS n",
        "cast(id % 100 AS double) / 10 AS x",
        "id % 3 = 0 AS flag",
    )


@pytest.fixture(scope="module")
def location(rows, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("read") / "table")
    projseg.write(rows, path, time_column="t", segment_granularity="day", projections=[PROJECTION])
    return path


def load(spark, location, **options):
    return spark.read.format("projseg").options(**options).load(location)


def refused(run):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - py4j's classes differ by where it fails
        run()
    return str(caught.value)


def test_columns_choose_and_compute(spark, location):
    frame = load(spark, location, columns="n, upper(k) AS upper", filter="n < 3")
    assert frame.columns == ["n", "upper"]
    assert sorted(tuple(r) for r in frame.collect()) == [(0, None), (1, "K1"), (2, "K2")]


def own_schema(spark, location, schema, **options):
    return spark.read.format("projseg").schema(schema).options(**options).load(location)


def test_a_schema_of_the_user_s_own_chooses_columns(spark, location):
    frame = own_schema(spark, location, "x double, N bigint")
    assert frame.columns == ["x", "N"]
    assert frame.agg(F.sum("N"), F.count("*")).first()[:] == (12_497_500, 5000)


def test_a_schema_of_no_columns_has_as_many_rows(spark, location):
    frame = own_schema(spark, location, StructType([]))
    assert (frame.columns, frame.count()) == ([], 5000)


def test_a_table_whose_path_holds_a_number_sign_is_read(spark, tmp_path):
    for name, n in (("t", 3), ("t#x", 4), ("t#segments", 5)):
        projseg.write(spark.range(n), tmp_path / name)
    paths = [str(tmp_path / name) for name in ("t#x", "t#segments", "t#segments#columns")]
    counts = [spark.read.format("projseg").load(path).count() for path in paths]
    assert counts == [4, 5, 1]
    told = refused(lambda: load(spark, str(tmp_path / "t#nothing")))
    assert "[PROJSEG_BAD_OPTION]" in told


def test_a_column_that_the_table_lacks_is_null_only_on_request(spark, location):
    for schema in ("N bigint, later string", "later string"):
        told = refused(lambda schema=schema: own_schema(spark, location, schema).collect())
        assert "[PROJSEG_UNKNOWN_COLUMN] column 'later' is not in the answer" in told
        assert "set option fillMissingColumns" in told
        frame = own_schema(spark, location, schema, fillMissingColumns="true")
        assert frame.agg(F.count("later"), F.count("*")).first()[:] == (0, 5000)


def test_a_wider_type_holds_the_same_values(spark, rows, tmp_path):
    path = str(tmp_path / "narrow")
    narrow = ["cast(n AS int) AS i", "cast(x AS float) AS f", "cast(n / 8 AS decimal(9,3)) AS d"]
    projseg.write(rows.selectExpr(*narrow), path)
    wide = {"i": "bigint", "f": "double", "d": "decimal(20,5)"}
    frame = own_schema(spark, path, ", ".join(f"{name} {kind}" for name, kind in wide.items()))
    casts = [F.col(name).cast(kind).alias(name) for name, kind in wide.items()]
    assert sorted(frame.collect()) == sorted(load(spark, path).select(*casts).collect())


@pytest.mark.parametrize(
    "schema",
    [
        "t bigint",
        "t date",
        "t string",
        "t timestamp_ntz",
        "n int",
        "n string",
        "n double",
        "n decimal(18,0)",
        "x float",
        "x string",
        "x decimal(20,2)",
        "flag int",
        "k binary",
    ],
)
def test_a_type_that_would_need_a_cast_is_refused(spark, location, schema):
    told = refused(lambda: own_schema(spark, location, schema).collect())
    assert f"[PROJSEG_SCHEMA_MISMATCH] column '{schema.split()[0]}' is " in told
    assert "cast it in the query" in told


def test_nulls_are_not_passed_off_as_not_null(spark, location):
    """With the extension a schema that says NOT NULL is a claim, and nulls are shown."""
    given = own_schema(spark, location, "k string NOT NULL")
    assert given.where("k IS NULL").count() == load(spark, location).where("k IS NULL").count() > 0
    assert own_schema(spark, location, "n bigint NOT NULL").count() == 5000


def test_outputs_that_differ_in_case_keep_their_values(spark, location):
    frame = load(spark, location, aggregators="min(n) AS a, max(n) AS A")
    assert tuple(frame.first()) == (0, 4999)


def test_interval_and_filter_prune_and_select(spark, rows, location):
    frame = load(spark, location, interval="1970-01-02/1970-01-03", filter="k = 'k1'")
    expected = rows.filter("t >= '1970-01-02' AND t < '1970-01-03' AND k = 'k1'")
    assert frame.count() == expected.count() > 0


def test_a_filter_that_nothing_passes_gives_no_rows_or_one_total(spark, location):
    assert load(spark, location, filter="n < 0").count() == 0
    assert load(spark, location, filter="n < 0", groupBy="k", aggregators="sum(n)").count() == 0
    for aggregation in ("final", "partial"):
        totals = load(
            spark,
            location,
            filter="n < 0",
            aggregators="count(*) AS c, sum(n) AS n",
            aggregation=aggregation,
        )
        assert [tuple(row) for row in totals.collect()] == [(0, None)]


def test_a_limit_in_spark_keeps_the_same_groups_whatever_the_source(spark, tmp_path):
    """The projection's order, the rows' and the query's differ; so do those of the segments."""
    path = str(tmp_path / "table")
    rows = spark.range(30_000).selectExpr(
        "timestamp_seconds(id * 7) AS t", "id * 7919 % 29989 AS n", "id * 104729 % 29983 AS m"
    )
    projection = {"name": "by_m", "sql": "SELECT m, n, count(*) AS c GROUP BY ALL"}
    projseg.write(rows, path, time_column="t", segment_granularity="day", projections=[projection])
    table = projseg.Table(path)
    table.drop_projection("by_m")
    projseg.write(rows.filter("n < 300"), path, mode="append")
    expected = [tuple(row) for row in rows.select("n", "m").sort("n", "m").take(20)]
    for options in ({}, {"noProjections": "true"}):
        groups = load(spark, path, groupBy="n, m", aggregators="count(*) AS c", **options)
        assert [(row.n, row.m) for row in groups.limit(20).collect()] == expected


def test_versions_by_number_and_by_time(spark, rows, tmp_path):
    path = str(tmp_path / "table")
    projseg.write(rows, path)
    moment = projseg.Table(path).history().to_pylist()[0]["timestamp"].isoformat()
    projseg.write(rows, path, mode="append")
    assert load(spark, path).count() == 10_000
    assert load(spark, path, versionAsOf="0").count() == 5000
    assert load(spark, path, timestampAsOf=moment).count() == 5000
    assert "PROJSEG_UNKNOWN_VERSION" in refused(lambda: load(spark, path, versionAsOf="9"))
    early = refused(lambda: load(spark, path, timestampAsOf="2001-01-01T00:00Z"))
    assert "PROJSEG_UNKNOWN_VERSION" in early
    told = refused(lambda: load(spark, path, timestampAsOf="yesterday"))
    assert "option 'timestampAsOf' is 'yesterday'; it must be an ISO 8601 time" in told


def test_a_frame_keeps_its_version(spark, rows, tmp_path):
    path = str(tmp_path / "table")
    projseg.write(rows, path)
    frame = load(spark, path)
    projseg.write(rows, path, mode="append")
    assert frame.count() == 5000
    assert load(spark, path).count() == 10_000


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"groupBy": "kk"}, "[PROJSEG_UNKNOWN_COLUMN]"),
        ({"groupby2": "k"}, "did you mean 'groupBy'?"),
        ({"aggregators": "histogram_numeric(n, 3)"}, "[PROJSEG_UNSUPPORTED_FUNCTION]"),
        ({"groupBy": "x", "forceProjections": "true"}, "by_k"),
        ({"interval": "1970"}, "[PROJSEG_BAD_INTERVAL]"),
        ({"groupBy": "k", "useProjection": "by_z"}, "by_z"),
        ({"groupBy": "k", "excludeProjections": "by_z, by_k"}, "did you mean 'by_k'?"),
        ({"groupBy": "1"}, "position"),
    ],
)
def test_errors_are_one_line_with_a_code(spark, location, options, told):
    message = refused(lambda: load(spark, location, **options).collect())
    assert told in message


def test_no_table_is_an_error_that_says_so(spark, tmp_path):
    assert "[PROJSEG_NOT_A_TABLE]" in refused(lambda: load(spark, str(tmp_path / "none")))


MERGED_BY_SPARK = [
    "count(*)",
    "count(k)",
    "count_if(flag)",
    "sum(n)",
    "sum(x)",
    "min(k)",
    "max(t)",
    "avg(n)",
    "avg(x)",
    "sum(n) FILTER (WHERE flag)",
    "bool_or(flag)",
    "bit_xor(n)",
    "max_by(n, t)",
    "var_pop(n)",
    "stddev_samp(x)",
    "sum(cast(n AS decimal(10,2)))",
]
FINISHED_BY_ONE_TASK = [
    "count(DISTINCT flag)",
    "avg(cast(n AS decimal(10,2)))",
]


@pytest.mark.parametrize("group_by", ["", "k"])
@pytest.mark.parametrize("texts", [MERGED_BY_SPARK, FINISHED_BY_ONE_TASK], ids=["merged", "one"])
def test_read_equals_spark_for_every_kind_of_aggregate(spark, rows, location, texts, group_by):
    named = [f"{text} AS a{index}" for index, text in enumerate(texts)]
    answer = projseg.read(spark, location, group_by=group_by, aggregators=named)
    keys = [group_by] if group_by else []
    expected = rows.groupBy(*keys).agg(*map(F.expr, named))
    assert dict(answer.dtypes) == dict(expected.dtypes)
    for name, type_name in expected.dtypes:
        if type_name == "double":
            answer = answer.withColumn(name, F.round(name, 6))
            expected = expected.withColumn(name, F.round(name, 6))
    assert sorted(map(tuple, answer.collect()), key=str) == sorted(
        map(tuple, expected.collect()), key=str
    )


def test_last_goes_by_the_table_s_time(spark, location):
    answer = projseg.read(spark, location, aggregators="last(n) AS n, first(n) AS m")
    assert tuple(answer.first()) == (4999, 0)


def test_read_takes_a_whole_query(spark, location):
    query = projseg.Query("k", "sum(n) AS n", order_by="n DESC", limit=3, having="n > 0")
    answer = projseg.read(spark, location, group_by=query)
    expected = projseg.Table(location).query(query)
    assert [row.asDict() for row in answer.collect()] == expected.to_pylist()
    rows = projseg.Query(columns="n", order_by="n DESC", limit=2)
    assert [row.n for row in projseg.read(spark, location, group_by=rows).collect()] == [4999, 4998]


def test_read_without_aggregates_gives_distinct_groups(spark, location):
    assert projseg.read(spark, location, group_by="k").count() == 8
    assert projseg.read(spark, location, columns="n", filter="n < 5").count() == 5


def test_a_read_takes_the_fields_of_a_query(spark, location, tmp_path):
    names = projseg.Table.create(tmp_path / "names", {"k": "string", "name": "string"})
    key = projseg.Table(location).query("k", limit=1)["k"][0].as_py()
    names.append({"k": [key], "name": ["one"]})
    parts = {
        "group_by": "d.name",
        "aggregators": "count(*) AS n",
        "joins": [projseg.Join(names, "d.k = k", "d", "left")],
        "having": "n > 1",
        "order_by": "n DESC",
        "limit": 1,
    }
    expected = projseg.Table(location).query(**parts).to_pylist()
    assert [row.asDict() for row in projseg.read(spark, location, **parts).collect()] == expected


def test_read_goes_by_the_session_s_time_zone(spark, rows, location):
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        day = "date_trunc('DAY', t) AS day"
        answer = projseg.read(spark, location, group_by=[day], aggregators=["count(*) AS c"])
        expected = rows.groupBy(F.expr(day.removesuffix(" AS day")).alias("day")).agg(
            F.count("*").alias("c")
        )
        assert sorted(map(tuple, answer.collect())) == sorted(map(tuple, expected.collect()))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_view_keeps_its_options(spark, location):
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW v USING projseg "
        f"OPTIONS (path '{location}', groupBy 'k', aggregators 'sum(n) AS n')"
    )
    assert spark.sql("SELECT count(*) AS c, sum(n) AS n FROM v").first()[:] == (8, 12_497_500)


def test_options_in_sql_must_keep_a_catalog_table_s_columns(spark, location):
    spark.sql("DROP TABLE IF EXISTS edits")
    spark.sql(f"CREATE TABLE edits USING projseg LOCATION '{location}'")
    try:
        hinted = spark.sql(f"SELECT * FROM edits WITH (path = '{location}', filter = 'n < 10')")
        assert hinted.count() == 10
        grouped = f"WITH (path = '{location}', groupBy = 'k', aggregators = 'count(*) AS c')"
        told = refused(lambda: spark.sql(f"SELECT k FROM edits {grouped}").collect())
        assert "column 't' is not in the answer, whose columns are k, c" in told
    finally:
        spark.sql("DROP TABLE edits")


ONE_LINE = {
    "PROJSEG_UNKNOWN_VERSION": lambda spark, path: load(spark, path, versionAsOf=99),
    "PROJSEG_NOT_A_TABLE": lambda spark, path: load(spark, f"{path}-absent"),
    "PROJSEG_UNKNOWN_OPTION": lambda spark, path: load(spark, path, version=99),
    "PROJSEG_UNKNOWN_COLUMN": lambda spark, path: load(spark, path, filter="absent = 1"),
    "PROJSEG_SCHEMA_MISMATCH": lambda spark, path: (
        spark.read.format("projseg").schema("k int").load(path).collect()
    ),
    "PROJSEG_BAD_OPTION": lambda spark, path: (
        spark.range(1).write.format("projseg").mode("append").option("ifExists", "x").save(path)
    ),
}


@pytest.mark.parametrize("code", ONE_LINE)
def test_errors_of_planning_are_one_line(spark, location, code):
    with pytest.raises(Exception, match=code) as caught:
        ONE_LINE[code](spark, str(location))
    told = str(caught.value).replace("\n SQLSTATE", " SQLSTATE")  # which Spark puts below
    assert "\n" not in told
    assert "Traceback" not in told


def test_workers_log_what_they_planned_and_read(spark, location):
    if not hasattr(spark.tvf, "python_worker_logs"):
        pytest.skip(f"Spark {spark.version} keeps no log of its workers")
    spark.conf.set("spark.sql.pyspark.worker.logging.enabled", "true")
    try:
        load(spark, location, groupBy="k", aggregators="sum(n) AS n").collect()
        logged = spark.tvf.python_worker_logs().filter("logger = 'projseg.spark'").collect()
        events = {json.loads(row.msg)["event"]: json.loads(row.msg) for row in logged}
        assert events["planned"]["segments"] == 5
        assert events["read"]["rows"] == 8
    finally:
        spark.conf.unset("spark.sql.pyspark.worker.logging.enabled")


@pytest.mark.parametrize(
    ("one", "other"), [("straße", "strasse"), ("\u00b5", "\u03bc"), ("\u017fet", "set")]
)
def test_names_that_lower_case_tells_apart_are_two_columns(spark, tmp_path, one, other):
    given = spark.range(20).selectExpr(f"id % 3 AS `{one}`", f"id AS `{other}`")
    path = str(tmp_path / "t")
    declared = json.dumps(
        [{"name": "p", "sql": f"SELECT `{one}`, sum(`{other}`) GROUP BY `{one}`"}]
    )
    given.write.format("projseg").option("projections", declared).mode("append").save(path)
    given.write.parquet(str(tmp_path / "parquet"))
    load(spark, path).createOrReplaceTempView("folded")
    spark.read.parquet(str(tmp_path / "parquet")).createOrReplaceTempView("folded_parquet")
    for query in (
        f"SELECT `{one}`, `{other}` FROM folded WHERE `{other}` > 7 AND `{one}` = 1",
        f"SELECT `{one}`, sum(`{other}`) AS s FROM folded GROUP BY `{one}`",
        f"SELECT max(`{one}`), min(`{other}`), count(DISTINCT `{other}`) FROM folded",
    ):
        expected = spark.sql(query.replace("folded", "folded_parquet")).collect()
        assert sorted(spark.sql(query).collect()) == sorted(expected)
    sums = projseg.read(spark, path, aggregators=[f"sum(`{one}`) AS a", f"sum(`{other}`) AS b"])
    assert sums.first()[:] == (19, 190)
    load(spark, path).filter(f"`{one}` = 0").write.format("projseg").mode("append").save(path)
    assert load(spark, path).count() == 27

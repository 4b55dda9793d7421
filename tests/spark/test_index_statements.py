"""SQL statements about indexes, what steers them, and the filters that Spark's writers make."""

from __future__ import annotations

import shutil

import pytest
from pyspark.errors import IllegalArgumentException
from spark_sql import using

import projseg

DAYS = 6


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A table of a segment for each of six days, to be copied."""
    place = tmp_path_factory.mktemp("indexed") / "table"
    rows = spark.range(0, 100 * DAYS, 1, 1).selectExpr(
        f"timestamp_seconds(1704067200 + (id % {DAYS}) * 86400) AS t",
        "hex(id * 2654435761 % 4294967296) AS visit",
        "CAST(id * 37 % 997 AS int) AS user",
        "concat('some page of a long name, ', id % 50) AS page",
    )
    projseg.write(rows, place, timeColumn="t", segmentGranularity="day")
    return place


@pytest.fixture
def sql(spark, template, tmp_path):
    shutil.copytree(template, tmp_path / "visits")
    with using(spark, enabled="true"):
        spark.sql(f"CREATE TABLE visits USING projseg LOCATION '{tmp_path / 'visits'}'")
        try:
            yield spark.sql
        finally:
            spark.sql("DROP TABLE visits")


@pytest.fixture(params=["name", pytest.param("path", marks=pytest.mark.slow)])
def table(request, tmp_path):
    return "visits" if request.param == "name" else f"projseg.`{tmp_path / 'visits'}`"


def coverage(sql, table="visits"):
    found = sql(f"SHOW INDEXES ON {table}").collect()
    return {(one.name, one.column): (one.segments, one.covered) for one in found}


def test_an_index_is_created_shown_described_and_dropped(sql, table):
    create = f"CREATE INDEX IF NOT EXISTS visits ON TABLE {table} USING bloom (visit, `user`)"
    made = sql(f"{create} OPTIONS ('fpp' = '0.01')").first()
    assert (made.filters, made.ignored) == (2 * DAYS, None)
    assert sql(create).first() == (made.version, 0, None)
    assert coverage(sql, table) == {("visits", "visit"): (6, 6), ("visits", "user"): (6, 6)}
    (first, _) = sql(f"SHOW INDEXES FROM TABLE {table}").collect()
    assert (first.kind, first.fpp, first.status) == ("bloom", 0.01, "ENABLED")
    told = sql(f"DESCRIBE INDEX visits ON {table}").collect()
    assert ("column", "visit") in told
    assert ("covered", "6") in told
    sql(f"DROP INDEX visits ON {table}")
    sql(f"drop index if exists VISITS on table {table};")
    assert coverage(sql, table) == {}


def test_an_index_is_deferred_and_materialized(sql, table):
    options = "OPTIONS (build = deferred, 'maxBytesRatio' = 0.9)"
    assert sql(f"CREATE INDEX by_visit ON {table} (visit) {options}").first().filters == 0
    interval = "FOR INTERVAL '2024-01-02/2024-01-04'"
    made = sql(f"ALTER TABLE {table} MATERIALIZE INDEX by_visit {interval}").first()
    assert (made.filters, coverage(sql, table)) == (2, {("by_visit", "visit"): (6, 2)})
    assert sql(f"REFRESH INDEX by_visit ON {table}").first().filters == 4
    assert sql(f"REFRESH INDEX by_visit ON TABLE {table}").first().filters == 0


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE INDEX i ON visits (absent)", "UNKNOWN_COLUMN"),
        ("CREATE INDEX i ON visits ()", "BAD_INDEX"),
        ("CREATE INDEX i ON visits USING btree (visit)", "the kinds are: bloom"),
        ("CREATE INDEX i ON visits (visit) OPTIONS ('ffp' = '1')", "did you mean 'fpp'"),
        ("CREATE INDEX i ON visits (visit) OPTIONS ('fpp' = '2')", "BAD_INDEX"),
        ("CREATE INDEX i ON visits (visit, visit)", "names a column twice"),
        ("DROP INDEX i ON visits", "UNKNOWN_INDEX"),
        ("DESCRIBE INDEX i ON visits", "UNKNOWN_INDEX"),
        ("ALTER TABLE visits MATERIALIZE INDEX i", "UNKNOWN_INDEX"),
        ("CREATE DATAMAP i ON TABLE visits USING 'bloom' DMPROPERTIES ('a' = 'b')", "option 'a'"),
        ("CREATE DATAMAP i ON TABLE visits USING 'btree'", "BAD_INDEX"),
        ("CREATE DATAMAP i ON TABLE visits USING 'bloom'", "names no column"),
        ("SHOW INDEXES FROM projseg.`/absent`", "NOT_A_TABLE"),
    ],
)
def test_what_is_wrong_is_said(sql, statement, words):
    with pytest.raises(IllegalArgumentException, match=words):
        sql(statement)
    assert coverage(sql) == {}


@pytest.mark.parametrize(
    ("create", "ignored"),
    [
        ('CREATE DATAMAP d ON TABLE {t} USING "bloom" DMPROPERTIES ("bloom_column"="visit")', None),
        (
            "CREATE DATAMAP IF NOT EXISTS d ON TABLE {t} USING 'bloomfilter' DMPROPERTIES "
            "('INDEX_COLUMNS' = 'visit', 'BLOOM_SIZE'='640000', 'BLOOM_FPP'='0.00001')",
            "bloom_size: without effect",
        ),
        (
            "CREATE INDEX d ON TABLE {t} (visit) AS 'bloomfilter' PROPERTIES "
            "('BLOOM_COMPRESS'='true', 'flush_cache'='true')",
            "bloom_compress, flush_cache: without effect",
        ),
        (
            "CREATE INDEX IF NOT EXISTS d ON TABLE {t} (visit) AS 'bloomfilter' "
            "WITH DEFERRED REFRESH",
            None,
        ),
        (
            "CREATE INDEX d ON TABLE {t} (page) AS 'lucene' PROPERTIES ('SPLIT_BLOCKLET'='false')",
            "split_blocklet: without effect",
        ),
        (
            "CREATE DATAMAP d ON TABLE {t} USING 'lucene' WITH DEFERRED REBUILD "
            "DMPROPERTIES ('INDEX_COLUMNS' = 'page')",
            None,
        ),
        ("CREATE DATAMAP d ON TABLE {t} USING 'lucene' DMPROPERTIES ('text_column'='page')", None),
    ],
)
def test_indexes_in_words_of_carbondata(sql, table, create, ignored):
    made = sql(create.format(t=table)).first()
    is_deferred = "DEFERRED" in create
    assert (made.filters, made.ignored) == (0 if is_deferred else DAYS, ignored)
    assert sql(f"REFRESH INDEX d ON TABLE {table}").first().filters == is_deferred * DAYS
    column, kind = ("page", "token") if "lucene" in create else ("visit", "bloom")
    assert coverage(sql, table) == {("d", column): (6, 6)}
    assert [one.kind for one in sql(f"SHOW INDEXES ON {table}").collect()] == [kind]


def test_indexes_of_all_tables_are_shown(sql):
    sql("CREATE INDEX i ON visits (visit)")
    found = sql("SHOW INDEXES").collect()
    assert [(one.table, one.name) for one in found if one.table == "visits"] == [("visits", "i")]


def test_a_statement_about_a_table_of_others_is_theirs(sql):
    sql("CREATE TABLE foreign_visits (n int) USING parquet")
    try:
        with pytest.raises(Exception, match="CreateIndex") as refused:
            sql("CREATE INDEX i ON foreign_visits (n)")
        assert "PROJSEG" not in str(refused.value)
    finally:
        sql("DROP TABLE foreign_visits")


def plan_of(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def visit_of(number):
    return f"{number * 2654435761 % 2**32:X}"


SCANNED = f"SELECT page FROM visits WHERE visit = '{visit_of(77)}' ORDER BY page"
GROUPED = f"SELECT user, count(*) FROM visits WHERE visit = '{visit_of(77)}' GROUP BY user"
PRUNED = "(5 by index by_visit)"


@pytest.mark.parametrize(
    ("local", "texts"),
    [
        ("true", [GROUPED]),
        ("false", [SCANNED]),
        pytest.param("true", [SCANNED], marks=pytest.mark.slow),
        pytest.param("false", [GROUPED], marks=pytest.mark.slow),
    ],
)
def test_indexes_leave_out_segments_and_can_be_switched_off(spark, sql, local, texts):
    sql("CREATE INDEX by_visit ON visits (visit)")
    for text in texts:
        hinted = text.replace("SELECT", "SELECT /*+ NO_INDEXES */")
        optioned = text.replace("visits", "visits WITH (noIndexes = 'true')")
        excluded = text.replace("visits", "visits WITH (excludeIndexes = 'by_visit')")
        with using(spark, local_enabled=local):
            assert PRUNED in plan_of(sql(text))
            for other in (hinted, optioned, excluded):
                assert "pruned" in plan_of(sql(other))
                assert "by index" not in plan_of(sql(other))
                assert sql(other).collect() == sql(text).collect()
            for name, value in (("noIndexes", "true"), ("excludeIndexes", "BY_VISIT")):
                with using(spark, **{f"spark.projseg.{name}": value}):
                    assert "by index" not in plan_of(sql(text))
            assert len(sql(text).collect()) == 1


@pytest.mark.parametrize(
    "left_out",
    [{"insert", "delete", "replace"}, pytest.param(set(), marks=pytest.mark.slow)],
)
def test_what_writers_of_spark_write_is_covered(spark, sql, tmp_path, left_out):
    sql("CREATE INDEX by_visit ON visits (visit, user)")
    location = str(tmp_path / "visits")

    def stream(rows):
        folder = tmp_path / "arriving"
        rows.write.mode("overwrite").parquet(str(folder))
        arriving = spark.readStream.schema(rows.schema).parquet(str(folder))
        writer = arriving.writeStream.format("projseg").option("path", location)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    late = spark.sql("SELECT TIMESTAMP'2024-02-01' AS t, 'late' AS visit, 5 AS user, 'p' AS page")
    source = "SELECT TIMESTAMP'2024-02-03' t, 'm' visit, 5 user, 'q' page"
    verbs = {
        "append": lambda: late.write.format("projseg").mode("append").save(location),
        "insert": lambda: sql("INSERT INTO visits SELECT TIMESTAMP'2024-02-02', 'in', 6, 'p'"),
        "stream": lambda: stream(late),
        "update": lambda: sql("UPDATE visits SET user = user + 1 WHERE user < 50"),
        "delete": lambda: sql("DELETE FROM visits WHERE length(page) + user = 200"),
        "merge": lambda: sql(
            f"MERGE INTO visits v USING ({source}) s ON v.visit = s.visit "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ),
        "replace": lambda: sql(
            "INSERT INTO visits REPLACE WHERE t >= TIMESTAMP'2024-02-01' "
            "SELECT TIMESTAMP'2024-02-01', 'r', 7, 'p'"
        ),
        "optimize": lambda: sql("OPTIMIZE visits"),
        "overwrite": lambda: late.write.format("projseg").mode("overwrite").save(location),
    }
    for verb in [verb for verb in verbs if verb not in left_out]:
        version = projseg.Table(location).version
        verbs[verb]()
        assert projseg.Table(location).version > version or verb == "optimize", verb
        for segments, covered in coverage(sql).values():
            assert segments == covered > 0, verb
    with using(spark, **{"spark.projseg.local.maxBytes": "0"}):
        sql("INSERT INTO visits SELECT TIMESTAMP'2024-02-01', 'x', 1, 'p'")
        assert sql("OPTIMIZE visits").first().segments == 1  # by tasks
    assert set(coverage(sql).values()) == {(1, 1)}
    assert projseg.Table(location).verify(deep=True) == []


def test_a_first_write_declares_indexes_and_a_metadata_table_lists_them(spark, tmp_path):
    rows = spark.range(10).selectExpr("string(id) AS visit")
    declared = '[{"name": "by_visit", "columns": ["visit"], "fpp": 0.01}]'
    writer = rows.write.format("projseg").option("indexes", declared)
    writer.mode("append").save(str(tmp_path / "new"))
    reader = spark.read.format("projseg")
    (row,) = reader.load(f"{tmp_path / 'new'}#indexes").select("name", "covered").collect()
    assert row == ("by_visit", row.covered)
    assert row.covered > 0

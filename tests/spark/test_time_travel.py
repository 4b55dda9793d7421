"""Older versions of tables by name and by path, and tables by path in SQL."""

from __future__ import annotations

import shutil
from datetime import timedelta

import pytest

import projseg


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A table whose versions hold what `VERSIONS` says, to be copied."""
    place = tmp_path_factory.mktemp("travelled") / "table"
    spark.conf.set("spark.projseg.enabled", "true")
    try:
        spark.sql(
            f"CREATE TABLE travelled (k string, n int, t timestamp) USING projseg LOCATION "
            f"'{place}' TBLPROPERTIES ('timeColumn' = 't', 'segmentGranularity' = 'day')"
        )
        spark.sql("INSERT INTO travelled VALUES ('a', 1, TIMESTAMP'2024-03-31')")
        spark.sql("INSERT INTO travelled VALUES ('b', 2, TIMESTAMP'2024-04-01')")
        spark.sql("INSERT OVERWRITE travelled VALUES ('c', 4, TIMESTAMP'2024-10-27')")
    finally:
        spark.conf.set("spark.projseg.enabled", "false")
        spark.sql("DROP TABLE travelled")
    return place


@pytest.fixture
def sql(spark, template, tmp_path):
    """Run statements with the extension on, over `travelled`."""
    spark.conf.set("spark.projseg.enabled", "true")
    place = tmp_path / "Ältere Fassungen.v1"
    shutil.copytree(template, place)
    spark.sql(f"CREATE TABLE travelled USING projseg LOCATION '{place}'")
    try:
        yield spark.sql
    finally:
        spark.conf.set("spark.projseg.enabled", "false")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.sql("DROP TABLE travelled")


@pytest.fixture(params=["name", pytest.param("path", marks=pytest.mark.slow)])
def table(request, sql, tmp_path):
    return "travelled" if request.param == "name" else direct(tmp_path)


def direct(tmp_path):
    return f"projseg.`{tmp_path / 'Ältere Fassungen.v1'}`"


def keys(frame):
    return sorted(row.k for row in frame.collect())


def commits(sql, table="travelled"):
    """Return when each version was committed, oldest first, in the session's zone."""
    rows = sql(f"DESCRIBE HISTORY {table}").collect()
    return [row.timestamp for row in reversed(rows)]


VERSIONS = {0: ["a"], 1: ["a", "b"], 2: ["c"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_is_read_by_its_number(sql, spark, table, version):
    for text in (f"VERSION AS OF {version}", f"FOR SYSTEM_VERSION AS OF '{version}'"):
        assert keys(sql(f"SELECT * FROM {table} {text}")) == VERSIONS[version]
    assert keys(sql(f"SELECT x.k FROM {table} VERSION AS OF {version} AS x")) == VERSIONS[version]
    assert keys(sql(f"SELECT k FROM {table} WITH (versionAsOf = {version})")) == VERSIONS[version]
    read = spark.read.option("versionAsOf", version)
    assert keys(read.table(table)) == VERSIONS[version]


def test_it_is_answered_by_the_engine(sql, table):
    made = sql(f"SELECT k, sum(n) AS n FROM {table} VERSION AS OF 1 GROUP BY k")
    assert "ProjsegAnswer" in made._jdf.queryExecution().optimizedPlan().toString()
    assert sorted(map(tuple, made.collect())) == [("a", 1), ("b", 2)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns"])
def test_an_instant_reads_the_newest_version_not_later(sql, spark, table, zone):
    spark.conf.set("spark.sql.session.timeZone", zone)
    rows = sql(f"SELECT version, string(timestamp) AS at FROM ({history(sql, table)})").collect()
    for row in rows:
        for text in (
            f"'{row.at}'",
            f"TIMESTAMP'{row.at}'",
            f"TIMESTAMP'{row.at}' + INTERVAL 0 DAY",
        ):
            made = sql(f"SELECT * FROM {table} TIMESTAMP AS OF {text}")
            assert keys(made) == VERSIONS[row.version]
        assert (
            keys(spark.read.option("timestampAsOf", row.at).table(table)) == VERSIONS[row.version]
        )
    assert keys(sql(f"SELECT * FROM {table} TIMESTAMP AS OF current_timestamp()")) == VERSIONS[2]
    assert keys(sql(f"SELECT * FROM {table} TIMESTAMP AS OF now() + INTERVAL 1 DAY")) == VERSIONS[2]


def history(sql, table):
    sql(f"DESCRIBE HISTORY {table}").createOrReplaceTempView("travelled_history")
    return "SELECT * FROM travelled_history"


def test_an_instant_between_two_commits_reads_the_earlier_version(sql, table):
    first, second, _ = commits(sql, table)
    between = (second - timedelta(microseconds=1)).isoformat()
    assert first < second
    assert keys(sql(f"SELECT * FROM {table} TIMESTAMP AS OF '{between}'")) == VERSIONS[0]


def test_versions_of_one_table_meet_in_one_statement(sql, table):
    made = sql(
        f"SELECT a.k, b.k, c.k FROM {table} VERSION AS OF 0 a, {table} VERSION AS OF 1 b, {table} c"
    )
    assert sorted(map(tuple, made.collect())) == [("a", "a", "c"), ("a", "b", "c")]
    # Options that the engine does not take: Spark reads, each place from a reader of its own.
    made = sql(
        f"SELECT k FROM {table} WITH (versionAsOf = 0, threads = 1) UNION ALL "
        f"SELECT k FROM {table} WITH (versionAsOf = 1, threads = 1)"
    )
    assert keys(made) == ["a", "a", "b"]
    assert keys(
        sql(f"SELECT k FROM {table} WHERE k NOT IN (SELECT k FROM {table} VERSION AS OF 0)")
    )
    back = sql(f"INSERT INTO {table} SELECT * FROM {table} VERSION AS OF 0")
    assert back.collect() == []
    assert keys(sql(f"SELECT k FROM {table}")) == ["a", "c"]


def test_views_keep_the_version_that_they_name(sql, table):
    sql(f"CREATE OR REPLACE TEMPORARY VIEW of_first AS SELECT * FROM {table} VERSION AS OF 0")
    sql(f"CREATE OR REPLACE VIEW kept_first AS SELECT * FROM {_whole(table)} VERSION AS OF 0")
    try:
        sql(f"INSERT INTO {table} VALUES ('d', 8, TIMESTAMP'2024-12-01')")
        for view in ("of_first", "kept_first"):
            assert keys(sql(f"SELECT * FROM {view}")) == VERSIONS[0]
        # Spark versions no views.
        with pytest.raises(Exception, match=r"TIME_TRAVEL|not support"):
            sql("SELECT * FROM of_first VERSION AS OF 1")
    finally:
        sql("DROP VIEW of_first")
        sql("DROP VIEW kept_first")


def _whole(table):
    return "spark_catalog.default.travelled" if table == "travelled" else table


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("VERSION AS OF 9", "PROJSEG_UNKNOWN_VERSION"),
        ("VERSION AS OF 'first'", "PROJSEG_BAD_OPTION"),
        (
            "TIMESTAMP AS OF '2001-01-01'",
            "keeps no version committed at or before.*version 0 of 20",
        ),
        ("TIMESTAMP AS OF 'yesterday'", "INVALID_TIME_TRAVEL"),
        ("VERSION AS OF 1 WITH (timestampAsOf = '2030-01-01')", "PARSE_SYNTAX|TIME_TRAVEL"),
    ],
)
def test_what_is_not_there_is_said(sql, table, asked, words):
    with pytest.raises(Exception, match=f"(?s){words}"):
        sql(f"SELECT * FROM {table} {asked}").collect()


def test_columns_are_those_of_the_version(sql, spark, tmp_path):
    sql("INSERT INTO travelled WITH (mergeSchema = true) VALUES ('e', 1, TIMESTAMP'2025-01-01')")
    frame = spark.sql("SELECT 'f' AS k, 1 AS n, TIMESTAMP'2025-01-02' AS t, 2.5D AS `new one`")
    place = str(tmp_path / "Ältere Fassungen.v1")
    frame.write.format("projseg").mode("append").option("mergeSchema", True).save(place)
    table = direct(tmp_path)
    assert sql(f"SELECT * FROM {table}").columns == ["k", "n", "t", "new one"]
    assert sql(f"SELECT * FROM {table} VERSION AS OF 2").columns == ["k", "n", "t"]
    assert sql(f"SELECT max(`new one`) FROM {table}").first()[0] == 2.5


def test_tables_by_path(sql, spark, tmp_path):
    table = direct(tmp_path)
    assert keys(spark.table(table)) == ["c"]
    assert sql(f"SELECT x.n FROM PROJSEG.{table.partition('.')[2]} AS x").first().n == 4
    uri = (tmp_path / "Ältere Fassungen.v1").as_uri()
    assert keys(sql(f"SELECT * FROM projseg.`{uri}`")) == ["c"]
    segments = sql(f"SELECT * FROM projseg.`{tmp_path / 'Ältere Fassungen.v1'}#segments`")
    assert segments.count() == 1
    sql(f"INSERT INTO {table} SELECT 'd', 8, TIMESTAMP'2024-12-01'")
    spark.table("travelled").where("k = 'd'").write.insertInto(table)
    spark.table(table).where("k = 'c'").writeTo(table).append()
    made = projseg.Table(tmp_path / "Ältere Fassungen.v1").query(columns="k", order_by="k")
    assert made["k"].to_pylist() == ["c", "c", "d", "d"]
    sql(f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE k = 'd' LIMIT 1")
    assert keys(sql(f"SELECT * FROM {table}")) == ["d"]


def test_a_path_without_a_table_is_said(sql, tmp_path):
    for text in ("SELECT * FROM", "INSERT INTO"):
        end = " SELECT 1" if text.startswith("INSERT") else ""
        with pytest.raises(Exception, match="PROJSEG_NOT_A_TABLE"):
            sql(f"{text} projseg.`{tmp_path / 'absent'}`{end}")
    assert not (tmp_path / "absent").exists()


def test_without_the_extension_spark_refuses(plain, table):
    with pytest.raises(
        Exception, match=r"TIME_TRAVEL|time travel|DIRECT_QUERY|TABLE_OR_VIEW_NOT_FOUND"
    ):
        plain.sql(f"SELECT * FROM {table} VERSION AS OF 0")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("enabled", ["true", "false"])
def test_a_view_of_a_frame_is_renewed_by_refresh_table(sql, spark, tmp_path, enabled):
    spark.conf.set("spark.projseg.enabled", enabled)
    place = str(tmp_path / "Ältere Fassungen.v1")
    loaded = spark.read.format("projseg")
    frames = {
        "of_name": spark.table("travelled").where("k <> 'x'"),
        "of_path": spark.table(direct(tmp_path)),
        "of_load": loaded.load(place),
        "of_first": loaded.option("versionAsOf", 0).load(place),
    }
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    frames["of_name"].createOrReplaceGlobalTempView("of_name")
    names = {name: ["a"] if name == "of_first" else ["c"] for name in frames}
    names["global_temp.of_name"] = ["c"]
    try:
        sql("INSERT INTO travelled VALUES ('d', 8, TIMESTAMP'2024-12-01')")
        for name, kept in names.items():
            assert keys(sql(f"SELECT * FROM {name}")) == kept
            sql(f"REFRESH TABLE {name}")
            newest = kept if kept == ["a"] else ["c", "d"]
            assert (name, keys(sql(f"SELECT * FROM {name}"))) == (name, newest)
        assert keys(frames["of_name"]) == ["c"]
        sql("DELETE FROM travelled")
        assert keys(sql("SELECT * FROM of_load")) == ["c", "d"]
    finally:
        for name in names:
            sql(f"DROP VIEW {name}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("enabled", ["true", "false"])
def test_what_is_cached_is_of_its_version_and_no_newer_one_is_answered_from_it(
    sql, spark, tmp_path, enabled
):
    spark.conf.set("spark.projseg.enabled", enabled)
    is_found_by_name = spark.version >= "4.1"  # 4.0 takes no other statement for what is cached
    cached_again = ("sql", "again") if "4.1" <= spark.version < "4.3" else ()
    place = tmp_path / "Ältere Fassungen.v1"
    frame = spark.read.format("projseg").load(str(place)).cache()
    sql("CACHE TABLE travelled")
    texts = ("SELECT * FROM travelled", f"SELECT * FROM {direct(tmp_path)}",
             "SELECT k FROM travelled GROUP BY k")  # fmt: skip
    expected = ["c"]
    try:
        for k in ("c", "python", "sql", "again"):
            if k == "python":  # which is another process than the one that caches
                table = projseg.Table(place)
                table.append(table.query(columns=["'python' AS k", "n", "t"], limit=1))
            elif k != "c":
                sql(f"INSERT INTO travelled VALUES ('{k}', 8, TIMESTAMP'2024-12-01')")
            expected = sorted({*expected, k})
            assert [keys(sql(text)) for text in texts] == [expected] * len(texts)
            assert keys(frame) == ["c"]
            held = sql(texts[0])._jdf.queryExecution().withCachedData().toString()
            is_held = (k == "c" and is_found_by_name) or k in cached_again
            assert ("InMemoryRelation" in held) == is_held
        sql("UNCACHE TABLE travelled")
        sql("CACHE TABLE travelled")
        assert spark.catalog.isCached("travelled") == is_found_by_name
    finally:
        spark.catalog.clearCache()


def test_other_tables_are_sparks(sql, spark, tmp_path):
    spark.range(3).write.parquet(str(tmp_path / "plain"))
    assert sql(f"SELECT * FROM parquet.`{tmp_path / 'plain'}`").count() == 3
    sql(f"CREATE TABLE plain_travelled USING parquet LOCATION '{tmp_path / 'plain'}'")
    try:
        with pytest.raises(Exception, match="TIME_TRAVEL"):
            sql("SELECT * FROM plain_travelled VERSION AS OF 0")
    finally:
        sql("DROP TABLE plain_travelled")

"""Tables of Spark's own catalog, by name: a statement touches the table it names, and no other."""

from __future__ import annotations

import json

import pytest

import projseg


@pytest.fixture
def sql(spark, tmp_path):
    """Run statements with the extension on, over tables `src`, `dst` and `other`, each declared."""
    spark.conf.set("spark.projseg.enabled", "true")
    for name in ("src", "dst", "other"):
        spark.sql(
            f"CREATE TABLE {name} (k string, n int, t timestamp) USING projseg "
            f"LOCATION '{tmp_path / name}' TBLPROPERTIES ('timeColumn' = 't', "
            "'segmentGranularity' = 'day', 'projections' = "
            """'[{"name": "by_k", "sql": "SELECT k, sum(n) AS n GROUP BY ALL"}]')"""
        )
    spark.sql(
        "INSERT INTO src VALUES ('a', 1, TIMESTAMP'2024-01-01'), ('b', 2, TIMESTAMP'2024-01-02')"
    )
    spark.sql("INSERT INTO other VALUES ('o', 7, TIMESTAMP'2024-01-05')")
    spark.sql("INSERT INTO dst VALUES ('d', 9, TIMESTAMP'2024-01-09')")
    try:
        yield spark.sql
    finally:
        spark.conf.set("spark.projseg.enabled", "false")
        for name in ("src", "dst", "other"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def contents(tmp_path):
    """Return what each table holds, read past Spark."""
    found = {}
    for name in ("src", "dst", "other"):
        rows = projseg.Table(tmp_path / name).query(columns="k, n", order_by="k, n").to_pylist()
        found[name] = [(row["k"], row["n"]) for row in rows]
    return found


BEFORE = {"src": [("a", 1), ("b", 2)], "dst": [("d", 9)], "other": [("o", 7)]}
WRITES = {
    "INSERT INTO dst SELECT * FROM src": [("a", 1), ("b", 2), ("d", 9)],
    "INSERT INTO dst SELECT * FROM dst": [("d", 9), ("d", 9)],
    "INSERT OVERWRITE dst SELECT * FROM src": [("a", 1), ("b", 2)],
    "INSERT OVERWRITE TABLE dst SELECT k, n + 1, t FROM dst": [("d", 10)],
    "INSERT INTO dst (t, k, n) SELECT t, k, sum(n) FROM src GROUP BY t, k": [
        ("a", 1),
        ("b", 2),
        ("d", 9),
    ],
    "INSERT INTO dst SELECT a.k, b.n, a.t FROM src a JOIN other b": [("a", 7), ("b", 7), ("d", 9)],
    "WITH x AS (SELECT * FROM src) INSERT INTO dst SELECT * FROM x WHERE k = 'a'": [
        ("a", 1),
        ("d", 9),
    ],
}


@pytest.mark.parametrize("statement", WRITES)
def test_a_write_changes_the_table_it_names_and_no_other(sql, tmp_path, statement):
    assert contents(tmp_path) == BEFORE
    sql(statement)
    assert contents(tmp_path) == {**BEFORE, "dst": WRITES[statement]}


def test_options_of_the_statement_come_first(sql, tmp_path):
    sql(f"INSERT INTO dst WITH (path = '{tmp_path / 'other'}') SELECT * FROM src WHERE k = 'a'")
    assert contents(tmp_path) == {**BEFORE, "other": [("a", 1), ("o", 7)]}
    sql("INSERT INTO dst WITH (timezone = 'UTC') SELECT * FROM src WHERE k = 'b'")
    assert contents(tmp_path)["dst"] == [("b", 2), ("d", 9)]


def test_a_view_of_a_path_is_written_to_where_it_lies(sql, tmp_path):
    sql(f"CREATE TEMPORARY VIEW of_dst USING projseg OPTIONS (path '{tmp_path / 'dst'}')")
    try:
        sql("INSERT INTO of_dst SELECT * FROM src WHERE k = 'a'")
        assert contents(tmp_path) == {**BEFORE, "dst": [("a", 1), ("d", 9)]}
        assert sql("SELECT count(*) FROM of_dst").first()[0] == 1  # as it was when it was made
        sql("INSERT OVERWRITE of_dst SELECT * FROM src WHERE k = 'b'")
        assert contents(tmp_path) == {**BEFORE, "dst": [("b", 2)]}
    finally:
        sql("DROP VIEW of_dst")


@pytest.mark.parametrize("way", ["insertInto", "writeTo", "overwrite", "replace"])
def test_frames_write_to_the_table_they_name(sql, spark, tmp_path, way):
    frame = spark.table("src").where("k = 'a'")
    if way == "insertInto":
        frame.write.insertInto("dst")
    elif way == "writeTo":
        frame.writeTo("dst").append()
    elif way == "overwrite":
        frame.write.insertInto("dst", overwrite=True)
    else:
        frame.write.format("projseg").mode("append").saveAsTable("dst")
    kept = [] if way == "overwrite" else [("d", 9)]
    assert contents(tmp_path) == {**BEFORE, "dst": [("a", 1), *kept]}


def test_declared_properties_make_the_table(sql, tmp_path):
    made = projseg.Table(tmp_path / "src")
    assert made.properties.time_column == "t"
    assert made.segments().num_rows == 2
    assert made.projections()["name"].to_pylist() == ["by_k"]


def test_reads_are_answered_and_see_what_is_newest(sql, spark):
    text = "SELECT k, sum(n) AS n FROM src GROUP BY k"
    assert "ProjsegAnswer" in sql(text)._jdf.queryExecution().optimizedPlan().toString()
    assert sorted(map(tuple, sql(text).collect())) == [("a", 1), ("b", 2)]
    sql("INSERT INTO src VALUES ('a', 5, TIMESTAMP'2024-01-01')")
    assert sorted(map(tuple, sql(text).collect())) == [("a", 6), ("b", 2)]
    assert sql("SELECT s.n, d.n FROM src s JOIN dst d ON s.n < d.n").count() == 3
    assert [row.n for row in sql("SELECT n FROM src WHERE k = 'b'").collect()] == [2]
    assert spark.table("other").collect()[0].k == "o"


@pytest.mark.parametrize("way", ["sql", "saveAsTable", "writeTo"])
def test_tables_are_made_of_a_query_and_replaced(sql, spark, tmp_path, way):
    def make(rows, *, again):
        frame = spark.sql(rows)
        if way == "sql":
            verb = "CREATE OR REPLACE" if again else "CREATE"
            sql(f"{verb} TABLE made USING projseg AS {rows}")
        elif way == "saveAsTable":
            mode = "overwrite" if again else "error"
            frame.write.format("projseg").mode(mode).saveAsTable("made")
        else:
            writer = frame.writeTo("made").using("projseg")
            writer.createOrReplace() if again else writer.create()

    try:
        make("SELECT k, n FROM src", again=False)
        assert sorted(map(tuple, sql("SELECT * FROM made").collect())) == BEFORE["src"]
        make("SELECT k, n + 1 AS n FROM src WHERE k = 'b'", again=True)
        assert list(map(tuple, sql("SELECT * FROM made").collect())) == [("b", 3)]
        assert contents(tmp_path) == BEFORE
    finally:
        sql("DROP TABLE IF EXISTS made")


def test_a_table_without_rows_is_empty(sql, tmp_path):
    sql(f"CREATE TABLE fresh (k string, n int) USING projseg LOCATION '{tmp_path / 'fresh'}'")
    try:
        assert sql("SELECT * FROM fresh").collect() == []
        assert sql("SELECT count(*), sum(n) FROM fresh").first() == (0, None)
        sql("INSERT INTO fresh SELECT k, n FROM src")
        assert sql("SELECT sum(n) FROM fresh").first()[0] == 3
    finally:
        sql("DROP TABLE fresh")


def test_views_of_catalog_tables(sql):
    sql("CREATE OR REPLACE TEMPORARY VIEW both AS SELECT * FROM src UNION ALL SELECT * FROM dst")
    assert sql("SELECT sum(n) FROM both").first()[0] == 12
    sql("INSERT INTO dst VALUES ('d', 1, TIMESTAMP'2024-01-09')")
    assert sql("SELECT sum(n) FROM both").first()[0] == 13


def test_without_the_extension_such_tables_are_refused(sql, plain):
    for text in ("SELECT * FROM src", "INSERT INTO src SELECT 'a', 1, TIMESTAMP'2024-01-01'"):
        with pytest.raises(Exception, match="PROJSEG_PATH_MISSING"):
            plain.sql(text).collect()


ALIKE = [
    "SELECT k, sum(n) FROM {src} GROUP BY k",
    "INSERT INTO {src} VALUES ('c', 3, TIMESTAMP'2024-01-03'), ('c', 4, TIMESTAMP'2024-01-04')",
    "SELECT k, sum(n) FROM {src} GROUP BY k",
    "SELECT count(*) FROM {src} VERSION AS OF 1",
    "SELECT a.k, b.n FROM {src} a JOIN dst b ON a.n < b.n",
    "SELECT s.n FROM {src} s UNION ALL SELECT n FROM other",
    "DELETE FROM {src} WHERE n = 3",
    "UPDATE {src} SET n = n + 1 WHERE k = 'a'",
    "MERGE INTO {src} s USING dst ON s.k = dst.k WHEN NOT MATCHED THEN INSERT *",
    "INSERT INTO {src} REPLACE WHERE k = 'd' SELECT 'd', 1, TIMESTAMP'2024-01-09'",
    "INSERT INTO {src} SELECT k, n, t FROM {src} VERSION AS OF 0",
    "SELECT k, n FROM {src}",
    "ALTER TABLE {src} ADD COLUMN x int",
    "SELECT k, x FROM {src}",
    "SHOW PROJECTIONS FROM {src}",
    "OPTIMIZE {src} DRY RUN",
    "RESTORE {src} TO VERSION AS OF 0",
    "TRUNCATE TABLE {src}",
    "INSERT OVERWRITE {src} SELECT * FROM dst",
    "SELECT * FROM {src}",
    "SELECT * FROM fresh",
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("named", ["name", "path"])
def test_acceleration_changes_plans_and_nothing_that_can_be_said(sql, spark, tmp_path, named):
    """The switch is about plans: every statement works alike without it, by name and by path."""
    src = "src" if named == "name" else f"projseg.`{tmp_path / 'src'}`"
    told = {}
    for enabled in ("true", "false"):
        spark.conf.set("spark.projseg.enabled", enabled)
        sql(f"CREATE TABLE fresh (k string) USING projseg LOCATION '{tmp_path / 'fresh'}'")
        frames = [sql(text.format(src=src)) for text in ALIKE]
        told[enabled] = [
            sorted(map(tuple, frame.collect()), key=repr)
            for text, frame in zip(ALIKE, frames, strict=True)
            if not text.startswith("RESTORE")  # returns the number of the version
        ]
        plans = [one._jdf.queryExecution().optimizedPlan().toString() for one in frames]
        assert any("ProjsegAnswer" in one for one in plans) == (enabled == "true")
        sql("DROP TABLE fresh")
        sql(f"RESTORE {src} TO VERSION AS OF 0")
    assert told["true"] == told["false"]


def told(sql, name):
    rows = sql(f"DESCRIBE EXTENDED {name}").collect()
    # Spark shows the same type of text in two ways, declared and run from SHOW CREATE TABLE.
    return {row.col_name: row.data_type.replace(" collate UTF8_BINARY", "") for row in rows}


def test_what_is_told_of_a_table(sql, tmp_path):
    src = told(sql, "src")
    assert (src["k"], src["n"], src["t"]) == ("string", "int", "timestamp")
    assert (src["Provider"], src["Type"]) == ("projseg", "EXTERNAL")
    assert src["Location"].removeprefix("file:") == str(tmp_path / "src")
    assert "segmentGranularity=day" in src["Table Properties"]
    properties = dict(tuple(row) for row in sql("SHOW TBLPROPERTIES src").collect())
    assert properties["timeColumn"] == "t"
    assert json.loads(properties["projections"])[0]["name"] == "by_k"


def test_columns_are_described_as_those_of_other_tables(sql, tmp_path):
    columns = (
        "k INT NOT NULL, c CHAR(4), v VARCHAR(3) DEFAULT 'ab' COMMENT 'short', "
        "s STRING COLLATE UTF8_LCASE, l ARRAY<CHAR(2)>"
    )
    told = {}
    for source in ("parquet", "projseg"):
        sql(f"CREATE TABLE described ({columns}) USING {source} LOCATION '{tmp_path / source}'")
        described = [tuple(row) for row in sql("DESCRIBE described").collect()]
        told[source] = described[: columns.count(", ") + 1]  # what follows is of the source
        sql("DROP TABLE described")
    assert told["projseg"] == told["parquet"]


@pytest.mark.parametrize("place", ["managed", "external"])
def test_show_create_table_makes_the_same_table(sql, tmp_path, place):
    where = f"LOCATION '{tmp_path / 'Größe x.y'}' " if place == "external" else ""
    sql(
        "CREATE TABLE Repeated_1 (`select` string COMMENT 'it\\'s', `a b.c` int, `Übung``s` date, "
        "l array<struct<`p q`: bigint>>, z timestamp_ntz, `when` timestamp) USING projseg "
        f"{where}COMMENT 'odd' TBLPROPERTIES ('timeColumn' = 'when', 'segmentGranularity' = 'P5D', "
        """'clusterBy' = '["a b.c"]', 'purpose' = 'a \\'test\\'', 'projections' = """
        """'[{"name": "p", "sql": "SELECT `a b.c`, count(*) GROUP BY ALL"}]')"""
    )
    try:
        text = sql("SHOW CREATE TABLE Repeated_1").first()[0]
        assert ("LOCATION" in text) == (place == "external")
        before = told(sql, "Repeated_1")
        sql("DROP TABLE Repeated_1")
        sql(text)
        after = told(sql, "Repeated_1")
        assert {**after, "Created Time": ""} == {**before, "Created Time": ""}
        assert sql("SHOW CREATE TABLE Repeated_1").first()[0] == text
        sql(
            "INSERT INTO Repeated_1 VALUES ('s', 1, DATE'2024-01-01', NULL, NULL, "
            "TIMESTAMP'2024-03-31 02:30')"
        )
        made = projseg.Table(after["Location"])
        assert made.properties.cluster_by == ("a b.c",)
        assert made.projections()["segments"].to_pylist() == [1]
        assert sql("SELECT `a b.c`, count(*) FROM repeated_1 GROUP BY 1").first() == (1, 1)
    finally:
        sql("DROP TABLE IF EXISTS Repeated_1")


def test_properties_and_names_of_a_table_change(sql, tmp_path):
    sql("ALTER TABLE src SET TBLPROPERTIES ('purpose' = 'more')")
    assert ("purpose", "more") in map(tuple, sql("SHOW TBLPROPERTIES src").collect())
    sql("ALTER TABLE src UNSET TBLPROPERTIES ('purpose')")
    assert "purpose" not in told(sql, "src")["Table Properties"]
    sql("ALTER TABLE src RENAME TO src_renamed")
    try:
        assert sql("SELECT sum(n) FROM src_renamed").first()[0] == 3
        assert contents(tmp_path) == BEFORE
    finally:
        sql("ALTER TABLE src_renamed RENAME TO src")


def test_without_the_extension_spark_tells_what_it_did(sql, plain):
    assert "Provider" not in told(plain.sql, "src")
    assert plain.sql("SHOW CREATE TABLE src").first()[0].startswith("CREATE TABLE")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE made (k string, n int) USING projseg PARTITIONED BY (k)",
        "CREATE TABLE made (k string, n int) USING projseg CLUSTERED BY (k) INTO 4 BUCKETS",
        "CREATE TABLE made (k string, n int) USING projseg CLUSTER BY (k)",
        "CREATE TABLE made USING projseg PARTITIONED BY (k) AS SELECT * FROM src",
    ],
)
def test_partitions_and_buckets_are_refused(sql, statement):
    with pytest.raises(Exception, match=r"PROJSEG_BAD_OPTION\] .*segmentGranularity"):
        sql(statement)
    assert sql("SHOW TABLES LIKE 'made'").count() == 0

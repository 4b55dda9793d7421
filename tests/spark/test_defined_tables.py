"""Spark over a catalog of definitions: statements, reads and writes by name, beside Python's."""

from __future__ import annotations

import datetime
import json

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import IllegalArgumentException

import projseg

pytest.importorskip("sqlalchemy")

IS_FIRST = pyspark.__version__.startswith("4.0.")
IS_EARLY = pyspark.__version__.startswith(("4.0.", "4.1."))
CLASS = "org.apache.spark.sql.projseg.ProjsegCatalog"


@pytest.fixture(scope="module")
def house(spark, tmp_path_factory):
    """The catalog that sessions know as `defs`, as Python opens it."""
    folder = tmp_path_factory.mktemp("defs")
    with projseg.Catalog(folder / "house.db", warehouse=folder / "warehouse") as made:
        made.init()
        spark.conf.set("spark.sql.catalog.defs", CLASS)
        spark.conf.set("spark.sql.catalog.defs.uri", str(folder / "house.db"))
        spark.conf.set("spark.sql.catalog.defs.warehouse", str(folder / "warehouse"))
        yield made


@pytest.fixture
def sql(spark, house):
    spark.conf.set("spark.projseg.enabled", "true")
    spark.sql("CREATE NAMESPACE defs.s COMMENT 'ours' WITH DBPROPERTIES ('k' = 'v')")
    yield spark.sql
    spark.sql("DROP NAMESPACE IF EXISTS defs.s CASCADE")
    spark.conf.set("spark.projseg.enabled", "false")


EDITS = (
    "CREATE TABLE defs.s.edits (time TIMESTAMP, channel STRING COMMENT 'IRC name', added BIGINT) "
    "USING projseg PARTITIONED BY (days(time)) COMMENT 'Edits' TBLPROPERTIES ("
    "'targetSegmentRows' = '1000', 'clusterBy' = 'channel', 'purpose' = 'x', 'projections' = "
    """'[{"name": "p", "sql": "SELECT channel, sum(added) AS added GROUP BY ALL"}]')"""
)
NOW = datetime.datetime(2024, 5, 3, tzinfo=datetime.UTC)
ROWS = "(TIMESTAMP'2024-05-01 01:00', 'a', 1), (TIMESTAMP'2024-05-02 02:00', 'b', 2)"


def rows(frame):
    return sorted((tuple(row) for row in frame.collect()), key=str)


def test_the_chain_of_the_seed(sql, house, spark):
    sql(EDITS)
    assert house.spec("s.edits").to_dict() == {
        "type": "table",
        "properties": {
            "description": "Edits",
            "timeColumn": "time",
            "segmentGranularity": "day",
            "targetSegmentRows": 1000,
            "clusterKeys": [{"column": "channel"}],
            "projections": [
                {"name": "p", "sql": "SELECT channel, sum(added) AS added GROUP BY ALL"}
            ],
            "tableProperties": {"purpose": "x"},
        },
        "columns": [
            {"name": "time", "sqlType": "timestamp"},
            {"name": "channel", "sqlType": "string", "comment": "IRC name"},
            {"name": "added", "sqlType": "bigint"},
        ],
    }
    frame = sql("SELECT * FROM defs.s.edits")
    assert [field.simpleString() for field in frame.schema] == [
        "time:timestamp", "channel:string", "added:bigint",
    ]  # fmt: skip
    assert frame.collect() == []
    assert sql("SELECT count(*), sum(added) FROM defs.s.edits").first() == (0, None)
    sql("ALTER TABLE defs.s.edits ADD COLUMN city STRING COMMENT 'of it'")
    assert sql("SELECT city FROM defs.s.edits").columns == ["city"]
    if IS_FIRST:  # it finds no value for a column that is not listed
        sql(f"INSERT INTO defs.s.edits SELECT *, CAST(NULL AS STRING) FROM VALUES {ROWS}")
    else:
        sql(f"INSERT INTO defs.s.edits (time, channel, added) VALUES {ROWS}")
    assert rows(sql("SELECT channel, added, city FROM defs.s.edits")) == [
        ("a", 1, None), ("b", 2, None),
    ]  # fmt: skip
    table = house.table("s.edits")
    assert table.properties.segment_granularity == "day"
    assert table.properties.cluster_by == ("channel",)
    assert table.properties.target_segment_rows == 1000
    assert table.segments().num_rows == 2
    assert table.projections()["segments"].to_pylist() == [2]
    made = sql("SELECT channel, sum(added) AS n FROM defs.s.edits GROUP BY channel")
    assert "ProjsegAnswer" in made._jdf.queryExecution().optimizedPlan().toString()
    assert rows(made) == [("a", 1), ("b", 2)]
    # Another granularity becomes the table's with the next rows, in their commit.
    sql("ALTER TABLE defs.s.edits SET TBLPROPERTIES ('segmentGranularity' = 'hour')")
    version = table.refresh().version
    sql(
        "INSERT INTO defs.s.edits VALUES (TIMESTAMP'2024-06-01 01:00', 'c', 3, 'x'), "
        "(TIMESTAMP'2024-06-01 02:00', 'c', 4, 'y')"
    )
    table.refresh()
    assert table.version == version + 1
    assert table.properties.segment_granularity == "hour"
    assert table.segments().num_rows == 4
    # A statement's option is for its own segments.
    sql(
        "INSERT INTO defs.s.edits WITH (segmentGranularity = 'month') VALUES "
        "(TIMESTAMP'2024-07-01', 'd', 5, 'x'), (TIMESTAMP'2024-07-05', 'd', 6, 'y')"
    )
    table.refresh()
    assert table.properties.segment_granularity == "hour"
    july = [s for s in table.segments().to_pylist() if s["interval_start"].month == 7]
    assert {s["interval_end"].month for s in july} == {8}
    assert house.sql("SELECT sum(added) AS n FROM s.edits").to_pylist() == [{"n": 21}]
    spark.table("defs.s.edits").where("channel = 'd'").writeTo("defs.s.edits").append()
    assert sql("SELECT count(*) FROM defs.s.edits").first()[0] == 8
    sql("INSERT OVERWRITE defs.s.edits SELECT * FROM defs.s.edits WHERE channel = 'a'")
    assert rows(sql("SELECT channel, added FROM defs.s.edits")) == [("a", 1)]
    sql("REPLACE TABLE defs.s.edits (x INT) USING projseg")
    assert sql("SELECT * FROM defs.s.edits").columns == ["x"]


def test_comments_that_are_too_long_are_refused(sql, house):
    sql(EDITS)
    before, long = house.spec("s.edits"), "x" * 8_193
    for text in (
        f"COMMENT ON TABLE defs.s.edits IS '{long}'",
        f"ALTER TABLE defs.s.edits ALTER COLUMN channel COMMENT '{long}'",
        f"ALTER TABLE defs.s.edits ADD COLUMNS (a int, b int COMMENT '{long}')",
        f"ALTER TABLE defs.s.edits SET TBLPROPERTIES ('note' = '{long * 32}')",
        f"CREATE TABLE defs.s.other (a int COMMENT '{long}') USING projseg",
        f"CREATE TABLE defs.s.other (a int) USING projseg COMMENT '{long}'",
        f"CREATE NAMESPACE defs.other COMMENT '{long}'",
    ):
        with pytest.raises(Exception, match=r"ha(s|ve) \d+ bytes; at most \d+ are kept"):
            sql(text)
    assert house.spec("s.edits") == before
    assert [one.name for one in house.tables("s")] == ["edits"]


def test_declared_types_are_casts(sql, house):
    house.create("s.t", {"columns": [{"name": "a", "sqlType": "string"}, {"name": "b"}]})
    house.table("s.t").append(pa.table({"a": ["1", "2"], "b": ["x", "y"]}))
    house.merge("s.t", {"columns": [{"name": "a", "sqlType": "int"}]})
    assert rows(sql("SELECT a, a + 1 FROM defs.s.t")) == [(1, 2), (2, 3)]
    assert sql("SELECT sum(a) FROM defs.s.t WHERE a > 1").first()[0] == 2
    sql("INSERT INTO defs.s.t VALUES (7, 'z')")
    assert house.table("s.t").properties.schema.field("a").type == pa.string()
    assert rows(sql("SELECT a, b FROM defs.s.t")) == [(1, "x"), (2, "y"), (7, "z")]
    path = house.metadata("s.t").location
    projseg.Table(path).append(pa.table({"a": ["no"], "b": ["w"]}))
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        sql("SELECT a FROM defs.s.t").collect()
    assert sql("SELECT count(*) FROM defs.s.t").first()[0] == 4
    sql("ALTER TABLE defs.s.t ALTER COLUMN a TYPE STRING")
    assert len(rows(sql("SELECT a FROM defs.s.t"))) == 4
    with pytest.raises(Exception, match=r"INCOMPATIBLE_DATA_FOR_TABLE|cannot be cast|ARITY"):
        sql("INSERT INTO defs.s.t SELECT array(1), 'x'")
    sql("DELETE FROM defs.s.t WHERE a = 'no'")
    assert sql("UPDATE defs.s.t SET b = 'new' WHERE a = '7'").first()[0] == 1
    assert rows(sql("SELECT a, b FROM defs.s.t WHERE b = 'new'")) == [("7", "new")]


def test_columns_are_changed_and_hidden(sql, house):
    sql("CREATE TABLE defs.s.t (a INT, b STRING, c DATE)")
    sql("INSERT INTO defs.s.t VALUES (1, 'x', DATE'2024-01-01')")
    sql("ALTER TABLE defs.s.t ADD COLUMN first STRING FIRST, mid INT AFTER a")
    assert sql("SELECT * FROM defs.s.t").columns == ["first", "a", "mid", "b", "c"]
    sql("ALTER TABLE defs.s.t ALTER COLUMN c AFTER a")
    sql("ALTER TABLE defs.s.t ALTER COLUMN a TYPE BIGINT")
    assert house.table("s.t").properties.schema.field("a").type == pa.int64()
    sql("ALTER TABLE defs.s.t ALTER COLUMN b COMMENT 'said'")
    sql("ALTER TABLE defs.s.t RENAME COLUMN b TO bb")
    sql("ALTER TABLE defs.s.t DROP COLUMN first")
    assert rows(sql("SELECT * FROM defs.s.t")) == [
        (1, sql("SELECT DATE'2024-01-01'").first()[0], None, "x")
    ]
    assert sql("ALTER TABLE defs.s.t HIDE COLUMNS (mid, c)").first().version > 0
    assert sql("SELECT * FROM defs.s.t").columns == ["a", "bb"]
    with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
        sql("SELECT mid FROM defs.s.t")
    sql("ALTER TABLE defs.s.t UNHIDE COLUMNS (mid)")
    assert sql("SELECT * FROM defs.s.t").columns == ["a", "mid", "bb"]
    sql("ALTER TABLE defs.s.t SET TBLPROPERTIES ('sealed' = 'true', 'own' = '1')")
    sql("ALTER TABLE defs.s.t UNSET TBLPROPERTIES ('own')")
    sql("ALTER TABLE defs.s.t CLUSTER BY (a)")
    sql("COMMENT ON TABLE defs.s.t IS 'a table'")
    found = house.spec("s.t").to_dict()["properties"]
    assert found == {
        "description": "a table", "clusterKeys": [{"column": "a"}], "hiddenColumns": ["c"],
        "sealed": True,
    }  # fmt: skip
    for text, words in (
        ("ALTER TABLE defs.s.t ADD COLUMN a INT", "ALREADY_EXISTS|PROJSEG_COLUMN_EXISTS"),
        ("ALTER TABLE defs.s.t DROP COLUMN a", "PROJSEG_COLUMN_IN_USE"),
        ("ALTER TABLE defs.s.t HIDE COLUMNS (a) MORE", "PARSE_SYNTAX_ERROR"),
        ("ALTER TABLE defs.s.none HIDE COLUMNS (a)", "TABLE_OR_VIEW_NOT_FOUND"),
    ):
        with pytest.raises(Exception, match=words):
            sql(text)


def test_tables_are_shown_renamed_dropped_and_brought_back(sql, house):
    sql(EDITS)
    shown = sql("SHOW CREATE TABLE defs.s.edits").first()[0]
    before = house.spec("s.edits")
    properties = dict(tuple(row) for row in sql("SHOW TBLPROPERTIES defs.s.edits").collect())
    assert properties["segmentGranularity"] == "day"
    described = {
        row.col_name: row.data_type for row in sql("DESCRIBE EXTENDED defs.s.edits").collect()
    }
    assert described["channel"] == "string"
    assert "definitionVersion=" in described["Table Properties"]
    assert "state=ACTIVE" in described["Table Properties"]
    sql("ALTER TABLE defs.s.edits RENAME TO s.changes")
    assert [row.tableName for row in sql("SHOW TABLES IN defs.s").collect()] == ["changes"]
    sql(f"INSERT INTO defs.s.changes (time, channel, added) VALUES {ROWS}")
    assert (
        "storedTypes=time: TIMESTAMP"
        in {
            row.col_name: row.data_type for row in sql("DESCRIBE EXTENDED defs.s.changes").collect()
        }["Table Properties"]
    )
    sql("DROP TABLE defs.s.changes")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT * FROM defs.s.changes")
    sql("UNDROP TABLE defs.s.changes")
    assert sql("SELECT sum(added) FROM defs.s.changes").first()[0] == 3
    place = house.metadata("s.changes").location
    sql("DROP TABLE defs.s.changes PURGE")
    with pytest.raises(projseg.ProjsegError, match="PROJSEG_NOT_A_TABLE"):
        projseg.Table(place)
    sql("DROP TABLE IF EXISTS defs.s.changes")
    sql(shown)
    assert house.spec("s.edits") == before
    assert "s" in [row[0] for row in sql("SHOW NAMESPACES IN defs").collect()]
    assert "ours" in str(sql("DESCRIBE NAMESPACE EXTENDED defs.s").collect())
    with pytest.raises(Exception, match=r"(?i)not.empty"):
        sql("DROP NAMESPACE defs.s")


def test_registered_tables_keep_their_files(sql, house, tmp_path):
    projseg.Table.create(tmp_path / "own", pa.schema([("a", pa.int64())])).append(
        pa.table({"a": [1]})
    )
    sql(f"CREATE TABLE defs.s.r (a BIGINT, b STRING) LOCATION '{tmp_path / 'own'}'")
    assert rows(sql("SELECT * FROM defs.s.r")) == [(1, None)]
    sql("DROP TABLE defs.s.r PURGE")
    assert len(projseg.Table(tmp_path / "own").query()) == 1


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("(x INT) PARTITIONED BY (x)", "PROJSEG_BAD_OPTION"),
        ("(x INT NOT NULL)", "NOT NULL"),
        ("(x INT DEFAULT 3)", "DEFAULT"),
        ("(x VARCHAR(3))", "VARCHAR"),
        ("(x INT) TBLPROPERTIES ('timeColumn' = 'x')", "PROJSEG_BAD_SPEC"),
        ("(x INT) TBLPROPERTIES ('timeColumn' = 'y')", "UNKNOWN_COLUMN.*timeColumn names 'y'"),
        ("(x INT) CLUSTER BY (y)", "y"),
        ("(x INT) TBLPROPERTIES ('clusterBy' = 'X, y')", "UNKNOWN_COLUMN.*clusterBy names 'y'"),
        ("(x INT) TBLPROPERTIES ('password' = 'x')", "PROJSEG_BAD_SPEC"),
        ("(x INT) TBLPROPERTIES ('targetSegmentRows' = 'x')", "PROJSEG_BAD_OPTION"),
        ("(t DATE) PARTITIONED BY (days(t)) TBLPROPERTIES ('segmentGranularity' = 'hour')", "both"),
    ],
)
def test_what_a_definition_cannot_say_is_refused(sql, house, rest, words):
    with pytest.raises(Exception, match=words):
        sql(f"CREATE TABLE defs.s.bad {rest}")
    assert not house.exists("s.bad")


def test_a_layout_that_no_write_could_follow_is_refused(sql, house):
    sql("CREATE TABLE defs.s.laid (t TIMESTAMP, u TIMESTAMP, n INT)")
    for name in ("nope", "n"):
        with pytest.raises(Exception, match="PROJSEG_"):
            sql(f"ALTER TABLE defs.s.laid SET TBLPROPERTIES ('timeColumn' = '{name}')")
    with pytest.raises(Exception, match=r"UNKNOWN_COLUMN.*clusterBy names 'nope'"):
        sql("ALTER TABLE defs.s.laid SET TBLPROPERTIES ('clusterBy' = 'nope')")
    sql("ALTER TABLE defs.s.laid SET TBLPROPERTIES ('timeColumn' = 'T', 'clusterBy' = 'N')")
    sql("INSERT INTO defs.s.laid SELECT timestamp'2024-05-01', NULL, 1")
    with pytest.raises(Exception, match="CONTRADICTS_TABLE"):
        sql("ALTER TABLE defs.s.laid SET TBLPROPERTIES ('timeColumn' = 'u')")
    sql("ALTER TABLE defs.s.laid SET TBLPROPERTIES ('timeColumn' = 't', 'clusterBy' = 'u')")
    sql("INSERT INTO defs.s.laid SELECT timestamp'2024-05-02', NULL, 2")
    assert house.table("s.laid").properties.time_column == "t"
    assert house.table("s.laid").query().num_rows == 2
    house.register("s.less", house.metadata("s.laid").location, {"columns": []})
    sql("ALTER TABLE defs.s.less SET TBLPROPERTIES ('timeColumn' = 't', 'clusterBy' = 'n')")


def test_tables_of_a_query_get_their_name_when_they_are_whole(sql, house):
    sql(EDITS)
    sql(f"INSERT INTO defs.s.edits (time, channel, added) VALUES {ROWS}")
    sql(
        "CREATE TABLE defs.s.made PARTITIONED BY (months(time)) AS "
        "SELECT time, added FROM defs.s.edits"
    )
    table = house.table("s.made")
    assert table.properties.segment_granularity == "month"
    assert rows(sql("SELECT added FROM defs.s.made")) == [(1,), (2,)]
    with pytest.raises(Exception, match="ALREADY_EXISTS"):
        sql("CREATE TABLE defs.s.made AS SELECT 1 AS x")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        sql("CREATE OR REPLACE TABLE defs.s.made AS SELECT added / 0 AS x FROM defs.s.edits")
    assert rows(sql("SELECT added FROM defs.s.made")) == [(1,), (2,)], "the old one, whole"
    assert house.store.staged() == []
    sql("CREATE OR REPLACE TABLE defs.s.made AS SELECT added + 1 AS x FROM defs.s.edits")
    assert rows(sql("SELECT x FROM defs.s.made")) == [(2,), (3,)]
    assert house.metadata("s.made").location == table.location
    assert rows(sql("SELECT added FROM defs.s.made VERSION AS OF 0")) == [(1,), (2,)]
    assert house.table("s.made").history()["operation"].to_pylist() == ["replace table", "create"]


def test_older_versions_and_other_sessions(sql, house, spark):
    sql("CREATE TABLE defs.s.t (a INT)")
    sql("INSERT INTO defs.s.t VALUES (1)")
    sql("INSERT INTO defs.s.t VALUES (2)")
    assert rows(sql("SELECT a FROM defs.s.t VERSION AS OF 0")) == [(1,)]
    for version in ("VERSION AS OF 999", "TIMESTAMP AS OF '2001-01-01'"):
        with pytest.raises(IllegalArgumentException, match="PROJSEG_UNKNOWN_VERSION"):
            sql(f"SELECT a FROM defs.s.t {version}")
    house.merge("s.t", {"columns": [{"name": "b", "sqlType": "date"}]})
    assert rows(sql("SELECT a, b FROM defs.s.t VERSION AS OF 0")) == [(1, None)]
    assert sql("SHOW SEGMENTS FROM defs.s.t").count() == 2
    other = spark.newSession()
    for key in ("", ".uri", ".warehouse"):
        name = f"spark.sql.catalog.defs{key}"
        other.conf.set(name, spark.conf.get(name))
    other.sql("USE defs.s")
    assert other.sql("SELECT count(*) FROM t").first()[0] == 2
    other.conf.set("spark.sql.catalog.bad", CLASS)
    other.conf.set("spark.sql.catalog.bad.uri", "postgresql://u:secret@host/x")
    with pytest.raises(Exception, match="PGPASSFILE") as caught:
        other.sql("SHOW TABLES IN bad.s")
    assert "u:secret" not in str(caught.value)


@pytest.mark.skipif(IS_EARLY, reason="its parser has no table functions of dotted names")
def test_rows_come_from_templates_and_files(sql, house, spark, tmp_path):
    (tmp_path / "06-01.csv").write_text("2024-06-01T00:00:00Z,#en,5\n")
    (tmp_path / "06-02.csv").write_text("2024-06-02T00:00:00Z,#de,7\n")
    (tmp_path / "bad.csv").write_text("2024-06-02T00:00:00Z,#de,x\n")
    spark.conf.set("spark.sql.catalog.reader", CLASS)
    for key in ("uri", "warehouse"):
        value = spark.conf.get(f"spark.sql.catalog.defs.{key}")
        spark.conf.set(f"spark.sql.catalog.reader.{key}", value)
    spark.conf.set("spark.sql.catalog.reader.externalRoots", str(tmp_path))
    sql(EDITS)
    columns = "(time TIMESTAMP, channel STRING, added BIGINT)"
    options = f"OPTIONS (source 'files', baseDir '{tmp_path}')"
    sql(f"CREATE TABLE defs.s.wiki {columns} USING csv {options}")
    sql(
        "CREATE TABLE defs.s.inline (x STRING, z BIGINT) USING csv "
        "OPTIONS (source 'inline', data 'a,1\nb,2')"
    )
    assert house.spec("s.wiki").to_dict()["properties"] == {
        "format": "csv", "baseDir": str(tmp_path),
    }  # fmt: skip
    for name in ("06-01", "06-02"):
        sql(
            "INSERT INTO reader.s.edits SELECT time, channel, added "
            f"FROM reader.s.wiki(files => array('{name}.csv'))"
        )
    assert rows(sql("SELECT channel, added FROM defs.s.edits")) == [("#de", 7), ("#en", 5)]
    assert house.table("s.edits").segments().num_rows == 2
    both = sql("SELECT sum(added) AS n FROM reader.s.wiki(filePattern => '06-*.csv') w")
    assert both.first().n == 12
    two = sql("SELECT * FROM reader.s.wiki(files => '06-01.csv,06-02.csv')")
    assert two.rdd.getNumPartitions() == 2
    assert rows(sql("SELECT * FROM defs.s.inline WHERE z > 1")) == [("b", 2)]
    shown = sql("SHOW CREATE TABLE defs.s.wiki").first()[0]
    before = house.spec("s.wiki")
    sql("DROP TABLE defs.s.wiki")
    sql(shown)
    assert house.spec("s.wiki") == before
    for text, words in (
        ("SELECT * FROM reader.s.wiki", "PROJSEG_MISSING_PARAMETER"),
        ("SELECT * FROM reader.s.wiki(fils => 'a')", "PROJSEG_UNKNOWN_PARAMETER"),
        ("SELECT * FROM reader.s.wiki('a')", "PROJSEG_UNKNOWN_PARAMETER"),
        ("SELECT * FROM reader.s.wiki(files => '../x')", "PROJSEG_OUTSIDE_ROOTS|PROJSEG_BAD_SPEC"),
        ("SELECT * FROM defs.s.wiki(files => '06-01.csv')", "PROJSEG_OUTSIDE_ROOTS"),
        ("SELECT * FROM reader.s.wiki(files => 'bad.csv')", "PROJSEG_EVALUATION_BAD_CAST"),
        (
            "INSERT INTO defs.s.inline VALUES ('a', 1)",
            "UNSUPPORTED_FEATURE|does not support|append",
        ),
    ):
        with pytest.raises(Exception, match=words):
            sql(text).collect()


def test_information_schema(sql, house):
    sql(EDITS)
    found = sql(
        "SELECT column_name, full_data_type, is_declared FROM defs.information_schema.columns "
        "WHERE table_name = 'edits' ORDER BY ordinal_position"
    )
    assert [tuple(row) for row in found.collect()] == [
        ("time", "timestamp", True), ("channel", "string", True), ("added", "bigint", True),
    ]  # fmt: skip
    views = {row.tableName for row in sql("SHOW TABLES IN defs.information_schema").collect()}
    assert {"schemata", "tables", "columns", "projections"} <= views
    assert sql("DESCRIBE defs.information_schema.tables").count() > 10
    schemata = sql("SELECT schema_name FROM defs.information_schema.schemata").collect()
    assert "s" in {row[0] for row in schemata}
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT * FROM defs.information_schema.none")
    # A table that WHERE names alone is read live.
    house.table("s.edits").append(pa.table({"time": [NOW], "added": [1], "more": [2.5]}))
    house.store.record(house.metadata("s.edits").id, stored_schema={})
    text = "SELECT {} FROM defs.information_schema.columns WHERE table_schema = 's'"
    one = sql(text.format("column_name, stored_type") + " AND table_name IN ('edits')")
    assert ("more", "double") in rows(one)
    # Pages of definitions, each a task's; conditions that name no table, and no column at all.
    for number in range(230):
        columns = [{"name": f"c{place}", "sqlType": "int"} for place in range(100)]
        house.create(("s", f"t{number}"), {"columns": columns})
    assert sql(text.format("*")).rdd.getNumPartitions() == 3
    assert sql(text.format("count(*)")).first()[0] == 23_004
    last = " AND table_name LIKE 't2%' AND (table_name = 't21' OR table_name = 't229')"
    assert sql(text.format("count(DISTINCT table_name, column_name)") + last).first()[0] == 200
    assert sql("SELECT count(*) FROM defs.information_schema.tables").first()[0] >= 231


@pytest.mark.skipif(pyspark.__version__ < "4.3", reason="its parser shows no tables as JSON")
def test_kinds_of_tables_are_listed_without_opening_them(sql, house, tmp_path):
    sql(EDITS)
    house.register("s.r", tmp_path / "nowhere")
    sql("CREATE TABLE defs.s.w (x STRING) USING csv OPTIONS (source 'inline', data 'a')")
    shown = sql("SHOW TABLE EXTENDED IN defs.s LIKE '*' AS JSON").first()[0]
    found = {one["name"]: one.get("type") for one in json.loads(shown)["tables"]}
    assert found == {"edits": "MANAGED", "r": "EXTERNAL", "w": "FOREIGN"}


@pytest.mark.skipif(IS_EARLY, reason="its parser has no table functions of dotted names")
def test_a_source_of_spark_is_read_by_spark(sql, house, spark, tmp_path):
    sql("USE spark_catalog.default")
    for day in (1, 2):
        frame = spark.createDataFrame([(day, f"d{day}")], "n INT, t STRING")
        frame.write.parquet(str(tmp_path / "in" / f"day={day}"))
    (tmp_path / "in" / "day=1" / "link.parquet").symlink_to("/etc/hostname")
    for key in ("", ".uri", ".warehouse"):
        value = spark.conf.get(f"spark.sql.catalog.defs{key}")
        spark.conf.set(f"spark.sql.catalog.files{key}", value)
    spark.conf.set("spark.sql.catalog.files.externalRoots", str(tmp_path))
    house.create("s.whole", {"type": "spark", "properties": {
        "format": "parquet", "options": {"path": str(tmp_path / "in")}}})  # fmt: skip
    house.create("s.open", {"type": "spark", "properties": {"format": "parquet"}})
    with pytest.raises(Exception, match="PROJSEG_OUTSIDE_ROOTS"):
        sql("SELECT * FROM files.s.whole").collect()
    (tmp_path / "in" / "day=1" / "link.parquet").unlink()
    assert rows(sql("SELECT n, t, day FROM files.s.whole")) == [(1, "d1", 1), (2, "d2", 2)]
    part = f"files.s.open(path => '{tmp_path}/in/day=2/*.parquet')"
    assert rows(sql(f"SELECT n FROM {part}")) == [(2,)]
    house.create("s.jdbc", {"type": "spark", "properties": {"format": "jdbc"}})
    for text, words in (
        ("defs.s.whole", "PROJSEG_OUTSIDE_ROOTS"),
        ("files.s.open(path => '/etc')", "PROJSEG_OUTSIDE_ROOTS"),
        ("files.s.open", "PROJSEG_MISSING_PARAMETER"),
        ("files.s.whole(path => '/etc')", "PROJSEG_UNKNOWN_PARAMETER"),
        ("files.s.jdbc(url => 'jdbc:x')", "PROJSEG_UNSUPPORTED_FEATURE"),
    ):
        with pytest.raises(Exception, match=words):
            sql(f"SELECT * FROM {text}").collect()


def test_projections_are_declared_in_the_definition_and_in_the_table(sql, house):
    sql("CREATE TABLE defs.s.p (k STRING, n BIGINT)")
    added = "ALTER TABLE defs.s.p ADD PROJECTION IF NOT EXISTS {} (SELECT k, {} GROUP BY k)"
    sql(added.format("a", "sum(n) AS n"))  # before the first row
    sql("INSERT INTO defs.s.p VALUES ('x', 1), ('x', 2), ('y', 3)")
    sql(added.format("b", "max(n) AS n"))
    sql(added.format("b", "min(n) AS n"))  # it is there
    declared = [one["name"] for one in house.spec("s.p").to_dict()["properties"]["projections"]]
    assert declared == ["a", "b"]
    table = house.table("s.p")
    assert table.projections()["name"].to_pylist() == ["a", "b"]
    count = table.segments().num_rows
    assert table.projections()["segments"].to_pylist() == [count, 0]
    with pytest.raises(Exception, match="PROJSEG_PROJECTION_EXISTS"):
        sql("ALTER TABLE defs.s.p ADD PROJECTION a (SELECT k, count(*) AS c GROUP BY k)")
    with pytest.raises(Exception, match="PROJSEG_"):
        sql("ALTER TABLE defs.s.p ADD PROJECTION c (SELECT none, count(*) AS c GROUP BY none)")
    sql("ALTER TABLE defs.s.p DROP PROJECTION a")
    sql("ALTER TABLE defs.s.p DROP PROJECTION IF EXISTS a")
    with pytest.raises(Exception, match="PROJSEG_UNKNOWN_PROJECTION"):
        sql("ALTER TABLE defs.s.p DROP PROJECTION a")
    assert house.spec("s.p").to_dict()["properties"]["projections"][0]["name"] == "b"
    sql("INSERT INTO defs.s.p VALUES ('z', 4)")
    assert house.table("s.p").projections()["segments"].to_pylist() == [1]
    assert rows(sql("SELECT k, max(n) AS n FROM defs.s.p GROUP BY k")) == [
        ("x", 2), ("y", 3), ("z", 4),
    ]  # fmt: skip


def test_metadata_tables(sql, house, spark):
    sql(EDITS)
    assert sql("SELECT * FROM defs.s.edits.segments").collect() == []
    sql(f"INSERT INTO defs.s.edits (time, channel, added) VALUES {ROWS}")
    table = house.table("s.edits")
    assert rows(sql("SELECT segment, rows, projections FROM defs.s.edits.segments")) == [
        (row["segment"], row["rows"], row["projections"])
        for row in sorted(table.segments().to_pylist(), key=lambda row: row["segment"])
    ]
    assert rows(sql("SELECT name, segments, rows FROM defs.s.edits.projections")) == [("p", 2, 2)]
    kinds = sql("SELECT version, operation FROM defs.s.edits.history ORDER BY version")
    assert [row.version for row in kinds.collect()] == [0]
    sql("USE defs.s")
    try:
        assert rows(sql("SELECT column, segments FROM edits.columns")) == [
            ("added", 2), ("channel", 2), ("time", 2),
        ]  # fmt: skip
        # Tables of that name are what they are.
        sql("CREATE TABLE spark_catalog.default.history (a INT) USING parquet")
        assert sql("SELECT * FROM spark_catalog.default.history").columns == ["a"]
        sql("DROP TABLE spark_catalog.default.history")
        sql("CREATE TABLE defs.s.segments (a INT)")
        assert sql("SELECT * FROM defs.s.segments").columns == ["a"]
    finally:
        sql("USE spark_catalog.default")
    for name in ("defs.s.edits.parts", "defs.s.none.segments", "defs.edits.segments"):
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            sql(f"SELECT * FROM {name}")


@pytest.mark.slow
def test_a_stream_reads_declared_columns(sql, house, spark, tmp_path):
    sql("CREATE TABLE defs.s.t (a STRING, gone INT)")
    with pytest.raises(Exception, match="PROJSEG_NOT_A_TABLE"):
        spark.readStream.table("defs.s.t")
    house.table("s.t").append(pa.table({"a": ["1", "2"], "b": ["x", "y"]}))
    house.merge("s.t", {"columns": [{"name": "a", "sqlType": "int"}]})
    read = spark.readStream.table("defs.s.t")
    assert [field.simpleString() for field in read.schema] == ["a:int", "gone:int", "b:string"]
    target = str(tmp_path / "out")
    query = (
        read.where("a > 1").writeStream.format("parquet").option("checkpointLocation", target + "c")
        .trigger(availableNow=True).start(target)
    )  # fmt: skip
    query.awaitTermination()
    assert rows(spark.read.parquet(target)) == [(2, None, "y")]


def test_rows_are_merged_by_name(sql, house):
    sql("CREATE TABLE defs.s.m (k STRING, n BIGINT)")
    sql("INSERT INTO defs.s.m VALUES ('a', 1), ('b', 2)")
    sql(
        "MERGE INTO defs.s.m t USING (SELECT * FROM VALUES ('b', 3L), ('c', 4L) v(k, n)) s "
        "ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(sql("SELECT * FROM defs.s.m")) == [("a", 1), ("b", 3), ("c", 4)]
    assert house.sql("SELECT sum(n) AS n FROM s.m").to_pylist() == [{"n": 8}]


def test_files_without_a_definition(sql, spark, tmp_path):
    inline = (
        "projseg_external(source => 'inline', data => 'a,b,1\nc,d,2', format => 'csv', "
        "schema => 'x STRING, y STRING, z BIGINT')"
    )
    assert rows(sql(f"SELECT * FROM {inline} WHERE z > 1")) == [("c", "d", 2)]
    sql("CREATE TABLE defs.s.f (x STRING, y STRING, z BIGINT)")
    sql(f"INSERT INTO defs.s.f SELECT * FROM {inline}")
    assert sql("SELECT sum(z) FROM defs.s.f").first()[0] == 3
    (tmp_path / "a.csv").write_text("1\n")
    file = f"projseg_external(source => 'files', baseDir => '{tmp_path}', files => 'a.csv', "
    file += "format => 'csv', schema => 'n INT')"
    with pytest.raises(Exception, match="PROJSEG_OUTSIDE_ROOTS"):
        sql(f"SELECT * FROM {file}").collect()
    for key in ("", ".uri", ".warehouse"):
        value = spark.conf.get(f"spark.sql.catalog.defs{key}")
        spark.conf.set(f"spark.sql.catalog.rooted{key}", value)
    spark.conf.set("spark.sql.catalog.rooted.externalRoots", str(tmp_path))
    sql("USE rooted.s")
    try:
        assert rows(sql(f"SELECT * FROM {file}")) == [(1,)]
    finally:
        sql("USE spark_catalog.default")


FIRST_EDITS = {
    "namespace": lambda spark, name: spark.sql(f"CREATE NAMESPACE {name}2"),
    "table": lambda spark, name: spark.sql(f"CREATE TABLE {name}.t (a INT) USING projseg"),
    "rows": lambda spark, name: spark.sql(f"CREATE TABLE {name}.t USING projseg AS SELECT 1 AS a"),
    "saved": lambda spark, name: saved(spark, name, "error"),
    "overwritten": lambda spark, name: saved(spark, name, "overwrite"),
    "appended": lambda spark, name: saved(spark, name, "append"),
}


def saved(spark, name, mode):
    spark.range(3).write.format("projseg").mode(mode).saveAsTable(f"{name}.t")
    assert spark.table(f"{name}.t").count() == 3


@pytest.mark.parametrize("kind", FIRST_EDITS)
def test_the_first_edit_of_a_session_makes_the_catalog(spark, tmp_path, kind):
    place, title = tmp_path / "house.db", f"born_of_{kind}"
    spark.conf.set(f"spark.sql.catalog.{title}", CLASS)
    spark.conf.set(f"spark.sql.catalog.{title}.uri", str(place))
    with pytest.raises(Exception, match="there is no catalog at"):
        spark.sql(f"SELECT * FROM {title}.default.t")
    spark.sql(f"DROP TABLE IF EXISTS {title}.default.t")
    assert not place.exists(), "looking makes no file"
    FIRST_EDITS[kind](spark, f"{title}.default")
    with projseg.Catalog(place) as made:
        assert len(made.namespaces()) + len(list(made.tables())) == 2

"""`ProjsegCatalog`: tables as folders of a warehouse, by name, in whatever session looks."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException

import projseg

CLASS = "org.apache.spark.sql.projseg.ProjsegCatalog"
ROWS = "VALUES ('a', 1, TIMESTAMP'2024-03-31 02:30'), ('b', 2, TIMESTAMP'2024-10-27')"
DECLARED = (
    "TBLPROPERTIES ('timeColumn' = 't', 'segmentGranularity' = 'day', 'clusterBy' = 'k', "
    """'projections' = '[{"name": "by_k", "sql": "SELECT k, sum(n) AS n GROUP BY ALL"}]', """
    "'purpose' = 'a test')"
)


@pytest.fixture(scope="module")
def warehouse(spark, tmp_path_factory):
    """The folder of catalog `house`, which a session cannot move once it has used it."""
    folder = tmp_path_factory.mktemp("ware house")
    spark.conf.set("spark.sql.catalog.house", CLASS)
    spark.conf.set("spark.sql.catalog.house.warehouse", str(folder))
    return folder


@pytest.fixture
def sql(spark, warehouse):
    spark.conf.set("spark.projseg.enabled", "true")
    spark.sql("CREATE NAMESPACE house.here")
    try:
        yield spark.sql
    finally:
        spark.sql("DROP NAMESPACE IF EXISTS house.here CASCADE")
        spark.conf.set("spark.projseg.enabled", "false")


@pytest.fixture
def edits(sql):
    sql(f"CREATE TABLE house.here.edits (k string, n int, t timestamp) USING projseg {DECLARED}")
    return "house.here.edits"


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def folder(warehouse, name):
    return projseg.Table(warehouse / "here" / name)


def test_a_declared_table_is_a_table_for_python_too(sql, edits, warehouse):
    assert sql(f"SELECT * FROM {edits}").collect() == []
    made = folder(warehouse, "edits")
    assert made.schema.names == ["k", "n", "t"]
    assert made.properties.time_column == "t"
    assert made.properties.segment_granularity == "day"
    assert made.properties.cluster_by == ("k",)
    assert made.properties.properties == {"purpose": "a test"}
    assert made.projections()["name"].to_pylist() == ["by_k"]
    sql(f"INSERT INTO {edits} {ROWS}")
    assert folder(warehouse, "edits").segments().num_rows == 2
    made.refresh().append(made.query().slice(0, 1))
    assert sql(f"SELECT count(*) FROM {edits}").first()[0] == 3


def test_queries_are_answered_from_projections(sql, edits, spark):
    sql(f"INSERT INTO {edits} {ROWS}")
    made = sql(f"SELECT k, sum(n) AS n FROM {edits} GROUP BY k")
    assert "ProjsegAnswer" in made._jdf.queryExecution().optimizedPlan().toString()
    assert "by_k" in made._jdf.queryExecution().optimizedPlan().toString()
    assert rows(made) == [("a", 1), ("b", 2)]
    spark.conf.set("spark.projseg.enabled", "false")
    plain = sql(f"SELECT k, sum(n) AS n FROM {edits} GROUP BY k")
    assert "ProjsegAnswer" not in plain._jdf.queryExecution().optimizedPlan().toString()
    assert rows(plain) == [("a", 1), ("b", 2)]


def test_a_view_of_a_frame_is_renewed_by_refresh_table(sql, edits, spark):
    spark.table(edits).createOrReplaceTempView("edits_view")
    sql(f"INSERT INTO {edits} {ROWS}")
    assert rows(sql("SELECT k, n FROM edits_view")) == []
    sql("REFRESH TABLE edits_view")
    assert rows(sql("SELECT k, n FROM edits_view")) == [("a", 1), ("b", 2)]
    sql(f"TRUNCATE TABLE {edits}")
    assert sql("SELECT count(*) FROM edits_view").first()[0] == 2


def test_rows_are_added_and_replaced(sql, edits, spark):
    sql(f"INSERT INTO {edits} {ROWS}")
    listed, values = "t, k", "TIMESTAMP'2024-01-01', 'c'"
    if spark.version < "4.1":  # which fills in no column
        with pytest.raises(AnalysisException, match="CANNOT_FIND_DATA"):
            sql(f"INSERT INTO {edits} ({listed}) VALUES ({values})")
        listed, values = f"{listed}, n", f"{values}, NULL"
    sql(f"INSERT INTO {edits} ({listed}) VALUES ({values})")
    assert rows(sql(f"SELECT k, n FROM {edits}")) == [("a", 1), ("b", 2), ("c", None)]
    sql(f"INSERT OVERWRITE {edits} SELECT k, n + 1, t FROM {edits} WHERE n IS NOT NULL")
    frame = spark.table(edits)
    assert rows(frame.select("k", "n")) == [("a", 2), ("b", 3)]
    frame.where("k = 'a'").write.insertInto(edits)
    frame.where("k = 'a'").writeTo(edits).append()
    frame.where("k = 'a'").write.format("projseg").mode("append").saveAsTable(edits)
    assert rows(sql(f"SELECT k, n FROM {edits}")) == [("a", 2)] * 4 + [("b", 3)]
    from pyspark.sql import functions as F

    sql(f"SELECT * FROM {edits} WHERE k = 'b'").writeTo(edits).overwrite(F.lit(True))
    assert rows(sql(f"SELECT k, n FROM {edits}")) == [("b", 3)]


@pytest.mark.parametrize("way", ["sql", "saveAsTable", "writeTo"])
def test_tables_are_made_of_a_query_and_replaced(sql, spark, edits, warehouse, way):
    sql(f"INSERT INTO {edits} {ROWS}")
    name, properties = "house.here.made", {"timeColumn": "t", "segmentGranularity": "month"}

    def make(query, *, again):
        if way == "sql":
            verb = "CREATE OR REPLACE TABLE" if again else "CREATE TABLE"
            listed = ", ".join(f"'{key}' = '{text}'" for key, text in properties.items())
            sql(f"{verb} {name} USING projseg TBLPROPERTIES ({listed}) AS {query}")
        elif way == "saveAsTable":
            writer = sql(query).write.format("projseg").mode("overwrite" if again else "error")
            writer.options(**properties).saveAsTable(name)
        else:
            writer = sql(query).writeTo(name).using("projseg")
            for key, text in properties.items():
                writer = writer.tableProperty(key, text)
            writer.createOrReplace() if again else writer.create()

    make(f"SELECT t, k, n FROM {edits}", again=False)
    assert rows(sql(f"SELECT k, n FROM {name}")) == [("a", 1), ("b", 2)]
    assert folder(warehouse, "made").properties.segment_granularity == "month"
    with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        make("SELECT 1 AS x", again=False)
    make(f"SELECT t, k, n + 1 AS m FROM {name} WHERE k = 'b'", again=True)
    assert rows(sql(f"SELECT k, m FROM {name}")) == [("b", 3)]
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        make(f"SELECT t, k, m / 0 AS m FROM {name}", again=True)
    assert rows(sql(f"SELECT k, m FROM {name}")) == [("b", 3)]  # the old table, whole
    left = [path.name for path in (warehouse / "here").iterdir()]
    assert sorted(left) == ["edits", "made"]
    assert rows(sql(f"SELECT k, n FROM {edits}")) == [("a", 1), ("b", 2)]


def test_a_replacement_without_rows_and_one_of_nothing(sql, edits):
    sql(f"INSERT INTO {edits} {ROWS}")
    sql(f"REPLACE TABLE {edits} (x bigint) USING projseg")
    assert sql(f"SELECT * FROM {edits}").columns == ["x"]
    assert sql(f"SELECT count(*) FROM {edits}").first()[0] == 0
    sql("CREATE TABLE IF NOT EXISTS house.here.edits (other int) USING projseg")
    assert sql(f"SELECT * FROM {edits}").columns == ["x"]
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("REPLACE TABLE house.here.absent USING projseg AS SELECT 1 AS x")


def test_older_versions(sql, spark):
    edits = "house.here.aged"
    sql(f"CREATE TABLE {edits} (k string, n int, t timestamp) TBLPROPERTIES ('timeColumn' = 't')")
    sql(f"INSERT INTO {edits} {ROWS}")
    sql(f"INSERT OVERWRITE {edits} VALUES ('c', 4, TIMESTAMP'2024-12-01')")
    for version, keys in ((0, []), (1, ["a", "b"]), (2, ["c"])):
        for frame in (
            sql(f"SELECT k FROM {edits} VERSION AS OF {version}"),
            spark.read.option("versionAsOf", version).table(edits).select("k"),
        ):
            assert rows(frame) == [(key,) for key in keys]
    both = sql(f"SELECT count(*) FROM {edits} VERSION AS OF 1 a, {edits} b WHERE a.k < b.k")
    assert both.first()[0] == 2
    history = folder_history(sql, edits)
    for version, moment in history:
        made = sql(f"SELECT count(*) FROM {edits} TIMESTAMP AS OF '{moment}'")
        assert made.first()[0] == [0, 2, 1][version]
    with pytest.raises(IllegalArgumentException, match="keeps no version committed"):
        sql(f"SELECT * FROM {edits} TIMESTAMP AS OF '2001-01-01'")
    with pytest.raises(IllegalArgumentException, match="PROJSEG_UNKNOWN_VERSION"):
        sql(f"SELECT * FROM {edits} VERSION AS OF 9")
    with pytest.raises(IllegalArgumentException, match="'first' of table"):
        sql(f"SELECT * FROM {edits} VERSION AS OF 'first'")


def folder_history(sql, edits):
    place = sql(f"DESCRIBE EXTENDED {edits}").where("col_name = 'Location'").first().data_type
    listed = projseg.Table(place).history().to_pylist()
    return [(row["version"], row["timestamp"].isoformat()) for row in listed]


def test_what_is_told_of_a_table(sql, edits, warehouse):
    told = {row.col_name: row.data_type for row in sql(f"DESCRIBE EXTENDED {edits}").collect()}
    assert (told["k"], told["n"], told["t"]) == ("string", "int", "timestamp")
    assert told["Provider"] == "projseg"
    assert told["Location"] == str(warehouse / "here" / "edits")
    properties = dict(tuple(row) for row in sql(f"SHOW TBLPROPERTIES {edits}").collect())
    assert properties["segmentGranularity"] == "day"
    assert properties["purpose"] == "a test"
    assert [row.tableName for row in sql("SHOW TABLES IN house.here").collect()] == ["edits"]
    assert "here" in [row[0] for row in sql("SHOW NAMESPACES IN house").collect()]


def test_show_create_table_makes_the_same_table(sql, warehouse):
    name = "house.here.`Größe x.y`"
    sql(
        f"CREATE TABLE {name} (`select` string COMMENT 'it\\'s', `a b.c` int, `Übung``s` date, "
        "`X` decimal(12, 3), l array<struct<`p q`: bigint>>, m map<string, double>, "
        "z timestamp_ntz, `when` timestamp) USING projseg COMMENT 'odd' TBLPROPERTIES "
        "('timeColumn' = 'when', 'segmentGranularity' = 'P5D', 'clusterBy' = '[\"a b.c\"]', "
        "'targetSegmentRows' = '1000', 'projections' = "
        """'[{"name": "p", "sql": "SELECT `a b.c`, sum(`X`), count(*) WHERE `select` > \\'a\\' """
        """GROUP BY ALL"}]')"""
    )
    before = folder(warehouse, "Größe x.y")
    text = sql(f"SHOW CREATE TABLE {name}").first()[0]
    sql(f"DROP TABLE {name}")
    sql(text)
    after = folder(warehouse, "Größe x.y")
    assert after.schema == before.schema
    assert after.properties.properties == before.properties.properties
    for part in ("time_column", "segment_granularity", "cluster_by", "target_segment_rows"):
        assert getattr(after.properties, part) == getattr(before.properties, part)
    hashes = [[p.definition_hash for p in one.properties.projections] for one in (before, after)]
    assert hashes[0] == hashes[1] != []
    assert sql(f"SHOW CREATE TABLE {name}").first()[0] == text
    comments = {row.col_name: row.comment for row in sql(f"DESCRIBE {name}").collect()}
    assert comments["select"] == "it's"


def test_properties_change(sql, edits, warehouse):
    sql(f"ALTER TABLE {edits} SET TBLPROPERTIES ('owner of it' = 'me', 'purpose' = 'more')")
    assert folder(warehouse, "edits").properties.properties == {
        "owner of it": "me",
        "purpose": "more",
    }
    sql(f"ALTER TABLE {edits} UNSET TBLPROPERTIES ('purpose')")
    assert folder(warehouse, "edits").properties.properties == {"owner of it": "me"}
    with pytest.raises(Exception, match="fixed when a table is made"):
        sql(f"ALTER TABLE {edits} SET TBLPROPERTIES ('segmentGranularity' = 'hour')")
    for property_ in ("'autoCompact' = 'yes'", "'autocompact' = 'true'", "'maxDeletedRatio' = '2'"):
        with pytest.raises(Exception, match=r"PROJSEG_BAD_OPTION.*(true|autoCompact|from 0 to 1)"):
            sql(f"ALTER TABLE {edits} SET TBLPROPERTIES ({property_})")


def test_tables_are_renamed_and_dropped(sql, edits, warehouse):
    sql(f"INSERT INTO {edits} {ROWS}")
    sql(f"ALTER TABLE {edits} RENAME TO here.`Edits 2`")
    assert sql("SELECT count(*) FROM house.here.`Edits 2`").first()[0] == 2
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql(f"SELECT * FROM {edits}")
    sql(f"CREATE TABLE {edits} (x int) USING projseg")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        sql(f"ALTER TABLE {edits} RENAME TO here.`Edits 2`")
    sql("DROP TABLE house.here.`Edits 2` PURGE")
    sql(f"DROP TABLE {edits}")
    sql(f"DROP TABLE IF EXISTS {edits}")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql(f"DROP TABLE {edits}")
    assert list((warehouse / "here").iterdir()) == []


def test_names_do_not_depend_on_case(sql, edits, warehouse):
    sql(f"INSERT INTO house.Here.EDITS {ROWS}")
    assert sql("SELECT count(*) FROM house.HERE.Edits").first()[0] == 2
    with pytest.raises(Exception, match="ALREADY_EXISTS"):
        sql("CREATE TABLE house.here.Edits (x int) USING projseg")
    assert [path.name for path in (warehouse / "here").iterdir()] == ["edits"]


@pytest.mark.parametrize(
    "name",
    ["..", ".", ".hidden", "a/b", "../../other", "a\\b", "file:x", "t#segments", "x\ny", "e" * 300],
)
def test_names_that_are_no_folders_are_refused(sql, warehouse, name):
    before = sorted(path.name for path in warehouse.parent.iterdir())
    quoted = "`" + name.replace("`", "``") + "`"
    for text in (
        f"CREATE TABLE house.here.{quoted} (x int) USING projseg",
        f"CREATE NAMESPACE house.{quoted}",
        f"SELECT * FROM house.here.{quoted}",
        f"DROP NAMESPACE house.{quoted} CASCADE",
    ):
        with pytest.raises(Exception, match="PROJSEG_BAD_NAME"):
            sql(text)
    assert sorted(path.name for path in warehouse.parent.iterdir()) == before
    assert list((warehouse / "here").iterdir()) == []


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("(x int) USING projseg LOCATION '/tmp/elsewhere'", "lies in its warehouse"),
        ("(x int) USING projseg PARTITIONED BY (x)", "no partitions or buckets"),
        ("(x int) USING parquet", "not of parquet"),
        ("(x int) USING projseg TBLPROPERTIES ('timeColumn' = 'y')", "timeColumn names 'y'"),
        ("(x int) USING projseg TBLPROPERTIES ('autoCompact' = 'yes')", "autoCompact is 'yes'"),
        ("(s struct<a:int, b:struct<x:int, X:int>>) USING projseg", "twice|ALREADY_EXISTS"),
        ("(x interval day) USING projseg", "PROJSEG_|interval"),
        ("USING projseg", "PROJSEG_EMPTY_SCHEMA|at least one column"),
    ],
)
def test_what_a_table_cannot_keep_is_refused(sql, warehouse, rest, words):
    with pytest.raises(Exception, match=rf"(?is){words}"):
        sql(f"CREATE TABLE house.here.refused {rest}")
    assert list((warehouse / "here").iterdir()) == []


def test_rows_are_changed(sql, edits):
    sql(f"INSERT INTO {edits} {ROWS}")
    assert sql(f"UPDATE {edits} SET n = 7 WHERE k = 'a'").first().num_affected_rows == 1
    assert sql(f"SELECT n FROM {edits} WHERE k = 'a'").first().n == 7
    assert sql(f"DELETE FROM {edits} WHERE k = 'a'").first().num_affected_rows == 1
    assert sql(f"TRUNCATE TABLE {edits}").first().num_affected_rows == 1
    assert sql(f"SELECT count(*) FROM {edits}").first()[0] == 0


LONG = "x" * 8_193
COLUMN = f"k string COMMENT '{LONG}'"


def test_comments_and_properties_that_are_too_long_are_refused(sql, spark, edits, warehouse):
    sql(f"INSERT INTO {edits} {ROWS}")
    before, longest = folder(warehouse, "edits"), LONG[1:]
    many = LONG * 32
    frame = spark.createDataFrame([("a",)], "k string")
    view = f"AS SELECT k, sum(n) AS n FROM {edits} GROUP BY k"
    refused = [
        *(
            lambda text=text: sql(text)
            for text in (
                f"COMMENT ON TABLE {edits} IS '{LONG}'",
                f"ALTER TABLE {edits} ALTER COLUMN n COMMENT '{LONG}'",
                f"ALTER TABLE {edits} ADD COLUMNS (a int, b int COMMENT '{LONG}')",
                f"ALTER TABLE {edits} SET TBLPROPERTIES ('note' = '{many}')",
                f"CREATE TABLE house.here.other ({COLUMN}) USING projseg",
                f"CREATE TABLE house.here.other (s struct<{COLUMN.replace(' ', ': ', 1)}>)",
                f"CREATE TABLE house.here.other (k int) COMMENT '{LONG}'",
                f"CREATE TABLE house.here.other TBLPROPERTIES ('note' = '{many}') AS SELECT 1 AS k",
                f"CREATE MATERIALIZED VIEW v COMMENT '{LONG}' {view}",
                f"CREATE TABLE other (k int) USING projseg TBLPROPERTIES ('note' = '{many}')",
            )
        ),
        lambda: frame.writeTo("house.here.other").tableProperty("note", many).create(),
    ]
    for statement in refused:
        with pytest.raises(IllegalArgumentException, match="PROJSEG_METADATA_TOO_LARGE") as caught:
            statement()
        assert len(str(caught.value)) < 500
    assert [row.tableName for row in sql("SHOW TABLES IN house.here").collect()] == ["edits"]
    assert not spark.catalog.tableExists("other")
    now = folder(warehouse, "edits")
    assert (now.version, now.schema, now.properties) == (
        before.version, before.schema, before.properties,
    )  # fmt: skip
    sql(f"COMMENT ON TABLE {edits} IS '{longest}'")
    sql(f"ALTER TABLE {edits} ADD COLUMN a int COMMENT '{longest}'")
    assert sql(f"DESCRIBE {edits}").where("col_name = 'a'").first().comment == longest


def test_namespaces(sql, edits):
    with pytest.raises(Exception, match="SCHEMA_ALREADY_EXISTS"):
        sql("CREATE NAMESPACE house.here")
    sql("CREATE NAMESPACE IF NOT EXISTS house.HERE")
    with pytest.raises(Exception, match=r"SCHEMA_NOT_EMPTY|NAMESPACE_NOT_EMPTY|not empty"):
        sql("DROP NAMESPACE house.here")
    with pytest.raises(Exception, match="SCHEMA_NOT_FOUND"):
        sql("CREATE TABLE house.absent.t (x int) USING projseg")
    with pytest.raises(Exception, match="keeps no comment"):
        sql("CREATE NAMESPACE house.there COMMENT 'x'")
    assert "here" in str(sql("DESCRIBE NAMESPACE house.here").collect())
    try:
        sql("CREATE TABLE house.top (x int) USING projseg")
        assert sql("SELECT * FROM house.default.top").columns == ["x"]
        assert [row.tableName for row in sql("SHOW TABLES IN house").collect()] == ["top"]
    finally:
        sql("DROP TABLE house.top")


def test_sessions_see_each_others_tables(sql, edits, spark, warehouse):
    other = spark.newSession()
    for name, text in (
        ("spark.sql.catalog.mine", CLASS),
        ("spark.sql.catalog.mine.warehouse", warehouse.as_uri()),
        ("spark.projseg.enabled", "true"),
    ):
        other.conf.set(name, text)
    other.sql(f"INSERT INTO mine.here.edits {ROWS}")
    assert sql(f"SELECT sum(n) FROM {edits}").first()[0] == 3
    other.sql("CREATE TABLE mine.here.more USING projseg AS SELECT * FROM mine.here.edits")
    assert sql("SELECT sum(n) FROM house.here.more").first()[0] == 3
    sql("DROP TABLE house.here.more")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        other.sql("SELECT * FROM mine.here.more").collect()
    other.sql("USE mine.here")
    assert other.sql("SELECT count(*) FROM edits VERSION AS OF 1").first()[0] == 2
    assert other.sql("SELECT count(*) FROM edits").first()[0] == 2


def test_a_catalog_needs_a_warehouse(spark):
    other = spark.newSession()
    other.conf.set("spark.sql.catalog.nowhere", CLASS)
    with pytest.raises(Exception, match=r"set spark.sql.catalog.nowhere.warehouse"):
        other.sql("SHOW NAMESPACES IN nowhere")

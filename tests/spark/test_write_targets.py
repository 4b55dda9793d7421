"""Without the extension, every form of a write changes the table it names and no other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import projseg

pytestmark = pytest.mark.spark

SOURCE, TARGET = [0, 1, 2], [10, 11]
ROWS = {"src": SOURCE, "dst": TARGET}
NO_LOCATION = (
    "[PROJSEG_PATH_MISSING] the write names no table location, and Spark hands none of a catalog "
    "table's over; use INSERT INTO t WITH (path = '/path') ..., or "
    "df.write.format('projseg').mode('append').save('/path')"
)
NO_LOCATION_TO_READ = (
    "[PROJSEG_PATH_MISSING] the read names no table location, and Spark hands none of a catalog "
    "table's over; use SELECT ... FROM t WITH (path = '/path'), "
    "spark.read.format('projseg').load('/path'), or CREATE TEMPORARY VIEW v USING projseg OPTIONS "
    "(path '/path'), which keeps the version that it was made at"
)
UNSUPPORTED = "UNSUPPORTED_FEATURE.TABLE_OPERATION"


class Tables:
    """Two tables that the catalog knows, `src` and `dst`, and a place for a third, `made`.

    The views `src_view` and `dst_view` are of the first version of each.
    """

    def __init__(self, spark, folder: Path) -> None:
        self.spark = spark
        self.paths = {name: str(folder / name) for name in ("src", "dst", "made")}
        self.parquet = str(folder / "parquet")
        for name, ids in ROWS.items():
            rows = rows_of(ids)
            projseg.Table.create(self.paths[name], rows.schema).append(rows)
            self.sql(
                f"CREATE OR REPLACE TEMPORARY VIEW {name}_view USING projseg "
                f"OPTIONS (path '{{{name}}}')"
            )
        self.load("src").write.parquet(self.parquet)

    def reset(self) -> None:
        """Bring back what a test has changed."""
        for name, ids in ROWS.items():
            if self.contents[name] != ids:
                projseg.Table(self.paths[name]).overwrite(rows_of(ids))
            self.sql(f"CREATE TABLE IF NOT EXISTS {name} USING projseg LOCATION '{{{name}}}'")
        self.sql("DROP TABLE IF EXISTS made")
        shutil.rmtree(self.paths["made"], ignore_errors=True)

    def drop(self) -> None:
        for name in self.paths:
            self.sql(f"DROP TABLE IF EXISTS {name}")

    def sql(self, text: str):
        return self.spark.sql(text.format(parquet=self.parquet, **self.paths))

    def load(self, name: str):
        return self.spark.read.format("projseg").load(self.paths[name])

    def from_parquet(self):
        """Return the rows of `src` after a way through Parquet."""
        return self.spark.read.parquet(self.parquet)

    @property
    def contents(self) -> dict[str, list[int]]:
        return {
            name: sorted(projseg.Table(path).query(columns="id")["id"].to_pylist())
            for name, path in self.paths.items()
            if projseg.is_table(path)
        }


def rows_of(ids):
    return pa.table({"id": ids, "k": [f"k{one}" for one in ids]})


@pytest.fixture(scope="module")
def all_tables(plain, tmp_path_factory):
    made = Tables(plain, tmp_path_factory.mktemp("targets"))
    yield made
    made.drop()


@pytest.fixture
def tables(all_tables):
    all_tables.reset()
    return all_tables


def one_row(tables):
    return tables.spark.createDataFrame(pa.table({"id": [77], "k": ["z"]}))


def unchanged(**changed):
    return ROWS | changed


APPENDED = unchanged(dst=[*SOURCE, *TARGET])

SQL_WRITES = {
    "INSERT INTO dst WITH (path = '{dst}') VALUES (77, 'z')": unchanged(dst=[10, 11, 77]),
    "INSERT INTO dst WITH (path = '{dst}') SELECT * FROM src_view": APPENDED,
    "INSERT INTO dst WITH (path = '{dst}') SELECT * FROM src WITH (path = '{src}')": APPENDED,
    "INSERT INTO dst WITH (path = '{dst}') BY NAME SELECT k, id FROM src_view": APPENDED,
    "INSERT INTO dst WITH (path = '{dst}') (k, id) SELECT k, id FROM src_view": APPENDED,
    "INSERT INTO dst WITH (path = '{dst}') SELECT s.* FROM src_view s JOIN dst_view d "
    "ON s.id + 10 = d.id": unchanged(dst=[0, 1, 10, 11]),
    "INSERT INTO dst WITH (path = '{src}') VALUES (77, 'z')": unchanged(src=[0, 1, 2, 77]),
    "INSERT OVERWRITE dst WITH (path = '{dst}') SELECT * FROM src_view WHERE id < 2": unchanged(
        dst=[0, 1]
    ),
    "INSERT OVERWRITE dst WITH (path = '{dst}') VALUES (77, 'z')": unchanged(dst=[77]),
    "INSERT OVERWRITE dst WITH (path = '{dst}') SELECT * FROM dst WITH (path = '{dst}') "
    "WHERE id > 10": unchanged(dst=[11]),
    "INSERT INTO dst_view SELECT * FROM src_view": APPENDED,
    "INSERT OVERWRITE dst_view VALUES (77, 'z')": unchanged(dst=[77]),
    "FROM src_view INSERT INTO dst WITH (path = '{dst}') SELECT * "
    "INSERT INTO src WITH (path = '{src}') SELECT * WHERE id = 0": unchanged(
        src=[0, 0, 1, 2], dst=[*SOURCE, *TARGET]
    ),
    "CREATE TABLE made USING projseg LOCATION '{dst}'": unchanged(),
    "CREATE TABLE made (id BIGINT, k STRING) USING projseg": unchanged(),
    "DROP TABLE dst": unchanged(),
}


@pytest.mark.parametrize(("statement", "expected"), SQL_WRITES.items(), ids=SQL_WRITES)
def test_sql_writes_where_the_statement_says(tables, statement, expected):
    tables.sql(statement)
    assert tables.contents == expected


SQL_REFUSED = {
    "INSERT INTO dst VALUES (77, 'z')": NO_LOCATION,
    "INSERT INTO dst SELECT * FROM src_view": NO_LOCATION,
    "INSERT INTO dst SELECT * FROM src WITH (path = '{src}')": NO_LOCATION,
    "INSERT INTO dst SELECT * FROM parquet.`{parquet}`": NO_LOCATION,
    "INSERT INTO dst SELECT s.* FROM src_view s JOIN dst_view d ON s.id + 10 = d.id": NO_LOCATION,
    "INSERT INTO dst BY NAME SELECT k, id FROM src_view": NO_LOCATION,
    "INSERT OVERWRITE dst SELECT * FROM src_view WHERE id < 2": NO_LOCATION,
    "INSERT OVERWRITE dst SELECT * FROM src WITH (path = '{src}') WHERE id < 2": NO_LOCATION,
    "INSERT OVERWRITE dst VALUES (77, 'z')": NO_LOCATION,
    "INSERT OVERWRITE src SELECT * FROM src_view WHERE id < 2": NO_LOCATION,
    "INSERT INTO dst WITH (path = '{dst}') SELECT * FROM src": NO_LOCATION_TO_READ,
    "INSERT INTO dst SELECT * FROM src": "[PROJSEG_PATH_MISSING]",
    "INSERT OVERWRITE dst SELECT * FROM src": "[PROJSEG_PATH_MISSING]",
    "SELECT * FROM src": NO_LOCATION_TO_READ,
    "CREATE TABLE made USING projseg AS SELECT * FROM src_view": NO_LOCATION,
    "CREATE TABLE made USING projseg LOCATION '{made}' AS SELECT * FROM src_view": NO_LOCATION,
    "CREATE TABLE made USING projseg OPTIONS (path '{made}') AS SELECT * FROM src_view": (
        NO_LOCATION
    ),
    "CREATE OR REPLACE TABLE dst USING projseg AS SELECT * FROM src_view": NO_LOCATION,
    "INSERT INTO projseg.`{dst}` VALUES (77, 'z')": "TABLE_OR_VIEW_NOT_FOUND",
    "INSERT OVERWRITE DIRECTORY '{dst}' USING projseg SELECT * FROM src_view": (
        "Only Data Sources providing FileFormat are supported"
    ),
    "INSERT INTO dst WITH (path = '{dst}') REPLACE WHERE id < 11 SELECT * FROM src_view": (
        UNSUPPORTED
    ),
    "DELETE FROM dst WHERE id = 10": "does not support deletes",
    "UPDATE dst SET id = 1": UNSUPPORTED,
    "MERGE INTO dst USING src_view ON dst.id = src_view.id WHEN MATCHED THEN DELETE": UNSUPPORTED,
    "TRUNCATE TABLE dst": "does not support truncates",
}


@pytest.mark.parametrize(("statement", "told"), SQL_REFUSED.items(), ids=SQL_REFUSED)
def test_sql_without_a_location_is_refused_and_changes_nothing(tables, statement, told):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - py4j's classes differ by where it fails
        tables.sql(statement).collect()
    assert told in str(caught.value)
    assert tables.contents == unchanged()


def save(frame, tables, mode, name="dst"):
    frame.write.format("projseg").mode(mode).save(tables.paths[name])


def named(frame, tables, mode, name="dst", *, is_located=True):
    writer = frame.write.format("projseg").mode(mode)
    if is_located:
        writer = writer.option("path", tables.paths[name])
    writer.saveAsTable(name)


def write_to(frame, tables, name="dst", *, is_located=True):
    writer = frame.writeTo(name).using("projseg")
    return writer.option("path", tables.paths[name]) if is_located else writer


FRAME_WRITES = {
    "save append": (lambda t: save(t.load("src"), t, "append"), APPENDED),
    "save overwrite": (lambda t: save(t.load("src"), t, "overwrite"), unchanged(dst=SOURCE)),
    "save overwrite with its own rows": (
        lambda t: save(t.load("dst").filter("id > 10"), t, "overwrite"),
        unchanged(dst=[11]),
    ),
    "save through Parquet": (lambda t: save(t.from_parquet(), t, "append"), APPENDED),
    "save a join": (
        lambda t: save(t.load("src").join(t.load("dst"), "id", "leftanti"), t, "append"),
        APPENDED,
    ),
    "saveAsTable append": (
        lambda t: named(one_row(t), t, "append"),
        unchanged(dst=[10, 11, 77]),
    ),
    "saveAsTable overwrite": (lambda t: named(one_row(t), t, "overwrite"), unchanged(dst=[77])),
    "saveAsTable new": (lambda t: named(one_row(t), t, "error", "made"), unchanged(made=[77])),
    "insertInto a view": (
        lambda t: one_row(t).write.insertInto("dst_view"),
        unchanged(dst=[10, 11, 77]),
    ),
    "writeTo append": (
        lambda t: write_to(t.load("src"), t).append(),
        APPENDED,
    ),
    "writeTo overwrite": (
        lambda t: write_to(t.load("src"), t).overwrite(F.lit(True)),
        unchanged(dst=SOURCE),
    ),
    "writeTo create": (lambda t: write_to(one_row(t), t, "made").create(), unchanged(made=[77])),
    "writeTo createOrReplace": (
        lambda t: write_to(one_row(t), t).createOrReplace(),
        unchanged(dst=[77]),
    ),
}


@pytest.mark.parametrize(("write", "expected"), FRAME_WRITES.values(), ids=FRAME_WRITES)
def test_a_frame_is_written_where_its_options_say(tables, write, expected):
    write(tables)
    assert tables.contents == expected


FRAME_REFUSED = {
    "save": (lambda t: one_row(t).write.format("projseg").mode("append").save(), NO_LOCATION),
    "save by default": (
        lambda t: one_row(t).write.format("projseg").save(t.paths["dst"]),
        "UNSUPPORTED_DATA_SOURCE_SAVE_MODE",
    ),
    "saveAsTable append": (
        lambda t: named(t.load("src"), t, "append", is_located=False),
        NO_LOCATION,
    ),
    "saveAsTable overwrite": (
        lambda t: named(t.load("src"), t, "overwrite", is_located=False),
        NO_LOCATION,
    ),
    "saveAsTable new": (
        lambda t: named(t.load("src"), t, "error", "made", is_located=False),
        NO_LOCATION,
    ),
    "insertInto": (lambda t: t.load("src").write.insertInto("dst"), NO_LOCATION),
    "insertInto overwrite": (
        lambda t: t.load("src").write.insertInto("dst", overwrite=True),
        NO_LOCATION,
    ),
    "insertInto drops options": (
        lambda t: one_row(t).write.option("path", t.paths["dst"]).insertInto("dst"),
        NO_LOCATION,
    ),
    "writeTo append": (
        lambda t: write_to(t.load("src"), t, is_located=False).append(),
        NO_LOCATION,
    ),
    "writeTo append through Parquet": (
        lambda t: write_to(t.from_parquet(), t, is_located=False).append(),
        NO_LOCATION,
    ),
    "writeTo overwrite": (
        lambda t: write_to(t.load("src"), t, is_located=False).overwrite(F.lit(True)),
        NO_LOCATION,
    ),
    "writeTo overwrite of some rows": (
        lambda t: write_to(t.load("src"), t).overwrite(F.col("id") == 10),
        UNSUPPORTED,
    ),
    "writeTo overwritePartitions": (
        lambda t: write_to(t.load("src"), t).overwritePartitions(),
        UNSUPPORTED,
    ),
    "writeTo create": (
        lambda t: write_to(t.load("src"), t, "made", is_located=False).create(),
        NO_LOCATION,
    ),
    "writeTo replace": (
        lambda t: write_to(t.load("src"), t, is_located=False).replace(),
        NO_LOCATION,
    ),
}


@pytest.mark.parametrize(("write", "told"), FRAME_REFUSED.values(), ids=FRAME_REFUSED)
def test_a_frame_without_a_location_is_refused_and_changes_nothing(tables, write, told):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - py4j's classes differ by where it fails
        write(tables)
    assert told in str(caught.value)
    assert tables.contents == unchanged()


def test_a_table_of_the_catalog_is_read_where_the_query_says(tables):
    assert tables.sql("SELECT sum(id) FROM src WITH (path = '{src}')").first()[0] == 3
    assert tables.spark.read.option("path", tables.paths["src"]).table("dst").count() == 3


def test_a_view_keeps_the_version_it_was_made_at(tables):
    tables.sql("INSERT INTO dst WITH (path = '{dst}') VALUES (77, 'z')")
    assert tables.spark.table("dst_view").count() == 2
    assert tables.load("dst").count() == 3


def test_nothing_of_a_location_travels_with_rows(tables):
    for schema in (
        tables.spark.table("src").schema,
        tables.load("src").schema,
        tables.from_parquet().schema,
    ):
        assert [field.metadata for field in schema.fields] == [{}, {}]

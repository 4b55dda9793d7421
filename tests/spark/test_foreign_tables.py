"""Foreign tables in Spark: by path, by name, plain SQL, before and after files change."""

import numpy as np
import pytest
from foreign_source import Folder, answer_of, asked, comparable
from pyspark.sql import functions as F
from scale import IS_NIGHTLY

import projseg
from projseg import Projection

GROUPS = "SELECT city, sum(added) AS added, count(*) AS rows FROM t GROUP BY city"
ROWS = "SELECT city, added, day FROM t WHERE added > 40"


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path / "source", np.random.default_rng(5))
    for _ in range(3):
        folder.add()
    return folder


@pytest.fixture
def place(folder, tmp_path):
    projseg.Table.attach(
        tmp_path / "ours",
        f"parquet:{folder.place}",
        time_column="time",
        projections=[Projection("c", ["city"], ["sum(added) AS added", "count(*) AS rows"])],
    )
    return tmp_path / "ours"


def found(spark, place, text):
    rows = spark.sql(text.replace("FROM t", f"FROM projseg.`{place}`")).collect()
    return comparable([tuple(row) for row in rows])


@pytest.mark.parametrize("is_on", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_answers_are_of_the_files_that_are_there(spark, folder, place, is_on):
    spark.conf.set("spark.projseg.enabled", str(is_on).lower())
    try:
        for change in ("add", "replace", "remove") if IS_NIGHTLY else ("add",):
            getattr(folder, change)()
            for text in (GROUPS, ROWS):
                assert found(spark, place, text) == answer_of(text, folder.files), change
        frame = spark.read.format("projseg").load(str(place))
        assert frame.count() == answer_of("SELECT count(*) FROM t", folder.files)[0][0]
        grouped = frame.groupBy("city").agg(F.sum("added").alias("added"), F.count("*"))
        assert comparable(map(tuple, grouped.collect())) == answer_of(GROUPS, folder.files)
        projseg.Table(place).sync()
        for text in (GROUPS, ROWS):
            assert found(spark, place, text) == answer_of(text, folder.files)
    finally:
        spark.conf.set("spark.projseg.enabled", "false")


def test_a_table_by_name_is_found(spark, folder, place):
    spark.sql(f"CREATE TABLE edits_elsewhere USING projseg LOCATION '{place}'")
    try:
        folder.add()
        rows = spark.sql(GROUPS.replace("FROM t", "FROM edits_elsewhere")).collect()
        assert comparable(map(tuple, rows)) == answer_of(GROUPS, folder.files)
    finally:
        spark.sql("DROP TABLE edits_elsewhere")


def test_writes_are_refused(spark, place):
    frame = spark.read.format("projseg").load(str(place)).limit(1)
    with pytest.raises(Exception, match="PROJSEG_FOREIGN_ROWS"):
        frame.write.format("projseg").mode("append").save(str(place))


@pytest.fixture
def lake(tmp_path):
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("pyiceberg")
    from iceberg_source import IcebergLake

    lake = IcebergLake(tmp_path / "lake", np.random.default_rng(3))
    lake.append()
    return lake


def test_an_iceberg_source_is_found_by_the_options_of_its_catalog(spark, lake, tmp_path):
    place = tmp_path / "over iceberg"
    projseg.Table.attach(
        place,
        "iceberg:sales.edits",
        source_options=lake.properties,
        time_column="time",
        projections=[Projection("c", ["city"], ["sum(added) AS added", "count(*) AS rows"])],
    )
    lake.append()
    options = {f"storage.source.{key}": value for key, value in lake.properties.items()}
    frame = spark.read.format("projseg").options(**options).load(str(place))
    grouped = frame.groupBy("city").agg(F.sum("added").alias("added"), F.count("*"))
    assert comparable(map(tuple, grouped.collect())) == lake.ask(GROUPS)
    spark.conf.set("spark.projseg.enabled", "true")
    try:
        frame.createOrReplaceTempView("over_iceberg")
        for text in (GROUPS, ROWS):
            rows = spark.sql(text.replace("FROM t", "FROM over_iceberg")).collect()
            assert comparable(map(tuple, rows)) == lake.ask(text)
    finally:
        spark.conf.set("spark.projseg.enabled", "false")


@pytest.mark.slow
def test_tasks_of_a_session_make_companions(spark, folder, place):
    folder.add()
    folder.add()
    table = projseg.Table(place)
    done = table.sync(spark=spark)
    assert (done.files_added, table.source.files_without_companion) == (2, 0)
    assert table.explain(GROUPS).sources == {"c": len(table.snapshot.segments)}
    assert asked(table, GROUPS) == answer_of(GROUPS, folder.files)
    assert table.verify(deep=True) == []

"""Options about a table's life: tags, what a commit says of itself, replaceWhere."""

import pytest

import projseg


def save(frame, path, mode="overwrite", **options):
    frame.write.format("projseg").mode(mode).options(**options).save(path)


def load(spark, path, **options):
    return spark.read.format("projseg").options(**options).load(path)


def values(frame):
    return sorted(tuple(row) for row in frame.collect())


def refused(action):
    with pytest.raises(Exception) as told:  # noqa: PT011 - Spark wraps the error as it likes
        action()
    return str(told.value)


@pytest.fixture
def path(spark, tmp_path):
    location = str(tmp_path / "life")
    rows = spark.createDataFrame([(1, "a"), (2, "b"), (3, "b"), (4, None)], "k int, s string")
    counts = '[{"name": "counts", "sql": "SELECT s, count(*) AS n GROUP BY s"}]'
    save(rows.repartition(2), location, "append", projections=counts,
         userName="ada", userMetadata="first load")  # fmt: skip
    return location


@pytest.mark.slow
def test_a_tag_is_read_and_a_commit_says_who_made_it(spark, path):
    table = projseg.Table(path)
    table.tag("first")
    save(spark.createDataFrame([(9, "z")], "k int, s string"), path, userMetadata="emptied")
    assert values(load(spark, path)) == [(9, "z")]
    assert len(values(load(spark, path, tag="first"))) == 4
    assert "PROJSEG_UNKNOWN_TAG" in refused(lambda: load(spark, path, tag="frist"))
    both = refused(lambda: load(spark, path, tag="first", versionAsOf="0"))
    assert "'versionAsOf' and 'tag' each name a version" in both
    history = load(spark, path, metadataTable="history").orderBy("version").collect()
    assert [row.userName for row in history] == ["ada", None, None]
    assert [row.userMetadata for row in history] == ["first load", None, "emptied"]
    assert [row.isBlindAppend for row in history] == [True, False, False]


def test_the_rows_of_a_condition_are_replaced(spark, path):
    new = spark.createDataFrame([(20, "b"), (21, "b"), (22, "b")], "k int, s string")
    save(new.repartition(2), path, replaceWhere="s = 'b'")
    assert sorted(row.k for row in load(spark, path).collect()) == [1, 4, 20, 21, 22]
    asked = {"groupBy": "s", "aggregators": "count(*) AS n", "forceProjections": "true"}
    found = {row.s: row.n for row in load(spark, path, **asked).collect()}
    assert found == {"a": 1, "b": 3, None: 1}
    table = projseg.Table(path)
    told = table.history().to_pylist()[0]
    assert told["operationParameters"] == [("filter", "s = ?")]
    assert dict(told["metrics"])["deleted_rows"] == 2
    assert table.verify(deep=True) == []
    save(new, path, replaceWhere="s = 'b'", txnAppId="app", txnVersion="1")
    save(new, path, replaceWhere="s = 'b'", txnAppId="app", txnVersion="1")
    assert projseg.Table(path).version == table.version + 1


@pytest.mark.slow
def test_what_cannot_be_replaced_is_refused(spark, path):
    new = spark.createDataFrame([(20, "b"), (21, "c")], "k int, s string")
    for options, told in [
        ({"replaceWhere": "s = 'b'"}, "PROJSEG_ROWS_OUTSIDE_FILTER"),
        ({"replaceWhere": "nope = 1"}, "PROJSEG_UNKNOWN_COLUMN"),
        ({"replaceWhere": "k = 1", "mode": "append"}, "needs mode('overwrite')"),
        ({"replaceWhere": "k = 1", "mergeSchema": "true"}, "do not go together"),
        ({"replaceWhere": "cast(current_date() AS timestamp) > timestamp '2024-01-01'"}, "PROJSEG"),
    ]:
        assert told in refused(lambda given=options: save(new, path, **given))
    assert projseg.Table(path).version == 0
    assert len(values(load(spark, path))) == 4

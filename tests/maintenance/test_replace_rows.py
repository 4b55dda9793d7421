"""Exactly the rows of a condition are replaced, by rows that fulfil it."""

import datetime

import pyarrow as pa
import pytest

import projseg
from projseg.errors import CommitConflictError, InvalidInputError
from projseg.maintenance.row_changes import replace_rows as module

START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
SCHEMA = pa.schema([("t", pa.timestamp("us", tz="UTC")), ("k", pa.int32()), ("s", pa.string())])
COUNTS = {"name": "counts", "sql": "SELECT s, count(*) AS n GROUP BY s"}


def rows(*found):
    moments = [START + datetime.timedelta(hours=hour) for hour, _, _ in found]
    values = zip(moments, found, strict=True)
    return pa.Table.from_pylist([{"t": t, "k": k, "s": s} for t, (_, k, s) in values], SCHEMA)


def rows_of(table):
    return sorted(zip(*table.query(columns="k, s").to_pydict().values(), strict=True), key=str)


@pytest.fixture
def table(tmp_path):
    made = projseg.Table.create(
        tmp_path / "t", SCHEMA, time_column="t", segment_granularity="day", projections=[COUNTS]
    )
    made.append(rows((0, 1, "a"), (1, 2, "b"), (24, 3, "a"), (25, 4, None), (48, 5, "b")))
    return made


def test_rows_of_a_condition_are_replaced(table):
    before = set(table.segments()["segment"].to_pylist())
    made = table.overwrite(rows((2, 4, "b")), filter="s = 'b' AND k < 5")
    assert (made.version, made.rows) == (2, 1)
    assert rows_of(table) == [(1, "a"), (3, "a"), (4, "b"), (4, None), (5, "b")]
    assert len(before & set(table.segments()["segment"].to_pylist())) == 2
    told = table.history().to_pylist()[0]
    assert told["operationParameters"] == [("filter", "s = ? AND k < ?")]
    assert told["isBlindAppend"] is False
    found = table.query(group_by="s", aggregators="count(*) AS n", order_by="s",
                        context={"forceProjections": True})  # fmt: skip
    assert found["n"].to_pylist() == [1, 2, 2]
    assert table.verify(deep=True) == []
    assert rows_of(projseg.Table(table.location, 1))[0] == (1, "a")


def test_an_interval_with_a_filter_may_cut_through_chunks(table):
    table.overwrite(rows((25, 40, "z")), "2024-05-02T01:00/2024-05-03T01:00", filter="true")
    assert rows_of(table) == [(1, "a"), (2, "b"), (3, "a"), (40, "z")]


@pytest.mark.parametrize(
    ("new", "given", "count"),
    [
        ([(0, 1, "a"), (0, 2, "c")], {"filter": "s = 'a'"}, 1),
        ([(0, 1, None)], {"filter": "s = 'a'"}, 1),
        ([(0, 7, "a"), (30, 8, "a")], {"filter": "s = 'a'", "interval": "2024-05-01/P1D"}, 1),
        ([(0, 7, "a"), (30, 8, "a")], {"filter": "t < timestamp '2024-05-01T12:00Z'"}, 1),
    ],
)
def test_rows_that_do_not_fulfil_it_are_refused(table, tmp_path, new, given, count):
    before = sorted((tmp_path / "t" / "data").iterdir())
    with pytest.raises(InvalidInputError, match=rf"PROJSEG_ROWS_OUTSIDE_FILTER\] {count} rows"):
        table.overwrite(rows(*new), **given)
    assert sorted((tmp_path / "t" / "data").iterdir()) == before
    assert projseg.Table(table.location).version == 1


def test_no_new_rows_is_a_delete(table):
    assert table.overwrite(rows(), filter="k > 2").rows == 0
    assert rows_of(table) == [(1, "a"), (2, "b")]
    assert table.overwrite(rows(), filter="k > 2").version == 2


def test_rows_of_the_condition_that_others_add_meanwhile_are_a_conflict(table, monkeypatch):
    """Kept, they would be rows of the condition that nobody meant to be there."""
    other = projseg.Table(table.location)
    surviving = module.surviving_rows

    def overtaken(*given):
        other.append(rows((3, 30, "b")))
        return surviving(*given)

    monkeypatch.setattr(module, "surviving_rows", overtaken)
    with pytest.raises(CommitConflictError, match="changed which rows there are"):
        table.overwrite(rows((2, 20, "b")), filter="s = 'b'")
    assert rows_of(projseg.Table(table.location)) == [
        (1, "a"), (2, "b"), (3, "a"), (30, "b"), (4, None), (5, "b"),
    ]  # fmt: skip

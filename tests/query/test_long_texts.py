"""Expressions that lengthen text answer in parts, whatever the texts of all rows come to."""

import pyarrow as pa
import pytest

import projseg
import projseg.algebra.expressions.evaluate as evaluation
from projseg.errors import LimitExceededError

ROW_COUNT = 300
LENGTH = 400_000
TEXT = f"rpad(string(v), {LENGTH}, 'x')"
NUMBERS = range(10**6, 10**6 + ROW_COUNT)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rows = pa.table({"v": pa.array(NUMBERS, pa.int64()), "w": ["abc"] * ROW_COUNT})
    table = projseg.Table.create(tmp_path_factory.mktemp("long") / "t", rows.schema)
    table.append(rows)
    return table


def value(table, aggregate, **query):
    (row,) = table.query(aggregators=f"{aggregate} AS a", **query).to_pylist()
    return row["a"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"lpad(w, {LENGTH}, string(v))",
        f"repeat(string(v), {LENGTH // 7})",
        f"concat(string(v), repeat('x', {LENGTH}))",
        f"replace(concat(string(v), repeat('a', {LENGTH // 10})), 'a', 'abcdefghij')",
    ],
)
def test_lengths_of_long_texts_are_added(table, text, threads):
    expected = {"lpad": LENGTH, "repe": LENGTH // 7 * 7, "rpad": LENGTH}
    length = expected.get(text[:4], LENGTH + 7)
    context = {"threads": threads}
    assert value(table, f"sum(length({text}))", context=context) == ROW_COUNT * length


def test_texts_may_come_to_more_than_an_array_of_arrow_holds(tmp_path):
    rows = pa.table({"v": pa.array(range(2_200), pa.int64()), "w": ["abc"] * 2_200})
    table = projseg.Table.create(tmp_path / "t", rows.schema)
    table.append(rows)
    assert value(table, "sum(length(rpad(w, 1000000, string(v))))") == 2_200_000_000


def test_the_longest_text_wins(table):
    text = value(table, f"max({TEXT})")
    assert (text[:7], len(text)) == (str(NUMBERS[-1]), LENGTH)


def test_groups_of_long_texts_are_those_of_their_rows(table):
    key = f"concat(string(v % 3), repeat(w, {LENGTH // 3})) AS k"
    answer = table.query(group_by=key, aggregators="count(*) AS n", order_by="k")
    found = {row["k"][:4]: row["n"] for row in answer.to_pylist()}
    assert found == {"0abc": 100, "1abc": 100, "2abc": 100}


def test_rows_are_chosen_by_long_texts(table):
    assert value(table, "count(*)", filter=f"{TEXT} LIKE '%5xx%'") == ROW_COUNT // 10


def test_a_scan_returns_long_texts_in_small_batches(table):
    lengths = []
    for batch in table.scan(columns=f"{TEXT} AS t"):
        assert batch.nbytes < 2**25
        lengths += [len(text) for text in batch["t"].to_pylist()]
    assert lengths == [LENGTH] * ROW_COUNT


def test_one_short_text_made_long_is_scanned_in_small_batches(table):
    batches = table.scan(columns=f"v, repeat(w, {LENGTH // 3}) AS t")
    assert all(batch.nbytes < 2**25 for batch in batches)


def test_rows_are_ordered_by_texts_that_take_many_arrays(table):
    answer = table.query(
        columns="v", filter="v < 1000100", order_by=f"rpad(string(v), {LENGTH}, 'x') DESC", limit=2
    )
    assert answer["v"].to_pylist() == [1000099, 1000098]


def test_texts_to_order_by_that_no_array_holds_are_refused(table, monkeypatch):
    monkeypatch.setattr(evaluation, "ARRAY_BYTES_MAX", ROW_COUNT * LENGTH - 1)
    with pytest.raises(LimitExceededError, match="PROJSEG_TEXT_TOO_LONG"):
        table.query(columns="v", order_by=TEXT)


def test_a_projection_of_long_texts_is_built(tmp_path):
    rows = pa.table({"v": pa.array(range(100), pa.int64())})
    key = "repeat(string(v % 4), 400000) AS k"
    declared = projseg.Projection("p", [key], ["count(*) AS n"])
    table = projseg.Table.create(tmp_path / "t", rows.schema, projections=[declared])
    table.append(rows)
    assert table.projection_stats()["rows"].to_pylist() == [4]
    assert table.verify(deep=True) == []

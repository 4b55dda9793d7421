"""ORDER BY an aggregate, with and without a limit: groups as Python sorts them."""

import decimal
import math
import tempfile
from itertools import chain
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

import projseg
from projseg.algebra.expressions.tree import Column
from projseg.algebra.query.bound_query import OrderTerm
from projseg.errors import EvaluationError
from projseg.reader import order_ranks
from projseg.reader.order_ranks import term_ranks

EDGE = 2**63 - 1
VALUES = {
    pa.int64(): st.one_of(st.integers(-3, 3), st.sampled_from([-EDGE - 1, -EDGE, EDGE - 1, EDGE])),
    pa.int32(): st.integers(-3, 3),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.one_of(st.floats(), st.sampled_from([0.0, -0.0, math.nan, -math.nan])),
    pa.decimal128(12, 2): st.integers(-3, 3).map(lambda n: decimal.Decimal(n).scaleb(-2)),
    pa.decimal128(38, 0): st.sampled_from([-(10**37), -EDGE - 1, 0, EDGE, 10**37]),
    pa.string(): st.text(max_size=2),
    pa.bool_(): st.booleans(),
}


def place_of(value, term):
    """Where a value stands in a term's order: equal for equal ones."""
    if value is None:
        return (-1 if term.nulls_first else 1, 0, 0)
    if isinstance(value, str):
        return (0, 0, [-byte if term.is_descending else byte for byte in [*value.encode(), -1]])
    is_nan = value != value
    sign = -1 if term.is_descending else 1
    return (0, sign * is_nan, 0 if is_nan else sign * value)


@pytest.mark.parametrize("arrow_type", VALUES, ids=str)
@settings(max_examples=tries(2_000, 30))
@given(data=st.data())
def test_ranks_are_in_the_order_of_the_values(arrow_type, data):
    values = data.draw(st.lists(st.one_of(st.none(), VALUES[arrow_type]), max_size=12))
    descending, nulls_first = data.draw(st.tuples(st.booleans(), st.booleans()))
    term = OrderTerm(Column(arrow_type, "v"), is_descending=descending, nulls_first=nulls_first)
    ranks = term_ranks(pa.array(values, arrow_type), term).tolist()
    places = [place_of(value, term) for value in values]
    for left, left_rank in zip(places, ranks, strict=True):
        for right, right_rank in zip(places, ranks, strict=True):
            assert (left < right, left == right) == (
                left_rank < right_rank,
                left_rank == right_rank,
            )


@pytest.fixture(scope="module")
def sales(tmp_path_factory):
    """Return a table of 6,000 keys, of which many have the same sums, and its rows."""
    rows = [(n * 37 % 6_000, n % 11 - 5 if n % 7 else None) for n in range(12_000)]
    cents = [None if n is None else decimal.Decimal(n).scaleb(-2) for _, n in rows]
    floats = [None if n is None else n / 4 for _, n in rows]
    data = pa.table(
        {
            "key": pa.array([key for key, _ in rows], pa.int64()),
            "number": pa.array([n for _, n in rows], pa.int64()),
            "cents": pa.array(cents, pa.decimal128(12, 2)),
            "share": floats,
        }
    )
    table = projseg.Table.create(tmp_path_factory.mktemp("sales") / "t", data.schema)
    table.append(data.slice(0, 7_000))
    table.append(data.slice(7_000))
    return table, list(zip(data["key"].to_pylist(), data["number"].to_pylist(), strict=True))


@pytest.mark.parametrize("column", ["number", "cents", "share"])
@pytest.mark.parametrize("limit", [None, 1, 40, 1_499, 1_500, 5_000])
@pytest.mark.parametrize("order", ["total DESC", "total", "total DESC NULLS FIRST"])
def test_groups_come_in_the_order_of_their_sums(sales, column, limit, order):
    table, rows = sales
    sums = {}
    for key, number in rows:
        known = sums.setdefault(key, None)
        if number is not None:
            sums[key] = number + (known or 0)
    nulls_first = order in ("total", "total DESC NULLS FIRST")
    sign = 1 if order == "total" else -1

    def place(key):
        total = sums[key]
        if total is None:
            return (-1 if nulls_first else 1, 0, key)
        return (0, sign * total, key)

    found = table.query(
        group_by=["key"], aggregators=[f"sum({column}) AS total"], order_by=[order], limit=limit
    )
    assert found["key"].to_pylist() == sorted(sums, key=place)[:limit]


def test_an_order_by_sums_that_overflow_says_so(tmp_path):
    data = pa.table({"key": [1, 1, 2], "number": [EDGE, EDGE, 0]})
    table = projseg.Table.create(tmp_path / "t", data.schema)
    table.append(data)
    with pytest.raises(EvaluationError, match=r"sum\(number\) is 18446744073709551614"):
        table.query(
            group_by=["key"], aggregators=["sum(number) AS total"], order_by=["total"], limit=1
        )


WORDS = st.sampled_from(["", "a", "a\0", "ab", "é" * 9, "x" * 150, "x" * 150 + "y"])
LONG = st.tuples(st.sampled_from(["", "a" * 8, "b" * 140]), st.text("a\0", max_size=9), WORDS)
TEXTS = st.one_of(WORDS, LONG.map("".join), st.text(max_size=20))
ORDERED = {pa.string(): TEXTS, pa.int64(): VALUES[pa.int64()]}


@settings(max_examples=tries(2_000, 50))
@given(st.data())
def test_the_first_positions_are_those_of_sorted_rows(data):
    """Ties of one term are left to the next, and texts are told apart by bytes."""
    types = data.draw(st.lists(st.sampled_from([*ORDERED]), min_size=1, max_size=3))
    count = data.draw(st.integers(1, 40))
    flags = st.tuples(st.booleans(), st.booleans())
    columns, terms = [], []
    for number, kind in enumerate(types):
        few = data.draw(st.lists(st.one_of(st.none(), ORDERED[kind]), min_size=1, max_size=8))
        values = data.draw(st.lists(st.sampled_from(few), min_size=count, max_size=count))
        columns.append(pa.array(values, kind))
        descending, nulls_first = data.draw(flags)
        column = Column(kind, f"c{number}")
        terms.append(OrderTerm(column, is_descending=descending, nulls_first=nulls_first))
    limit = data.draw(st.one_of(st.none(), st.integers(0, count + 1)))

    def criterion(column, term):
        return lambda positions, wanted: term_ranks(
            column if positions is None else column.take(pa.array(positions)), term, wanted
        )

    criteria = [criterion(*one) for one in zip(columns, terms, strict=True)]
    few = data.draw(st.sampled_from([0, 100]))
    with patch.multiple(order_ranks, _RANKED_TEXTS_MAX=0, _FEW_ROWS=few):
        found = order_ranks.sorted_positions(criteria, count, limit).tolist()
        if limit is None:
            by_bytes = chain.from_iterable(map(order_ranks.ranks_of, columns, terms))
            assert found == order_ranks.sorted_positions(by_bytes, count, None).tolist()
    rows = [
        [place_of(value, term) for value, term in zip(row, terms, strict=True)]
        for row in zip(*(column.to_pylist() for column in columns), strict=True)
    ]
    assert found == sorted(range(count), key=rows.__getitem__)[:limit]


@settings(max_examples=tries(500, 8), deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=12),
    st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=12),
)
def test_sums_of_a_column_with_nulls_count_its_values(first, second):
    """sum(x + 1) is made of sum(x) and count(x), of null rows and of no rows as well."""
    texts = {"x + 7": lambda x: x + 7, "3 - 2 * x": lambda x: 3 - 2 * x, "x - x + 5": lambda x: 5}
    schema = pa.schema([("key", pa.int32()), ("x", pa.int32())])
    with tempfile.TemporaryDirectory() as folder:
        table = projseg.Table.create(f"{folder}/t", schema)
        for values in (first, second):
            keys = [n % 2 for n in range(len(values))]
            table.append(pa.table([keys, values], schema=schema))
        rows = [(n % 2, x) for values in (first, second) for n, x in enumerate(values)]
        aggregators = [f"sum({text}) AS s{n}" for n, text in enumerate(texts)]
        for keys in ([], ["key"]):
            found = table.query(group_by=keys, aggregators=aggregators).to_pylist()
            groups = {row.get("key"): [row[f"s{n}"] for n in range(3)] for row in found}
            wanted = {}
            for key in {key for key, _ in rows} if keys else {None}:
                values = [x for one, x in rows if one == key or not keys]
                wanted[key] = [
                    sum(made(x) for x in values if x is not None)
                    if any(x is not None for x in values)
                    else None
                    for made in texts.values()
                ]
            assert groups == wanted

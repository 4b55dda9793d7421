"""Decimals that pass 64 bits, over tables of several pages, against Python's decimals."""

import random
from collections import Counter
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext

import pyarrow as pa
import pytest

import projseg
from projseg.errors import EvaluationError
from projseg.segment_format.format_limits import PAGE_ROWS_MAX

WIDE = pa.decimal128(38, 18)
ROW_COUNT = 2 * PAGE_ROWS_MAX + 100


def value_of(row):
    """The first page fits 64 bits, the second does not, the third has nulls alone."""
    if row >= 2 * PAGE_ROWS_MAX:
        return None
    return Decimal(row % 9) if row < PAGE_ROWS_MAX else Decimal(row % 10_000 - 5_000)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    values = [value_of(row) for row in range(ROW_COUNT)]
    # A dictionary would hold the values otherwise.
    values = [v if v is None else v + Decimal(row).scaleb(-9) for row, v in enumerate(values)]
    rows = pa.table({"x": pa.array(values, WIDE), "n": pa.array(range(ROW_COUNT), pa.int32())})
    location = tmp_path_factory.mktemp("wide") / "table"
    return projseg.Table.create(location, rows.schema, data=rows), values


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ("x < 5", lambda x: x < 5),
        ("x >= 8", lambda x: x >= 8),
        ("x > 4000", lambda x: x > 4000),
        ("x <= -4000", lambda x: x <= -4000),
        ("x = 7.000000007000000000", lambda x: x == Decimal("7.000000007")),
        ("x > 20000", lambda x: x > 20000),
    ],
)
def test_pages_of_values_that_pass_64_bits_are_read(table, condition, matches):
    asked, values = table
    found = asked.query(aggregators="count(*) AS n", filter=condition)["n"].to_pylist()
    assert found == [sum(matches(value) for value in values if value is not None)]


def exact(value, scale):
    """Round half away from zero, as Spark does."""
    with localcontext(Context(prec=100)):
        return value.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)


def by_group(rows, compute):
    """Compute a value of the rows of each group, which is the first item of a row."""
    groups = {}
    for group, *values in rows:
        groups.setdefault(group, []).append(values)
    with localcontext(Context(prec=100)):
        return {group: compute(values) for group, values in groups.items()}


@pytest.fixture(scope="module")
def prices(tmp_path_factory):
    """Rows of amounts in hundredths, which are typed with 18 digits after the point."""
    r = random.Random(5)
    rows = []
    for _ in range(20_000):
        amount = None if r.random() < 0.05 else Decimal(r.randrange(-(10**6), 10**6)).scaleb(-2)
        share = Decimal(r.randrange(100)).scaleb(-2)
        many = Decimal(r.randrange(-(10**12), 10**12)).scaleb(-4)
        rows.append((r.randrange(7), amount, share, many))
    types = [pa.int32(), WIDE, WIDE, pa.decimal128(20, 4)]
    columns = [
        pa.array(column, each) for column, each in zip(zip(*rows, strict=True), types, strict=True)
    ]
    data = pa.table(dict(zip(["k", "amount", "share", "many"], columns, strict=True)))
    location = tmp_path_factory.mktemp("prices") / "table"
    return projseg.Table.create(location, data.schema, data=data), rows


SUMS = {
    "sum(amount)": lambda rows: sum(a for a, _, _ in rows if a is not None),
    "min(amount)": lambda rows: min(a for a, _, _ in rows if a is not None),
    "max(amount)": lambda rows: max(a for a, _, _ in rows if a is not None),
    "max(many)": lambda rows: max(m for _, _, m in rows),
    "count(DISTINCT amount)": lambda rows: len({a for a, _, _ in rows if a is not None}),
    "sum(amount * amount)": lambda rows: sum(exact(a * a, 6) for a, _, _ in rows if a is not None),
    "sum(amount * (1 - share))": lambda rows: sum(
        exact(a * (1 - s), 6) for a, s, _ in rows if a is not None
    ),
    "sum(many * many)": lambda rows: sum(exact(m * m, 6) for _, _, m in rows),
    "sum(CASE WHEN amount > many THEN amount - many ELSE 0 END)": lambda rows: sum(
        a - m for a, _, m in rows if a is not None and a > m
    ),
    "sum(many / 100)": lambda rows: sum(exact(m / 100, 8) for _, _, m in rows),
}


@pytest.mark.parametrize("text", SUMS)
def test_groups_are_what_pythons_decimals_say(prices, text):
    table, rows = prices
    answer = table.query("k", f"{text} AS found", context={"noProjections": True}).to_pylist()
    assert {row["k"]: row["found"] for row in answer} == by_group(rows, SUMS[text])


def test_wide_decimals_are_grouped_and_ordered(prices):
    table, rows = prices
    found = table.query("amount", "count(*) AS n", order_by="amount", limit=50).to_pylist()
    counts = Counter(row[1] for row in rows)
    ordered = sorted(counts, key=lambda value: (value is not None, value or 0))
    assert [(row["amount"], row["n"]) for row in found] == [
        (value, counts[value]) for value in ordered[:50]
    ]


def test_products_that_pass_the_type_are_refused(tmp_path):
    data = pa.table({"x": pa.array([Decimal(10) ** 19] * 9000, pa.decimal128(38, 0))})
    table = projseg.Table.create(tmp_path / "table", data.schema, data=data)
    with pytest.raises(EvaluationError, match="PROJSEG_EVALUATION_OVERFLOW"):
        table.query(aggregators="sum(x * x) AS s")
    one = table.query(aggregators="sum(x * 9999999999) AS s").to_pylist()
    assert one == [{"s": Decimal(10) ** 19 * 9999999999 * 9000}]


def test_wide_decimals_are_compacted(tmp_path):
    values = [Decimal(row) * 10**9 + Decimal("0.5") for row in range(300)]
    data = pa.table({"x": pa.array([*values, None], WIDE)})
    table = projseg.Table.create(tmp_path / "table", data.schema, data=data)
    table.append(data)
    table.compact()
    found = table.query(columns="x", order_by="x")["x"].to_pylist()
    assert found == [None, None, *(value for value in values for _ in range(2))]
    assert table.verify(deep=True) == []

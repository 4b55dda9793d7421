"""Decimals that pass 64 bits, over tables of several pages, against Python's decimals."""

from decimal import Decimal

import pyarrow as pa
import pytest

import projseg
from projseg.segment_format.limits import PAGE_ROWS_MAX

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

"""Stored bounds enclose the values, and come back equal when they say that they are exact."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projseg.table_layer.metadata.column_bounds import bound_decoder, encode_bounds
from projseg.table_layer.metadata.metadata_limits import BOUND_BYTES_MAX
from projseg.table_layer.metadata.segment_entry import ColumnZone

DECIMAL = pa.decimal128(38, 6)


def decimal_of(unscaled):
    return Decimal(unscaled) / 10**6


CASES = [
    (pa.bool_(), st.booleans()),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (DECIMAL, st.integers(-(10**28), 10**28).map(decimal_of)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(UTC))),
    (pa.string(), st.text(max_size=200)),
    (pa.string(), st.text(alphabet="a\ud7ff\U0010ffff", min_size=10, max_size=90)),
    (pa.binary(), st.binary(max_size=200)),
    (pa.binary(), st.lists(st.sampled_from([b"\xff", b"a"]), max_size=99).map(b"".join)),
]


@pytest.mark.parametrize(("arrow_type", "values"), CASES)
@given(data=st.data())
def test_bounds_enclose_and_survive_json(arrow_type, values, data):
    smaller, larger = sorted([data.draw(values), data.draw(values)])
    low, high, exact = encode_bounds(smaller, larger, arrow_type)
    zone = ColumnZone(low, high, 0, False, exact, 0)
    zone = msgspec.json.decode(msgspec.json.encode(zone), type=ColumnZone)
    below = bound_decoder(arrow_type)(zone.min)
    above = bound_decoder(arrow_type)(zone.max)
    assert below is not None
    assert below <= smaller
    assert above is None or above >= larger
    if zone.exact:
        assert (below, above) == (smaller, larger)
    else:
        assert isinstance(smaller, str | bytes)
    for bound in (below, above):
        if isinstance(bound, str):
            assert len(bound.encode()) <= BOUND_BYTES_MAX + 3
        if isinstance(bound, bytes):
            assert len(bound) <= BOUND_BYTES_MAX


def test_edges():
    text, double = pa.string(), pa.float64()
    assert encode_bounds(None, None, text) == (None, None, True)
    assert encode_bounds(-math.inf, math.inf, double) == ("-Infinity", "Infinity", True)
    assert math.copysign(1, encode_bounds(-0.0, -0.0, double)[0]) == 1
    assert encode_bounds("a" * 65, "b" * 65, text) == ("a" * 64, "b" * 63 + "c", False)
    assert encode_bounds("x", "\U0010ffff" * 17, text) == ("x", None, False)
    days = (date(1969, 12, 31), date(1970, 1, 2))
    assert encode_bounds(*days, pa.date32()) == (-1, 1, True)
    moment = datetime(1970, 1, 1, tzinfo=UTC)
    assert encode_bounds(moment, None, pa.timestamp("us", tz="UTC")) == (0, None, True)
    assert encode_bounds(Decimal(1), Decimal("1.5"), DECIMAL) == (1_000_000, 1_500_000, True)


@pytest.mark.parametrize(
    ("stored", "arrow_type"),
    [
        ("zz", pa.binary()),
        ("text", pa.int64()),
        ("text", pa.float64()),
        (2**62, pa.timestamp("us", tz="UTC")),
        (2**62, pa.date32()),
        (1.5, pa.int64()),
        (2**63, pa.int64()),
        (-(2**63) - 1, pa.int64()),
        (128, pa.int8()),
        (1, pa.string()),
        (None, pa.float64()),
    ],
)
def test_a_bound_without_meaning_is_none(stored, arrow_type):
    assert bound_decoder(arrow_type)(stored) is None

"""Hypothesis strategies for columns of every type projseg stores."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from projseg.segment_format.dictionary import Dictionary, narrow_id_dtype
from projseg.segment_format.logical_types import (
    TIMESTAMP,
    TIMESTAMP_NTZ,
    arrow_to_numbers,
    is_fixed_width,
)
from projseg.segment_format.vectors import Ids, Numbers, Opaque

INTEGER_TYPES = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


def _integers(bits):
    edge = 2 ** (bits - 1)
    near = st.integers(max(-edge, -5), min(edge - 1, 300))
    return st.one_of(near, st.integers(-edge, edge - 1), st.sampled_from([-edge, edge - 1, 0]))


def _decimals(precision, scale):
    edge = 10**precision - 1
    exact = decimal.Context(prec=precision)
    return st.integers(-edge, edge).map(lambda n: decimal.Decimal(n).scaleb(-scale, exact))


def _timestamps(zone):
    low, high = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
    return st.datetimes(low, high, timezones=st.just(zone)).map(lambda t: t)


VALUES = {
    pa.bool_(): st.booleans(),
    **{arrow_type: _integers(bits) for arrow_type, bits in INTEGER_TYPES.items()},
    pa.float32(): st.floats(width=32),
    pa.float64(): st.one_of(
        st.floats(), st.integers(-9999, 9999).map(lambda n: n / 100), st.sampled_from([0.0, -0.0])
    ),
    pa.decimal128(9, 2): _decimals(9, 2),
    pa.decimal128(38, 10): _decimals(38, 10),
    pa.date32(): st.dates(),
    TIMESTAMP: _timestamps(datetime.UTC),
    TIMESTAMP_NTZ: _timestamps(None),
    pa.string(): TEXT,
    pa.binary(): st.binary(max_size=12),
    pa.null(): st.none(),
    pa.list_(pa.int32()): st.lists(st.none() | _integers(32), max_size=4),
    pa.map_(pa.string(), pa.float64()): st.dictionaries(
        TEXT, st.none() | st.floats(allow_nan=False), max_size=3
    ).map(lambda items: list(items.items())),
    pa.struct([("a", pa.int64()), ("b c", pa.list_(pa.string()))]): st.fixed_dictionaries(
        {"a": st.none() | _integers(64), "b c": st.none() | st.lists(st.none() | TEXT, max_size=3)}
    ),
    pa.list_(pa.struct([("t", TIMESTAMP), ("d", pa.decimal128(38, 2))])): st.lists(
        st.none()
        | st.fixed_dictionaries(
            {"t": st.none() | _timestamps(datetime.UTC), "d": st.none() | _decimals(38, 2)}
        ),
        max_size=2,
    ),
}
TYPES = list(VALUES)


def arrays(arrow_type, max_size=40):
    """Strategy of Arrow arrays with nulls, duplicates and runs."""
    value = st.none() | VALUES[arrow_type]
    runs = st.lists(st.tuples(value, st.integers(1, 5)), max_size=max_size // 3)
    repeated = runs.map(lambda pairs: [v for v, count in pairs for _ in range(count)])
    either = st.lists(value, max_size=max_size) | repeated
    return either.map(lambda values: pa.array(values, arrow_type))


def vector_of(array, *, as_ids=False):
    """Return the vector a writer would make of an array."""
    if as_ids:
        return ids_of(array)
    if is_fixed_width(array.type):
        values, validity = arrow_to_numbers(array)
        return Numbers(values, array.type, 0, validity)
    return Opaque(array)


def ids_of(array):
    """Return dictionary ids of an array of text, booleans, integers, dates or timestamps."""
    distinct = array.unique().sort().filter(array.unique().sort().is_valid())
    if array.null_count:
        distinct = pa.concat_arrays([pa.nulls(1, array.type), distinct])
    values = distinct.to_pylist()
    positions = {value: i for i, value in enumerate(values)}
    ids = np.array([positions[value] for value in array.to_pylist()], np.int64)
    return Ids(ids.astype(narrow_id_dtype(len(values))), Dictionary(distinct))

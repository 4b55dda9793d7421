"""Make the zone of a column for a manifest: bounds, nulls, size."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from projseg.segment_format.layout.logical_types import (
    MICROS_A_DAY,
    arrow_to_numbers,
    numbers_to_arrow,
)
from projseg.segment_format.vectors.vectors import Ids, Numbers, Opaque, Vector
from projseg.table_layer.metadata.column_bounds import encode_bounds
from projseg.table_layer.metadata.segment_entry import ColumnZone


def column_zone(vector: Vector, byte_count: int) -> ColumnZone:
    """Return the zone of a whole base column.

    The dictionary of an `Ids` vector must hold only values that occur in it.
    """
    if isinstance(vector, Opaque):
        return ColumnZone(None, None, vector.array.null_count, False, False, byte_count)
    if isinstance(vector, Ids):
        return _ids_zone(vector, byte_count)
    return _numbers_zone(vector, byte_count)


def _ids_zone(vector: Ids, byte_count: int) -> ColumnZone:
    values = vector.dictionary.values
    null_count = 0
    if vector.dictionary.has_null:
        null_count = int(np.count_nonzero(vector.ids == 0))
        values = values.slice(1)
    ends = pa.concat_arrays([values.slice(0, 1), values.slice(max(len(values) - 1, 0))])
    return zone_of(ends, null_count, False, byte_count)


def _numbers_zone(vector: Numbers, byte_count: int) -> ColumnZone:
    values, null_count = vector.values, 0
    if vector.validity is not None:
        null_count = int(np.count_nonzero(~vector.validity))
        values = values[vector.validity]
    has_nan = False
    if values.dtype.kind == "f":
        nans = np.isnan(values)
        has_nan = bool(nans.any())
        values = values[~nans] if has_nan else values
    ends = np.array([values.min(), values.max()] if len(values) else [], dtype=values.dtype)
    found = numbers_to_arrow(ends, vector.type, base=vector.base)
    return zone_of(found, null_count, has_nan, byte_count)


def zone_of(ends: pa.Array, null_count: int, has_nan: bool, byte_count: int) -> ColumnZone:
    """Return the zone of a column from its smallest and largest value that is no null and no NaN.

    `ends` holds the two, each once or more often, and is empty if there is no such value.
    """
    if pa.types.is_timestamp(ends.type):
        ends = ends.cast(pa.timestamp("us"))  # pyarrow makes aware datetimes by pandas
    try:
        minimum, maximum = ends.to_pylist() if len(ends) else (None, None)
    except (ValueError, OverflowError):  # a timestamp beyond the years that Python can say
        return ColumnZone(None, None, null_count, has_nan, False, byte_count)
    low, high, exact = encode_bounds(minimum, maximum, ends.type)
    return ColumnZone(low, high, null_count, has_nan, exact, byte_count)


def time_bounds(
    vectors: Mapping[str, Vector], time_column: str | None
) -> tuple[int | None, int | None]:
    """Return the smallest and largest time of a segment's rows, microseconds; None without time."""
    if time_column is None:
        return None, None
    vector, base = vectors[time_column], 0
    if isinstance(vector, Ids):
        values, _ = arrow_to_numbers(vector.dictionary.values)
    else:
        assert isinstance(vector, Numbers)
        values, base = vector.values, vector.base
    unit = MICROS_A_DAY if pa.types.is_date32(vector.type) else 1
    return (base + int(values.min())) * unit, (base + int(values.max())) * unit

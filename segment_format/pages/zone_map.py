"""Zone maps: what a directory says of each page, so that pages can be skipped; wider types."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.segment_format.dictionaries.dictionary import Dictionary
from projseg.segment_format.layout.logical_types import (
    DOUBLE_DIGITS,
    INTEGER_DIGITS,
    arrow_to_numbers,
)
from projseg.segment_format.layout.page_directory import HAS_BOUNDS, HAS_NAN, PageDirectory
from projseg.segment_format.vectors.vectors import Ids, Numbers, Opaque, Vector


class PageZones(msgspec.Struct, frozen=True, eq=False):
    """Zone maps of the p pages of a column.

    Parameters
    ----------
    row_starts : int64[p + 1]
        First row of each page, and the row count.
    minimum, maximum : int64[p] or float64[p]
        Of the values that are neither null nor NaN: dictionary ids for an Ids column (there the
        null's id counts), else values in their fixed-width form. 0 where `has_bounds` is False.
    has_bounds : bool[p]
        Whether the page has such a value, of at most 64 bits each.
    null_count : int64[p]
        Rows that are null.
    has_nan : bool[p]
        Whether a value is NaN.
    """

    row_starts: NDArray[np.int64]
    minimum: NDArray[Any]
    maximum: NDArray[Any]
    has_bounds: NDArray[np.bool_]
    null_count: NDArray[np.int64]
    has_nan: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.minimum)

    @property
    def nbytes(self) -> int:
        """Bytes held, the directory's `row_starts` not counted."""
        arrays = (self.minimum, self.maximum, self.has_bounds, self.null_count, self.has_nan)
        return sum(array.nbytes for array in arrays)

    def holds_wide(self) -> NDArray[np.bool_]:
        """Return which pages hold values that pass 64 bits, bool[p]: nothing bounds those pages."""
        has_values = self.null_count < np.diff(self.row_starts)
        return has_values & ~self.has_bounds & ~self.has_nan


def page_zones(directory: PageDirectory, arrow_type: pa.DataType, *, is_numbers: bool) -> PageZones:
    """Return the zone maps a directory records."""
    records = directory.records
    dtype = np.float64 if is_numbers and pa.types.is_floating(arrow_type) else np.int64
    return PageZones(
        directory.row_starts,
        records["minimum"].copy().view(dtype),
        records["maximum"].copy().view(dtype),
        records["flags"] & HAS_BOUNDS != 0,
        records["null_count"].astype(np.int64),
        records["flags"] & HAS_NAN != 0,
    )


def float_bounds(values: NDArray[Any]) -> tuple[int, int, bool] | None:
    """Return (minimum, maximum) of float[n] as bits of doubles, and whether a value is NaN.

    None if every value is NaN. -0.0 counts as 0.0, so that equal values have equal bounds.
    """
    has_nan = bool(np.isnan(values).any())
    known = values[~np.isnan(values)] if has_nan else values
    if len(known) == 0:
        return None
    bounds = np.array([known.min(), known.max()], np.float64) + 0.0
    low, high = bounds.view(np.int64).tolist()
    return low, high, has_nan


_DOUBLE: Final = pa.float64()


def may_widen(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether every value of one type is a value of another, which sorts as the first does.

    Integers become wider integers, decimals of scale 0 and, up to int, doubles; float becomes
    double; a decimal gets more digits before its point.
    """
    if narrow in INTEGER_DIGITS:
        digits = INTEGER_DIGITS[narrow]
        if wide in INTEGER_DIGITS:
            return INTEGER_DIGITS[wide] > digits
        if pa.types.is_decimal(wide):
            return bool(wide.scale == 0 and wide.precision >= digits)
        return bool(wide == _DOUBLE and digits <= DOUBLE_DIGITS)
    if pa.types.is_decimal(narrow) and pa.types.is_decimal(wide):
        return bool(wide.scale == narrow.scale and wide.precision > narrow.precision)
    return bool(narrow == pa.float32() and wide == _DOUBLE)


def keeps_ids(wide: pa.DataType) -> bool:
    """Whether columns of dictionary ids stay so when their values get this type."""
    return bool(wide != _DOUBLE)  # doubles are stored as numbers always


def widened(vector: Vector, wide: pa.DataType) -> Vector:
    """Return a vector with its values in a type that `may_widen` allows."""
    match vector:
        case Ids() if keeps_ids(wide):
            return Ids(vector.ids, widened_dictionary(vector.dictionary, wide))
        case Numbers() if wide != _DOUBLE:
            return replace(vector, type=wide)
        case Numbers():
            doubles = vector.wide().astype(np.float64)
            return Numbers(doubles, wide, validity=vector.validity)
        case Opaque():
            return Opaque(vector.array.cast(wide))
    values, validity = arrow_to_numbers(vector.to_arrow().cast(wide))
    return Numbers(values, wide, validity=validity)


def widened_dictionary(dictionary: Dictionary, wide: pa.DataType) -> Dictionary:
    """Return a dictionary of the same ids; stored hashes depend on the type and are left out."""
    return Dictionary(dictionary.values.cast(wide))


def widened_zones(zones: PageZones, wide: pa.DataType) -> PageZones:
    """Return the zone maps of pages of numbers, as they are for values of a wider type."""
    if wide != _DOUBLE:
        return zones
    low, high = (ends.astype(np.float64) for ends in (zones.minimum, zones.maximum))
    return replace(zones, minimum=low, maximum=high)

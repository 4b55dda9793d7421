"""Values of a narrower type as values of a wider one, where that loses nothing."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from projseg.segment_format.dictionaries.dictionary import Dictionary
from projseg.segment_format.layout.logical_types import (
    DOUBLE_DIGITS,
    INTEGER_DIGITS,
    arrow_to_numbers,
)
from projseg.segment_format.pages.zone_map import PageZones
from projseg.segment_format.vectors.vectors import Ids, Numbers, Opaque, Vector

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

"""A grouping key over rows: an id for each row, and the value that each id stands for.

A key's ids ascend with its values (nulls first), so groups numbered by mixed radix or by packed
keys come out in the order of the grouping columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from projseg.aggregation.arrow_vectors import encode_sorted
from projseg.kernels.doubles import plain_doubles
from projseg.kernels.grouping import UnsignedIds, distinct_keys
from projseg.segment_format.dictionary import narrow_id_dtype
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector

# Integers in a range up to this wide get `value - minimum` as id, even if few of them occur.
_DENSE_RANGE_MAX: Final = 1 << 16


class Key(msgspec.Struct, frozen=True):
    """Ids of one grouping column.

    Parameters
    ----------
    ids : uint8[n], uint16[n] or uint32[n]
        Below `cardinality`; ascending with the value, null lowest.
    cardinality : int
        Number of ids that may occur.
    values_of : callable
        From ids[m] to the `Vector` of their values.
    """

    ids: UnsignedIds
    cardinality: int
    values_of: Callable[[UnsignedIds], Vector]


def make_key(vector: Vector) -> Key:
    """Return the key that groups rows by `vector`."""
    if isinstance(vector, Opaque):
        vector = encode_sorted(vector.array)
    if isinstance(vector, Ids):
        dictionary = vector.dictionary
        return Key(vector.ids, len(dictionary), lambda ids: Ids(ids, dictionary))
    if vector.values.dtype.kind == "f":
        return _float_key(vector)
    if vector.values.dtype == object:
        return _distinct_key(vector, *_sorted_objects(vector.values))
    return _integer_key(vector)


def _integer_key(vector: Numbers) -> Key:
    values, validity = vector.values, vector.validity
    low, high = _bounds(values, validity)
    spread = high - low + 1
    if spread > max(_DENSE_RANGE_MAX, len(values)):
        keys = values.view(np.uint64) ^ np.uint64(1 << 63) if values.dtype == np.int64 else values
        ids, distinct = distinct_keys(keys.astype(np.uint64, copy=False))
        if values.dtype == np.int64:
            distinct = distinct ^ np.uint64(1 << 63)
        return _distinct_key(vector, ids, distinct.astype(np.int64))
    shift = 0 if validity is None else 1
    ids = _shifted(values, low, shift, spread + shift)
    if validity is not None:
        ids[~validity] = 0
    base = vector.base + low

    def values_of(group_ids: UnsignedIds) -> Numbers:
        present = None if validity is None else group_ids > 0
        numbers = group_ids.astype(np.int64) - shift + base
        if present is not None:
            numbers[~present] = 0
        return Numbers(numbers, vector.type, validity=present)

    return Key(ids, spread + shift, values_of)


def _bounds(values: NDArray[Any], validity: NDArray[np.bool_] | None) -> tuple[int, int]:
    known = values if validity is None else values[validity]
    return (int(known.min()), int(known.max())) if len(known) else (0, 0)


def _shifted(values: NDArray[Any], low: int, shift: int, cardinality: int) -> UnsignedIds:
    """Return `values - low + shift` as ids; those of null rows mean nothing."""
    dtype = narrow_id_dtype(cardinality)
    if low == shift == 0 and values.dtype == dtype:
        return values
    return (values.astype(np.int64, copy=False) - low + shift).astype(dtype)


def _float_key(vector: Numbers) -> Key:
    """Group by bit pattern, after making all NaNs equal and -0.0 equal to 0.0; Spark's order."""
    bits = plain_doubles(vector.values).view(np.uint64)
    negative = bits >> np.uint64(63) != 0
    ordered = np.where(negative, ~bits, bits | np.uint64(1 << 63))
    ids, distinct = distinct_keys(ordered)
    positive = distinct >> np.uint64(63) != 0
    back = np.where(positive, distinct ^ np.uint64(1 << 63), ~distinct).view(np.float64)
    return _distinct_key(vector, ids, back.astype(vector.values.dtype))


def _sorted_objects(values: NDArray[Any]) -> tuple[UnsignedIds, NDArray[Any]]:
    distinct, ids = np.unique(values, return_inverse=True)
    return ids.astype(np.uint32), distinct


def _distinct_key(vector: Numbers, ids: UnsignedIds, distinct: NDArray[Any]) -> Key:
    """Return the key of values that are `distinct[ids]`; nulls get id 0 if there are any."""
    base, validity = vector.base, vector.validity
    shift = 0 if validity is None else 1
    if validity is not None:
        ids = (ids + 1).astype(np.uint32)
        ids[~validity] = 0

    def values_of(group_ids: UnsignedIds) -> Numbers:
        if validity is None:
            return Numbers(distinct[group_ids], vector.type, base)
        present = group_ids > 0
        padded = np.concatenate([np.zeros(1, distinct.dtype), distinct])
        return Numbers(padded[group_ids], vector.type, base, present)

    return Key(ids, len(distinct) + shift, values_of)

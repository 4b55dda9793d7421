"""Floors of a time column, as narrow bucket numbers rather than as microseconds."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.time.granularity import Granularity
from projseg.segment_format.dictionaries.dictionary import Dictionary, narrow_id_dtype
from projseg.segment_format.layout.logical_types import MICROS_A_DAY, numbers_to_arrow
from projseg.segment_format.vectors.vectors import Ids, Numbers, Vector

_BUCKETS_MAX: Final = 1 << 14


def bucket_vector(times: Numbers, granularity: Granularity, result_type: pa.DataType) -> Vector:
    """Return the start of each row's time bucket.

    The result is dictionary-encoded: the buckets between the first and the last row are few, and
    ids into them group without hashing.

    Parameters
    ----------
    times : Numbers
        Timestamps in microseconds.
    granularity : Granularity
        The floor.
    result_type : pa.DataType
        timestamp, timestamp_ntz or date.
    """
    values = times.wide()
    known = values if times.validity is None else values[times.validity]
    if len(known) == 0:
        return Numbers(np.zeros(len(values), np.int64), result_type, validity=times.validity)
    buckets = _buckets(granularity, int(known.min()), int(known.max()))
    if buckets is None:
        floors = granularity.floor(values)
        return Numbers(_in_units_of(floors, result_type), result_type, validity=times.validity)
    has_null = times.validity is not None
    ids = _bucket_ids(values, buckets, has_null)
    dictionary_values = numbers_to_arrow(_in_units_of(buckets.starts, result_type), result_type)
    if times.validity is not None:
        ids[~times.validity] = 0
        dictionary_values = pa.concat_arrays([pa.nulls(1, result_type), dictionary_values])
    return Ids(ids, Dictionary(dictionary_values))


class _Buckets(msgspec.Struct, frozen=True):
    """Pieces of time that lie in one bucket each, and the buckets.

    Parameters
    ----------
    begins : int64[n]
        The first instant of each piece, ascending.
    bucket_of : intp[n] or None
        Position of each piece's bucket in `starts`; None: each piece has its own, in order.
    starts : int64[m]
        Start of each bucket, ascending.
    width : int
        Length in microseconds of every piece, except that the first and the last may be shorter; 0
        if lengths differ, as those of months do.
    """

    begins: NDArray[np.int64]
    bucket_of: NDArray[np.intp] | None
    starts: NDArray[np.int64]
    width: int


def _buckets(granularity: Granularity, low: int, high: int) -> _Buckets | None:
    """Return the buckets of all instants from `low` to `high`; None if too many."""
    if (high - low) // granularity.length_micros > _BUCKETS_MAX:
        return None
    begins, floors = granularity.pieces(low, high + 1)
    if bool(np.all(floors[1:] > floors[:-1])):
        is_even = len(begins) > 1 and bool(np.all(np.diff(begins[1:]) == granularity.micros))
        return _Buckets(begins, None, floors, granularity.micros if is_even else 0)
    starts, bucket_of = np.unique(floors, return_inverse=True)
    return _Buckets(begins, bucket_of, starts, 0)


def _bucket_ids(
    values: NDArray[np.int64], buckets: _Buckets, has_null: bool
) -> NDArray[np.unsignedinteger]:
    """Return the position of each value's bucket; plus 1 if there are nulls, which get id 0."""
    begins = buckets.begins
    shift = 1 if has_null else 0
    dtype = narrow_id_dtype(len(buckets.starts) + shift)
    if not has_null and bool(np.all(values[1:] >= values[:-1])):
        edges = np.searchsorted(values, begins[1:], side="left")
        counts = np.diff(np.concatenate([[0], edges, [len(values)]]))
        pieces = np.arange(len(begins)) if buckets.bucket_of is None else buckets.bucket_of
        return np.repeat(pieces.astype(dtype), counts)
    if buckets.width:
        positions = (values - begins[1]) // buckets.width + 1
    else:
        positions = np.searchsorted(begins, values, side="right") - 1
        if buckets.bucket_of is not None:
            positions = buckets.bucket_of[positions]
    ids: NDArray[np.unsignedinteger] = (positions + shift).astype(dtype)
    return ids


def _in_units_of(micros: NDArray[np.int64], result_type: pa.DataType) -> NDArray[np.int64]:
    return micros // MICROS_A_DAY if pa.types.is_date32(result_type) else micros

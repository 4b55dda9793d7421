"""Floors of a time column, as narrow bucket numbers rather than as microseconds."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.granularity import Granularity
from projseg.segment_format.dictionary import Dictionary, narrow_id_dtype
from projseg.segment_format.types import MICROS_A_DAY, numbers_to_arrow
from projseg.segment_format.vectors import Ids, Numbers, Vector

# Clock changes shorten a bucket to no less than a quarter of its usual length (Lord Howe: 1/2).
_GRID_POINTS_A_BUCKET: Final = 4
_GRID_POINTS_MAX: Final = 1 << 16


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
    starts = bucket_starts(granularity, int(known.min()), int(known.max()))
    if starts is None:
        floors = granularity.floor(values)
        return Numbers(_in_units_of(floors, result_type), result_type, validity=times.validity)
    has_null = times.validity is not None
    ids = _bucket_ids(values, starts, has_null)
    dictionary_values = numbers_to_arrow(_in_units_of(starts, result_type), result_type)
    if times.validity is not None:
        ids[~times.validity] = 0
        dictionary_values = pa.concat_arrays([pa.nulls(1, result_type), dictionary_values])
    return Ids(ids, Dictionary(dictionary_values))


def bucket_starts(granularity: Granularity, low: int, high: int) -> NDArray[np.int64] | None:
    """Return the starts of all buckets from `low`'s to `high`'s, ascending; None if too many.

    A grid finer than any bucket is floored at once, so no bucket is missed, clock changes included.
    """
    step = granularity.length_micros // _GRID_POINTS_A_BUCKET
    if step == 0 or (high - low) // step > _GRID_POINTS_MAX:
        return None
    grid = np.append(np.arange(low, high, step, dtype=np.int64), high)
    return np.unique(granularity.floor(grid))


def _bucket_ids(
    values: NDArray[np.int64], starts: NDArray[np.int64], has_null: bool
) -> NDArray[np.unsignedinteger]:
    shift = 1 if has_null else 0
    dtype = narrow_id_dtype(len(starts) + shift)
    if not has_null and bool(np.all(values[1:] >= values[:-1])):
        edges = np.searchsorted(values, starts[1:], side="left")
        counts = np.diff(np.concatenate([[0], edges, [len(values)]]))
        return np.repeat(np.arange(len(starts), dtype=dtype), counts)
    widths = np.diff(starts)
    if len(widths) and bool(np.all(widths == widths[0])):
        positions = (values - starts[0]) // widths[0]
    else:
        positions = np.searchsorted(starts, values, side="right") - 1
    ids: NDArray[np.unsignedinteger] = (positions + shift).astype(dtype)
    return ids


def _in_units_of(micros: NDArray[np.int64], result_type: pa.DataType) -> NDArray[np.int64]:
    return micros // MICROS_A_DAY if pa.types.is_date32(result_type) else micros

"""A grouping key over rows: an id for each row, and the value that each id stands for.

On request, a key's ids ascend with its values (nulls first), so groups numbered by mixed
radix or by packed keys come out in the order of the grouping columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.evaluation.arrow_vectors import encode_sorted
from projseg.kernels.distinct_keys import number_runs
from projseg.kernels.grouping import UnsignedIds, distinct_keys, occupied_groups, ranks_of
from projseg.kernels.row_selection import gather
from projseg.kernels.sorting import float_of_order_keys, float_order_keys
from projseg.memory.forks import late_import
from projseg.segment_format.arrow_arrays import (
    WIDE,
    text_buffers,
    valid_values,
)
from projseg.segment_format.dictionary import narrow_id_dtype
from projseg.segment_format.logical_types import is_text
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector

# Integers in a range up to this wide, or as wide as there are rows, get `value - minimum` as id.
_DENSE_RANGE_MAX: Final = 1 << 16
# The values that occur are ranked, without hashing, in a range of at most so many for each row.
_RANKED_RANGE_A_ROW: Final = 8
_RANKED_RANGE_MAX: Final = 1 << 26
# Numbers of fewer rows are numbered soon enough; of more, a sample tells whether most differ.
_WIDE_ROWS_MIN: Final = 1 << 17
_SAMPLED_ROWS: Final = 1 << 12
_DISTINCT_SHARE_MIN: Final = 0.5
# So many texts are hashed in compiled code; fewer are sorted sooner than that is loaded.
_HASHED_TEXTS_MIN: Final = 1 << 16


class Key(msgspec.Struct, frozen=True):
    """Ids of one grouping column, below `cardinality` and null lowest.

    `distinct` has the value of each id, where each is some row's; None if there may be ids without
    a row.
    """

    ids: UnsignedIds
    cardinality: int
    values_of: Callable[[UnsignedIds], Vector]
    distinct: Vector | None = None

    def take(self, row_ids: UnsignedIds) -> Key:
        """Return the key of the rows at `row_ids`, unsigned[k], in that order."""
        return replace(self, ids=gather(self.ids, row_ids), distinct=None)


WordValues: TypeAlias = Callable[[NDArray[np.uint64], NDArray[np.bool_] | None], Vector]
"""From words[m], and where there is a value, bool[m] or None, to the `Vector` of their values."""


class WideKey(msgspec.Struct, frozen=True):
    """Values of one grouping column that nearly all differ: they are not numbered by themselves.

    Words are equal for equal values, also across vectors of the same type, and 0 for null.
    """

    words: NDArray[np.uint64]
    values_of: WordValues
    validity: NDArray[np.bool_] | None


def wide_key(vector: Vector, *, near: int = 0) -> WideKey | None:
    """Return the key of numbers that mostly differ, in no order; None for other vectors.

    Whole numbers in a range of at most `near` have none: they are numbered by their place.
    """
    if not isinstance(vector, Numbers) or len(vector) < _WIDE_ROWS_MIN:
        return None
    if not _mostly_differ(vector, near):
        return None
    values, validity = vector.values, vector.validity
    sample = _sampled(values)
    dtype, type_ = values.dtype, vector.type
    if dtype.kind == "f":
        words = float_order_keys(values).view(np.uint64)
    elif validity is None and len(sample) > 1 and (sample[1:] >= sample[:-1]).all():
        return None  # `make_key` numbers rows that ascend by runs
    else:
        words = vector.wide().view(np.uint64)
    if validity is not None:
        words = np.where(validity, words, np.uint64(0))

    def values_of(words: NDArray[np.uint64], present: NDArray[np.bool_] | None) -> Numbers:
        numbers: NDArray[Any] = words.view(np.int64)
        if dtype.kind == "f":
            numbers = float_of_order_keys(numbers).astype(dtype)
        if present is not None:
            numbers = np.where(present, numbers, numbers.dtype.type(0))
        return Numbers(numbers, type_, 0, present)

    return WideKey(words, values_of, validity)


def _mostly_differ(vector: Numbers, near: int) -> bool:
    values = vector.values
    if values.dtype in (object, WIDE) or values.dtype.itemsize < np.dtype(np.uint32).itemsize:
        return False
    sample = _sampled(values)
    if len(np.unique(sample)) < _DISTINCT_SHARE_MIN * len(sample):
        return False
    if not near or values.dtype.kind == "f":
        return True
    low, high = _bounds(values, vector.validity)
    return high - low >= near


def _sampled(values: NDArray[Any]) -> NDArray[Any]:
    return values[:: len(values) // _SAMPLED_ROWS]


def make_wide_key(vector: Vector, *, in_order: bool) -> Key | WideKey:
    """Return the key of one of several grouping columns; without an order it may have no ids."""
    return (None if in_order else wide_key(vector)) or make_key(vector, in_order=in_order)


def make_key(vector: Vector, *, in_order: bool = True, may_be_sparse: bool = False) -> Key:
    """Return the key that groups rows by `vector`.

    Ids ascend with the values if `in_order`, which costs a sort where many differ; `may_be_sparse`
    says that only some of the ids need to occur, though there are several for each row.
    """
    if isinstance(vector, Opaque):
        key = None if in_order else _text_key(vector.array)
        if key is not None:
            return key
        vector = encode_sorted(vector.array)
    if isinstance(vector, Ids):
        dictionary = vector.dictionary
        return Key(vector.ids, len(dictionary), lambda ids: Ids(ids, dictionary))
    if vector.values.dtype.kind == "f":
        return _float_key(vector, in_order=in_order)
    if vector.values.dtype in (object, WIDE):
        return _distinct_key(vector, *_distinct_wide(vector.in_halves(), in_order=in_order))
    return _integer_key(vector, in_order=in_order, may_be_sparse=may_be_sparse)


def _text_key(texts: pa.Array) -> Key | None:
    """Return the key of many texts in the order of their first rows; None if they need sorting."""
    if len(texts) < _HASHED_TEXTS_MIN or not is_text(texts.type):
        return None
    with late_import:
        from projseg.kernels.texts.text_groups import group_texts

    offsets, content = text_buffers(texts)
    found = group_texts(offsets, content)
    if found is None:
        return None
    ids, rows = found
    has_null = bool(texts.null_count)
    if has_null:
        validity = valid_values(texts)
        ids += np.uint32(1)
        ids[~validity] = 0
        # A null is hashed as the empty text, whose first row may be a null.
        is_empty = validity & (offsets[1:] == offsets[:-1])
        rows = np.where(validity[rows], rows, np.uint32(is_empty.argmax()))
        rows = np.concatenate([np.array([validity.argmin()], np.uint32), rows])

    # Of many groups few may be returned, so texts are copied when they are read.
    def values_of(group_ids: UnsignedIds) -> Opaque:
        return Opaque(texts, rows[group_ids])

    return Key(ids, len(rows), values_of)


def _integer_key(vector: Numbers, *, in_order: bool, may_be_sparse: bool) -> Key:
    values, validity = vector.values, vector.validity
    low, high = _bounds(values, validity)
    spread = high - low + 1
    may_be_ranked = spread <= min(_RANKED_RANGE_A_ROW * len(values), _RANKED_RANGE_MAX)
    is_dense = spread <= max(_DENSE_RANGE_MAX, len(values))
    if not (is_dense or (may_be_sparse and may_be_ranked)):
        runs = _runs_of(values) if validity is None else None
        if runs is not None:
            return _distinct_key(vector, *runs)
        if may_be_ranked:
            return _ranked_key(vector, low, spread)
        is_turned = in_order and values.dtype == np.int64
        keys = _ordered_bits(values) if is_turned else values.astype(np.int64, copy=False)
        ids, distinct = distinct_keys(keys.view(np.uint64), in_order=in_order)
        if is_turned:
            distinct = _ordered_bits(distinct)
        return _distinct_key(vector, ids, distinct.view(np.int64))
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


def _runs_of(values: NDArray[Any]) -> tuple[UnsignedIds, NDArray[Any]] | None:
    """Return the ids and distinct values of rows that ascend, as clustered ones do; else None."""
    if values.dtype in (np.uint32, np.int64):
        return number_runs(values)
    return None


def _ranked_key(vector: Numbers, low: int, spread: int) -> Key:
    """Return the key whose ids are the ranks of the values that occur."""
    shifted = _shifted(vector.values, low, 0, spread)
    if vector.validity is not None:
        shifted = np.where(vector.validity, shifted, shifted.dtype.type(0))
    occurs = occupied_groups(shifted, spread)
    ids = gather(ranks_of(occurs), shifted.astype(np.uint32, copy=False))
    return _distinct_key(vector, ids, np.flatnonzero(occurs) + low)


def _bounds(values: NDArray[Any], validity: NDArray[np.bool_] | None) -> tuple[int, int]:
    known = values if validity is None else values[validity]
    return (int(known.min()), int(known.max())) if len(known) else (0, 0)


def _shifted(values: NDArray[Any], low: int, shift: int, cardinality: int) -> UnsignedIds:
    """Return `values - low + shift` as ids; those of null rows mean nothing."""
    dtype = narrow_id_dtype(cardinality)
    if low == shift == 0 and values.dtype == dtype:
        return values
    if values.dtype.kind == "u" and values.dtype.itemsize >= dtype.itemsize:
        below = values.dtype.type((low - shift) % (1 << 8 * values.dtype.itemsize))
        ids: UnsignedIds = (values - below).astype(dtype, copy=False)  # modulo the width
        return ids
    above = values.astype(np.int64, copy=False) - low
    return (above + shift if shift else above).astype(dtype)


def _float_key(vector: Numbers, *, in_order: bool) -> Key:
    """Group floats by keys that are equal for equal ones, in Spark's order."""
    keys = _ordered_bits(float_order_keys(vector.values))
    ids, distinct = distinct_keys(keys, in_order=in_order)
    back = float_of_order_keys(_ordered_bits(distinct).view(np.int64))
    return _distinct_key(vector, ids, back.astype(vector.values.dtype))


def _distinct_wide(
    values: NDArray[Any], *, in_order: bool
) -> tuple[NDArray[np.uint32], NDArray[Any]]:
    """Return the position of each of WIDE[n] among the distinct ones, and those."""
    high_ids, highs = distinct_keys(_ordered_bits(values["high"]), in_order=in_order)
    low = np.ascontiguousarray(values["low"]).view(np.uint64)
    low_ids, lows = distinct_keys(low, in_order=in_order)
    low_count = np.uint64(max(len(lows), 1))
    ids, pairs = distinct_keys(high_ids * low_count + low_ids, in_order=in_order)
    distinct = np.empty(len(pairs), WIDE)
    distinct["high"] = _ordered_bits(highs[pairs // low_count]).view(np.int64)
    distinct["low"] = lows[pairs % low_count].view(np.int64)
    return ids, distinct


def _ordered_bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return int64[n] as uint64[n] of the same order; called again, it returns them."""
    return values.view(np.uint64) ^ np.uint64(1 << 63)


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

    every = Numbers(distinct, vector.type, base) if len(distinct) and not shift else None
    return Key(ids, len(distinct) + shift, values_of, every)

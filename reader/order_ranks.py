"""Positions of the first rows in a sort order, without sorting rows that are not returned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.query.bound_query import OrderTerm
from projseg.kernels.fold_extremum import INT64_MAX, INT64_MIN
from projseg.kernels.sorting import KEY_BYTES, float_order_keys, text_keys
from projseg.segment_format.arrow_arrays import (
    WIDE,
    filled_values,
    primitive_array,
    primitive_values,
    text_buffers,
    valid_values,
)
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.logical_types import arrow_to_numbers, is_fixed_width, is_text
from projseg.segment_format.page_directory import PageZones
from projseg.segment_format.vectors import Ids, Numbers, Vector
from projseg.table_layer.metadata.segment_entry import ColumnZone

Positions: TypeAlias = NDArray[np.intp] | None
Ranks: TypeAlias = NDArray[np.int64]
RanksAt: TypeAlias = Callable[[Positions, int | None], Ranks]
"""A function from ascending positions (None: all rows) to integers in the rows' sort order.

Where only the first so many of these rows are wanted, others that are not equal to one of those may
have any greater rank.
"""

_FEW_ROWS: Final = 1 << 10  # are sorted by all keys at once
_RANKED_TEXTS_MAX: Final = 1 << 10  # are ranked as soon as their first bytes are compared
_STEP_BYTES: Final = KEY_BYTES - 1  # the lowest bit of a text's key makes room for nulls
_COMPARED_BYTES: Final = 16 * _STEP_BYTES
# Of further bytes so many at a time leave room for the number of the texts that are equal so far.
_FURTHER_BYTES: Final = 4


def sorted_positions(
    criteria: Iterable[RanksAt], row_count: int, limit: int | None
) -> NDArray[np.intp]:
    """Return the first `limit` row positions in sort order, intp[k]; ties by position.

    The most significant criterion comes first; later ones rank only rows on which the earlier ones
    do not decide, and with a limit the rows that are returned.
    """
    if limit is None and row_count > _FEW_ROWS:
        return _all_positions(criteria, row_count)
    criteria = list(criteria)
    if not criteria:
        return np.arange(row_count)[:limit]
    chosen: Positions = None
    if limit is not None and 0 < limit < row_count // 4:
        decided, undecided = _first_positions(criteria, limit)
        chosen = np.sort(np.concatenate([decided, undecided[: limit - len(decided)]]))
    order = np.lexsort([criterion(chosen, None) for criterion in reversed(criteria)])
    return (order if chosen is None else chosen[order])[:limit]


def _all_positions(criteria: Iterable[RanksAt], row_count: int) -> NDArray[np.intp]:
    """Return all positions in sort order: by the first criterion, and ties by the next."""
    each = iter(criteria)
    first = next(each, None)
    if first is None:
        return np.arange(row_count)
    ranks = first(None, None)
    order = np.argsort(ranks)
    begins = _begins(ranks[order])
    for criterion in each:
        places = _tied_places(begins)
        if not len(places):
            return order
        rows = order[places]
        tied = np.sort(rows)
        ranks = np.empty(row_count, np.int64)
        ranks[tied] = criterion(tied, None)
        order[places], begins[places] = _within_ties(rows, begins[places], ranks[rows])
    places = _tied_places(begins)
    if len(places):
        rows = order[places]
        order[places], _ = _within_ties(rows, begins[places], rows)
    return order


def _begins(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where a value differs from the one before it, bool[n]."""
    return np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]


def _tied_places(begins: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the places of rows whose neighbours are equal."""
    return np.flatnonzero(~(begins & np.append(begins[1:], True)[: len(begins)]))


def _within_ties(
    rows: NDArray[np.intp], begins: NDArray[np.bool_], ranks: Ranks
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return tied rows in the order of their ranks within each tie, and where others begin."""
    ties = np.cumsum(begins)
    least, most = int(ranks.min()), int(ranks.max())
    bits = (most - least).bit_length()
    if bits + len(rows).bit_length() < 64:
        keys = ties << bits | (ranks - least)
        order = np.argsort(keys)
        return rows[order], _begins(keys[order])
    order = np.lexsort([ranks, ties])
    return rows[order], _begins(ranks[order]) | _begins(ties[order])


def _first_positions(
    criteria: Iterable[RanksAt], wanted: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the positions of rows surely among the first, and those of the ties for the rest."""
    decided: list[NDArray[np.intp]] = []
    undecided: Positions = None
    for criterion in criteria:
        ranks = criterion(undecided, wanted)
        highest = _rank_at(ranks, wanted)
        before, equal = np.flatnonzero(ranks < highest), np.flatnonzero(ranks == highest)
        decided.append(before if undecided is None else undecided[before])
        undecided = equal if undecided is None else undecided[equal]
        wanted -= len(before)
        if len(undecided) == wanted:
            break
    assert undecided is not None, "there is a criterion"
    return np.concatenate(decided), undecided


def _rank_at(ranks: Ranks, place: int) -> np.int64:
    """Return the rank at a place of the sorted ranks, counted from 1.

    A sample tells most of the others apart by one comparison; it has as many rows as it leaves.
    """
    sample = ranks[:: max(1, math.isqrt(len(ranks) // place))]
    highest = np.partition(sample, place - 1)[place - 1]
    before = ranks[ranks < highest]
    if len(before) < place:
        return np.int64(highest)  # which many rows may have
    return np.int64(np.partition(before, place - 1)[place - 1])


def term_ranks(column: pa.Array, term: OrderTerm, wanted: int | None = None) -> Ranks:
    """Return integers that ascend in the term's order, equal for equal values.

    NaN is the greatest value; nulls come where the term says. Where only the first `wanted` values
    and their equals are asked for, others may have any greater rank.
    """
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if is_fixed_width(column.type):
        ranks = number_ranks(*arrow_to_numbers(column), term)
        if ranks is not None:
            return ranks
    is_many = wanted is not None and max(_RANKED_TEXTS_MAX, 4 * wanted) < len(column)
    if wanted is not None and is_many and is_text(column.type):
        return _ranks_of_first_texts(column, term, wanted)
    order = "descending" if term.is_descending else "ascending"
    ranks = primitive_values(pc.rank(column, sort_keys=order, tiebreaker="dense")).astype(np.int64)
    if column.null_count:
        beyond = len(ranks) + 1
        ranks[primitive_values(column.is_null())] = -beyond if term.nulls_first else beyond
    return ranks


def ranks_of(column: pa.Array, term: OrderTerm) -> Iterator[RanksAt]:
    """Yield criteria that order a column's values in a term's order, where all rows are ordered.

    Of many texts they rank some bytes after others, and last the length.
    """
    if len(column) <= _RANKED_TEXTS_MAX or not is_text(column.type):
        yield partial(taken_ranks, column, term)
        return
    yield partial(_ranks_of_bytes, column, term, 0)
    lengths = pc.binary_length(column)
    longest = pc.max(lengths).as_py() or 0
    for start in range(_STEP_BYTES, min(longest, _COMPARED_BYTES), _FURTHER_BYTES):
        yield partial(_ranks_of_further_bytes, column, term, start)
    if longest > _COMPARED_BYTES:
        yield partial(taken_ranks, column, term)
    else:  # of texts whose bytes are equal, or zeros, the shorter is less
        yield partial(taken_ranks, pc.fill_null(lengths, 0), term)


def taken_ranks(
    column: pa.Array, term: OrderTerm, positions: Positions, wanted: int | None
) -> Ranks:
    """Rank the values of a column at some positions, as a `RanksAt` does."""
    return term_ranks(_values_at(column, positions), term, wanted)


def _ranks_of_bytes(
    texts: pa.Array, term: OrderTerm, start: int, positions: Positions, _: int | None
) -> Ranks:
    some = _values_at(texts, positions)
    keys = text_keys(*text_buffers(some), start) >> 1
    ranks = number_ranks(keys, valid_values(some), term)
    assert ranks is not None, "there is room for nulls"
    return ranks


def _ranks_of_further_bytes(
    texts: pa.Array, term: OrderTerm, start: int, positions: Positions, _: int | None
) -> Ranks:
    """Return ranks of texts that are null together."""
    keys = text_keys(*text_buffers(_values_at(texts, positions)), start)
    ranks = keys >> 8 * (KEY_BYTES - _FURTHER_BYTES)
    return ~ranks if term.is_descending else ranks


def _values_at(column: pa.Array, positions: Positions) -> pa.Array:
    return column if positions is None else column.take(primitive_array(positions))


def _ranks_of_first_texts(texts: pa.Array, term: OrderTerm, wanted: int) -> Ranks:
    """Return `term_ranks` of texts: some bytes tell most of them from the first."""
    criteria = (
        partial(_ranks_of_bytes, texts, term, start)
        for start in range(0, _COMPARED_BYTES, _STEP_BYTES)
    )
    found = np.concatenate(_first_positions(criteria, wanted))
    ranks = np.full(len(texts), INT64_MAX)
    ranks[found] = term_ranks(texts.take(primitive_array(found)), term)
    return ranks


def number_ranks(
    values: NDArray[Any], validity: NDArray[np.bool_] | None, term: OrderTerm
) -> Ranks | None:
    """Return `term_ranks` of numbers; None if 64 bits do not hold them and a place for nulls."""
    if values.dtype in (object, WIDE):
        return None
    ascending = float_order_keys(values) if values.dtype.kind == "f" else values
    ranks = ~ascending if term.is_descending else ascending
    if validity is None or validity.all():
        return ranks
    if ranks.min() == INT64_MIN or ranks.max() == INT64_MAX:
        return None
    return np.where(validity, ranks, INT64_MIN if term.nulls_first else INT64_MAX)


def key_ranks(vector: Vector, term: OrderTerm, wanted: int | None = None) -> Ranks:
    """Return `term_ranks` of a column whose ids ascend with values."""
    if isinstance(vector, Ids):
        return _id_ranks(vector, term)
    if isinstance(vector, Numbers):
        ranks = number_ranks(vector.wide(), vector.validity, term)
        if ranks is not None:
            return ranks
    return term_ranks(vector.to_arrow(), term, wanted)


def stored_ranks(vector: Vector) -> NDArray[Any] | None:
    """Return numbers that ascend with a column, nulls lowest, as it is stored; None if none do."""
    if isinstance(vector, Ids):
        return vector.ids
    is_plain = isinstance(vector, Numbers) and vector.validity is None
    is_ordered = is_plain and isinstance(vector, Numbers) and vector.values.dtype.kind in "iu"
    return vector.values if is_ordered and isinstance(vector, Numbers) else None


def _id_ranks(vector: Ids, term: OrderTerm) -> Ranks:
    ranks = vector.ids.astype(np.int64)
    if term.is_descending:
        np.invert(ranks, out=ranks)
    if vector.dictionary.has_null and term.nulls_first == term.is_descending:
        ranks[vector.ids == 0] = INT64_MIN if term.nulls_first else INT64_MAX
    return ranks


class Bound:
    """A value, array[1], of one term of an order, to which others are compared."""

    def __init__(self, term: OrderTerm, value: pa.Array) -> None:
        self._term, self._value = term, value
        self._is_null = bool(value.null_count)
        self._rank = self._own_rank()
        self._split: dict[int, tuple[Dictionary, int, bool]] = {}

    def compare(self, vector: Vector) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which values come before it and which are equal, bool[n] each."""
        if isinstance(vector, Ids):
            is_value = vector.ids != 0 if vector.dictionary.has_null else None
            rank, is_there = self._rank_in(vector.dictionary)
            is_before, is_equal = self._compare_integers(vector.ids, rank, is_value)
            return is_before, is_equal if is_there else np.zeros(len(vector), np.bool_)
        if self._rank is not None and isinstance(vector, Numbers):
            if vector.values.dtype.kind in "iu":
                return self._compare_integers(
                    vector.values, self._rank, vector.validity, vector.base
                )
            numbers = number_ranks(vector.wide(), vector.validity, self._term)
            if numbers is not None:
                return numbers < self._rank, numbers == self._rank
        return self._compare_arrow(vector.to_arrow())

    def _compare_integers(
        self,
        values: NDArray[Any],
        rank: int,
        validity: NDArray[np.bool_] | None,
        base: int = 0,
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Compare integers as they are stored, in few bytes, to one less a base."""
        term = self._term
        if self._is_null:
            is_value = np.ones(len(values), np.bool_) if validity is None else validity
            return is_value & (not term.nulls_first), ~is_value
        place = (~rank if term.is_descending else rank) - base
        is_before = values > place if term.is_descending else values < place
        is_equal = values == place
        if validity is None:
            return is_before, is_equal
        is_before = is_before | ~validity if term.nulls_first else is_before & validity
        return is_before, is_equal & validity

    def greatest_rank(self, dictionary: Dictionary | None) -> tuple[int, bool]:
        """Return the greatest rank, by `key_ranks`, of values not after it, and if it has it."""
        if dictionary is None:
            return (INT64_MAX, False) if self._rank is None else (self._rank, True)
        rank, is_there = self._rank_in(dictionary)
        return rank if is_there else max(rank - 1, INT64_MIN), is_there

    def is_before_best(self, best: tuple[Any] | None) -> bool:
        """Whether it comes before all rows of a segment, by `best_of_segment`."""
        if best is None:
            return False
        if best[0] is None:
            return not self._term.nulls_first and not self._is_null
        if self._is_null:
            return self._term.nulls_first
        own = _stored(self._value)
        return bool(best[0] < own if self._term.is_descending else best[0] > own)

    def _own_rank(self) -> int | None:
        """Return the rank of a fixed-width value; None for other values."""
        if not is_fixed_width(self._value.type):
            return None
        ranks = number_ranks(*arrow_to_numbers(self._value), self._term)
        return None if ranks is None else int(ranks[0])

    def _rank_in(self, dictionary: Dictionary) -> tuple[int, bool]:
        """Return the least rank in a dictionary that does not come before it, and if it is its."""
        known = self._split.get(id(dictionary))
        if known is None:  # the dictionary is held, as another may get the id of one that is gone
            known = self._split[id(dictionary)] = (dictionary, *self._split_of(dictionary))
        return known[1:]

    def _split_of(self, dictionary: Dictionary) -> tuple[int, bool]:
        term = self._term
        if self._is_null:
            if not dictionary.has_null or term.nulls_first == term.is_descending:
                return (INT64_MIN if term.nulls_first else INT64_MAX), dictionary.has_null
            return (~0 if term.is_descending else 0), True
        place, is_there = dictionary.place_of(self._value)
        if not term.is_descending:
            return place, is_there
        return ~place + (not is_there), is_there

    def _compare_arrow(self, values: pa.Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        term = self._term
        is_null = filled_values(values.is_null(), False)
        if self._is_null:
            return np.zeros(len(values), np.bool_) if term.nulls_first else ~is_null, is_null
        comes_before = pc.greater if term.is_descending else pc.less
        is_before = filled_values(comes_before(values, self._value[0]), False)
        if term.nulls_first:
            is_before = is_before | is_null
        return is_before, filled_values(pc.equal(values, self._value[0]), False)


def best_of_segment(zone: ColumnZone | None, row_count: int, term: OrderTerm) -> tuple[Any] | None:
    """Return (a stored value that no value of a segment's column precedes,), or None if unknown.

    A None in the tuple is the null; without a zone, the segment lacks the column.
    """
    if zone is None or zone.null_count == row_count or (zone.null_count and term.nulls_first):
        return (None,)
    best = zone.max if term.is_descending else zone.min
    if best is None or (term.is_descending and zone.has_nan):
        return None
    return (float(best) if pa.types.is_floating(term.expression.type) else best,)


def best_of_pages(
    zones: PageZones, dictionary: Dictionary | None, term: OrderTerm
) -> NDArray[np.int64]:
    """Return a rank, by `key_ranks`, that no value of a page comes before, int64[pages]."""
    ends = zones.maximum if term.is_descending else zones.minimum
    ends = float_order_keys(ends) if ends.dtype.kind == "f" else ends
    ranks = ~ends if term.is_descending else ends
    is_unknown = ~zones.has_bounds
    if dictionary is None:
        is_unknown = is_unknown | (zones.null_count > 0) & term.nulls_first
        is_unknown |= zones.has_nan & term.is_descending | zones.holds_wide()
    elif dictionary.has_null and term.nulls_first:
        is_unknown = is_unknown | (zones.minimum == 0)
    return np.where(is_unknown, INT64_MIN, ranks)


def _stored(value: pa.Array) -> Any:
    """Return a value as a manifest stores bounds."""
    if is_fixed_width(value.type):
        number = arrow_to_numbers(value)[0][0]
        return number.item() if isinstance(number, np.generic) else number
    found = value[0].as_py()
    return found.hex() if isinstance(found, bytes) else found

"""Rows in the order of a scan: ranges that may hold the first, and those found so far.

Ranges of a source come first that may hold the first rows; rows found have a place and the values
that they are ordered by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.query.bound_query import OrderTerm
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.rows import RowRange, Rows
from projseg.kernels.fold_extremum import INT64_MIN
from projseg.reader.open_sources import cut, rows_at_a_time
from projseg.reader.order_ranks import (
    Bound,
    Positions,
    Ranks,
    best_of_pages,
    key_ranks,
    sorted_positions,
    taken_ranks,
)
from projseg.reader.segment_source import SegmentSource, row_numbers
from projseg.segment_format.arrow_arrays import primitive_array
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.format_limits import PAGE_ROWS_MAX

# Rows whose bounds are compared together, and of which one step is made while no bound is known.
_RANGE_ROWS: Final = 2 * PAGE_ROWS_MAX
# Neighbouring ranges that are one step later: each step costs Python, and little else.
_RANGES_JOINED: Final = 8
# Rows of the first step, which finds a bound, at least; and for each row that is wanted.
_FIRST_ROWS: Final = 1 << 13
_FIRST_ROWS_A_ROW: Final = 1 << 8


class OrderedRanges:
    """The rows of one source in ranges, by the zone maps of the keys of an order."""

    def __init__(
        self, opened: SegmentSource, keys: Sequence[Expression], terms: Sequence[OrderTerm]
    ) -> None:
        self._opened, self._keys, self._terms = opened, keys, terms
        self._dictionaries: list[Dictionary | None] = []

    @property
    def is_stored(self) -> bool:
        """Whether the rows ascend, or descend, in the order's first key, nulls lowest."""
        key, first = self._keys[0], self._terms[0]
        is_plain = first.nulls_first != first.is_descending
        return is_plain and isinstance(key, Column) and self._opened.is_sorted_by(key.name)

    def within(
        self,
        rows: RowRange,
        names: set[str],
        limit: int,
        last: Callable[[], Sequence[Bound] | None],
    ) -> Iterator[RowRange]:
        """Yield ranges in turn, until no other row may come before the bound.

        `last` returns the bound before each range: the last of the rows read so far, once they are
        `limit`.
        """
        together = min(rows_at_a_time(self._opened, names) or _RANGE_ROWS, _RANGE_ROWS)
        ranges = list(cut(rows, together, self._opened, names))
        bests = self._bests(ranges)
        rest = sorted(zip(bests, ranges, strict=True), key=lambda one: (one[0], one[1].start))
        if last() is None:
            best, first = rest[0]
            few = max(_FIRST_ROWS, _FIRST_ROWS_A_ROW * limit)
            rest[:1] = [(best, part) for part in self._split(first, few) if part]
        # Batches that keep memory small stay as they are.
        may_join = together == _RANGE_ROWS and not any(map(self._opened.is_opaque, names))
        joined = 1
        while rest:
            best, one = rest[0]
            behind = self._behind(last())
            if best > behind or (self._best_stored(one),) > behind:
                return
            one = _with_neighbours(one, [part for best, part in rest if best <= behind], joined)
            rest = [part for part in rest if not one.start <= part[1].start < one.end]
            yield one
            joined = _RANGES_JOINED if may_join else 1

    def _bests(self, ranges: Sequence[RowRange]) -> list[tuple[int, ...]]:
        """Return the best ranks of ranges, of as many leading keys as have zone maps."""
        bests = []
        for key, term in zip(self._keys, self._terms, strict=True):
            zones = self._opened.zones(key.name) if isinstance(key, Column) else None
            if zones is None or not isinstance(key, Column):
                break
            self._dictionaries.append(self._opened.dictionary(key.name))
            of_pages = best_of_pages(zones, self._dictionaries[-1], term)
            bests.append(_bests_of(of_pages, zones.row_starts, ranges))
        return list(zip(*bests, strict=True)) if bests else [()] * len(ranges)

    def _behind(self, last: Sequence[Bound] | None) -> tuple[float, ...]:
        """Return the ranks that the bests of a range exceed if all its rows are behind a bound."""
        ranks: list[float] = []
        for bound, dictionary in zip(last or (), self._dictionaries, strict=False):
            rank, is_own = bound.greatest_rank(dictionary)
            ranks.append(rank)
            if not is_own:  # so what has this rank comes before it, whatever follows
                break
        return (*ranks, math.inf)

    def _split(self, rows: RowRange, few: int) -> tuple[RowRange, RowRange]:
        """Cut some rows into a few of the best, if they are stored by the first key, and others."""
        if self._terms[0].is_descending and self.is_stored:
            middle = max(rows.end - few, rows.start)
            return RowRange(middle, rows.end), RowRange(rows.start, middle)
        middle = min(rows.start + few, rows.end)
        return RowRange(rows.start, middle), RowRange(middle, rows.end)

    def _best_stored(self, rows: RowRange) -> int:
        """Return the best rank of some rows that are stored by the first key."""
        if not self.is_stored:
            return INT64_MIN
        row = rows.end - 1 if self._terms[0].is_descending else rows.start
        one = Rows(self._opened, RowRange(row, row + 1))
        return int(key_ranks(evaluate_over(self._keys[0], one), self._terms[0])[0])


def _bests_of(
    of_pages: NDArray[np.int64], starts: NDArray[np.integer[Any]], ranges: Sequence[RowRange]
) -> list[int]:
    """Return the best of the pages that hold each of some ranges."""
    firsts = np.searchsorted(starts, [one.start for one in ranges], side="right") - 1
    ends = np.searchsorted(starts, [one.end for one in ranges], side="left")
    return [int(of_pages[a:b].min()) for a, b in zip(firsts, ends, strict=True)]


def _with_neighbours(one: RowRange, parts: Sequence[RowRange], most: int) -> RowRange:
    """Return a range and neighbouring parts, at most `most` ranges together."""
    starts, ends = {part.start: part for part in parts}, {part.end: part for part in parts}
    for _ in range(most - 1):
        part = starts.get(one.end) or ends.get(one.start)
        if part is None:
            break
        one = RowRange(min(one.start, part.start), max(one.end, part.end))
    return one


class FoundRows(msgspec.Struct, frozen=True):
    """Rows of several sources that may be among the first: their keys, sources and row ids.

    `base_rows` are their positions among the base rows of the segment.
    """

    keys: list[pa.Array]
    numbers: NDArray[np.uint32]
    row_ids: NDArray[np.uint32]
    base_rows: NDArray[np.int64] | NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def of(
        cls, rows: Rows, keys: Sequence[Expression], number: int, *, needs_row_numbers: bool
    ) -> FoundRows:
        """Return rows of the source of a number; `needs_row_numbers` comes from its plan."""
        selection = rows.selection
        if isinstance(selection, RowRange):
            row_ids = np.arange(selection.start, selection.end, dtype=np.uint32)
        else:
            row_ids = selection.ids
        return cls(
            [evaluate_over(key, rows).to_arrow() for key in keys],
            np.full(len(rows), number, np.uint32),
            row_ids,
            row_numbers(rows) if needs_row_numbers else row_ids,
        )

    @classmethod
    def joined(cls, several: Sequence[FoundRows]) -> FoundRows:
        """Return the rows of all, at least one, in order."""
        columns = zip(*(some.keys for some in several), strict=True)
        return cls(
            [pa.concat_arrays(column) for column in columns],
            np.concatenate([some.numbers for some in several]),
            np.concatenate([some.row_ids for some in several]),
            np.concatenate([some.base_rows for some in several]),
        )

    def rows_at(self, chosen: NDArray[Any]) -> FoundRows:
        """Return the rows at some positions, in that order."""
        wanted = primitive_array(chosen)
        return FoundRows(
            [key.take(wanted) for key in self.keys],
            self.numbers[chosen],
            self.row_ids[chosen],
            self.base_rows[chosen],
        )

    def first(self, terms: Sequence[OrderTerm], limit: int) -> FoundRows:
        """Return the first `limit` rows by their keys, source and base row."""

        def as_ranks(values: NDArray[Any], positions: Positions, _: int | None) -> Ranks:
            return (values if positions is None else values[positions]).astype(np.int64)

        criteria = [partial(taken_ranks, *one) for one in zip(self.keys, terms, strict=True)]
        places = [partial(as_ranks, values) for values in (self.numbers, self.base_rows)]
        return self.rows_at(sorted_positions([*criteria, *places], len(self), limit))

"""Rows that may be among the first of a scan: where they stand, and what they are ordered by."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.tree import Expression
from projseg.algebra.query.bound_query import OrderTerm
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.rows import RowRange, Rows
from projseg.reader.run.order_ranks import Positions, Ranks, sorted_positions, term_ranks
from projseg.reader.sources.segment_source import row_numbers
from projseg.segment_format.vectors.arrow_arrays import primitive_array


class FoundRows(msgspec.Struct, frozen=True):
    """Rows of several sources that may be among the first: their keys, sources and row ids.

    Parameters
    ----------
    keys : list of pa.Array[n]
        In the order's terms.
    numbers : uint32[n]
        Of the source.
    row_ids : uint32[n]
        Within it.
    base_rows : integer[n]
        Which base rows of the segment they are.
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
        """Return rows of the source of a number; `needs_row_numbers` as of its plan."""
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

    def taken(self, chosen: NDArray[Any]) -> FoundRows:
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

        def ranks_of(
            key: pa.Array, term: OrderTerm, positions: Positions, wanted: int | None
        ) -> Ranks:
            some = key if positions is None else key.take(primitive_array(positions))
            return term_ranks(some, term, wanted)

        def as_ranks(values: NDArray[Any], positions: Positions, _: int | None) -> Ranks:
            return (values if positions is None else values[positions]).astype(np.int64)

        criteria = [partial(ranks_of, *one) for one in zip(self.keys, terms, strict=True)]
        places = [partial(as_ranks, values) for values in (self.numbers, self.base_rows)]
        return self.taken(sorted_positions([*criteria, *places], len(self), limit))

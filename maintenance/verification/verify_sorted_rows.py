"""Check stored projections of rows: their order, and every row against the base row that it is.

Base rows are evaluated in batches. Memory is that of a batch and of one column of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.aggregates.state_columns import ROW_NUMBER, stored_column
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.errors import ProjsegError
from projseg.evaluation.arrow_vectors import concat_vectors
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import RowRange
from projseg.maintenance.rewrite.uncached_segment import BATCH_ROWS, PagedSource
from projseg.maintenance.verification.verify_columns import first_descent
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import Role, TableEntry
from projseg.segment_format.format_limits import PAGE_ROWS_MAX
from projseg.segment_format.vectors import Ids, Numbers, Vector
from projseg.table_layer.commits.footer_match import Mismatch
from projseg.writer.segment_contents import row_numbers
from projseg.writer.sort_order import sort_keys

Places = NDArray[np.int64]


def sorted_rows_mismatches(
    base: PagedSource, table: TableEntry, spec: ProjectionSpec
) -> Iterator[Mismatch]:
    """Yield where a stored projection of rows is not in its order, or differs from base rows."""
    stored = _StoredRows(base.segment, table)
    yield from _order_mismatches(stored, spec)
    seen = 0
    try:
        for batch in base.batches():
            assert isinstance(batch.selection, RowRange)
            rows = filter_rows(batch, spec.filter)
            places, numbers = stored.places_of(batch.selection)
            seen += len(places)
            by_number = np.argsort(numbers, kind="stable")
            if not np.array_equal(numbers[by_number], row_numbers(rows)):
                where = f"base rows {batch.selection.start} to {batch.selection.end - 1}"
                yield Mismatch(f"{where} in the projection", len(rows), "others, or some twice")
                return
            for named in spec.grouping:
                name = stored_column(named.expression).name
                found = stored.values_at("grouping", name, places).take(by_number)
                row = _first_difference(found, evaluate_over(named.expression, rows))
                if row is not None:
                    what = f"column '{name}', row {int(places[by_number[row[0]]])}"
                    yield Mismatch(what, row[1], f"{row[2]} in the base table")
                    return
    except (ProjsegError, ArithmeticError) as error:
        yield Mismatch("recomputation", f"{table.row_count} rows", str(error))
        return
    if seen != table.row_count:
        yield Mismatch("rows that are base rows", table.row_count, seen)


class _StoredRows:
    """A stored projection of rows, read some pages at a time."""

    def __init__(self, segment: SegmentFile, table: TableEntry) -> None:
        self._segment, self._table = segment, table
        self.row_count = table.row_count

    def places_of(self, base_rows: RowRange) -> tuple[Places, Places]:
        """Return the rows that are some base rows, ascending, and the numbers of these."""
        directory = self._segment.directory(self._table.name, "state", ROW_NUMBER)
        low, high = directory.records["minimum"], directory.records["maximum"]
        may_match = (high >= base_rows.start) & (low < base_rows.end)
        places, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for page in np.flatnonzero(may_match).tolist():
            vector = self._segment.column(self._table.name, "state", ROW_NUMBER, page, page + 1)
            assert isinstance(vector, Numbers), "proved when the file was opened"
            numbers = vector.wide()
            hits = np.flatnonzero((numbers >= base_rows.start) & (numbers < base_rows.end))
            places.append(hits + int(directory.row_starts[page]))
            found.append(numbers[hits])
        return np.concatenate(places), np.concatenate(found)

    def values_at(self, role: Role, name: str, places: Places) -> Vector:
        """Return a column at some rows, ascending."""
        starts = self._segment.directory(self._table.name, role, name).row_starts
        pages = np.searchsorted(starts, places, side="right") - 1
        pieces = [
            self._segment.column(self._table.name, role, name, page, page + 1).take(
                places[pages == page] - int(starts[page])
            )
            for page in np.unique(pages).tolist()
        ]
        return (
            concat_vectors(pieces)
            if pieces
            else self._segment.column(self._table.name, role, name, 0, 0)
        )

    def sort_keys(self, role: Role, name: str, first: int, end: int) -> list[NDArray[Any]] | None:
        """Return what rows [first, end) of a column sort by, None if it has no order."""
        vector = self.values_at(role, name, np.arange(first, end))
        return sort_keys(vector) if isinstance(vector, Ids | Numbers) else None


def _order_mismatches(stored: _StoredRows, spec: ProjectionSpec) -> Iterator[Mismatch]:
    keys: list[tuple[Role, str]] = [("grouping", name) for name in spec.stored_order]
    keys.append(("state", ROW_NUMBER))
    for start in range(0, stored.row_count, BATCH_ROWS):
        first, end = max(start - 1, 0), min(start + BATCH_ROWS, stored.row_count)
        columns: list[NDArray[Any]] = []
        for role, name in keys:
            values = stored.sort_keys(role, name, first, end)
            if values is None:
                yield Mismatch("sort order", spec.stored_order, f"'{name}' has no order")
                return
            columns += values
        descent = first_descent(columns)
        if descent is not None:
            what = f"rows sorted by {', '.join(spec.stored_order)}"
            yield Mismatch(what, "ascending", f"row {first + descent}")
            return


def _first_difference(stored: Vector, wanted: Vector) -> tuple[int, str, str] | None:
    """Return (row, stored, wanted) of the first row on which two columns differ, to the bit."""
    for start in range(0, len(stored), PAGE_ROWS_MAX):
        end = min(start + PAGE_ROWS_MAX, len(stored))
        left, right = (_comparable(vector.slice(start, end)) for vector in (stored, wanted))
        if left.equals(right):
            continue
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            # A NaN within a nested value is not equal to itself.
            if not one.equals(other) and str(one) != str(other):
                return start + index, str(one), str(other)
    return None


def _comparable(vector: Vector) -> pa.Array:
    """Return a column as Arrow has it, floats as the integers of their bits."""
    array = vector.to_arrow()
    if not pa.types.is_floating(array.type):
        return array
    return array.view(pa.int64() if array.type == pa.float64() else pa.int32())

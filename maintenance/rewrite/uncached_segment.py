"""A segment read past every cache, for work that passes over it once: by column or in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from projseg.evaluation.rows import RowRange, Rows
from projseg.reader.segment_source import null_vector
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE, Role
from projseg.segment_format.format_limits import PAGE_ROWS_MAX
from projseg.segment_format.vectors import Vector
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.table_layer.renamed_columns import viewed


@dataclass(frozen=True, slots=True)
class UncachedColumns:
    """One table of a segment as a source of whole columns, each decoded once and then held.

    Parameters
    ----------
    segment : SegmentFile
        The open file.
    table : str
        `__base`, or the name of a stored projection.
    schema : TableSchema
        The table's under stored names: a base column may have an earlier one in the segment, and
        one that the segment lacks is null.
    """

    segment: SegmentFile
    table: str
    schema: TableSchema
    _held: dict[tuple[Role, str], Vector] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        """Number of rows of the table."""
        return self.segment.table(self.table).row_count

    def vector(self, name: str, *, is_state: bool = False) -> Vector:
        """Return a whole column."""
        role: Role = "base" if self.table == BASE_TABLE else "state" if is_state else "grouping"
        if (role, name) not in self._held:
            self._held[role, name] = self.read(role, name)
        return self._held[role, name]

    def read(self, role: Role, name: str) -> Vector:
        """Return a whole column without holding it."""
        if role != "base":
            return self.segment.column(self.table, role, name)
        base = viewed(self.segment, self.schema)
        if not base.has_column(self.table, role, name):
            return null_vector(self.schema.field(name).type, self.row_count)
        return base.column(self.table, role, name)

    def vector_of_rows(
        self, name: str, row_ids: NDArray[np.uint32], *, is_state: bool = False
    ) -> Vector:
        """Return a column at `row_ids`, uint32[n]."""
        return self.vector(name, is_state=is_state).take(row_ids)

    def vector_of_range(self, name: str, first: int, end: int, *, is_state: bool = False) -> Vector:
        """Return the rows [first, end) of a column."""
        return self.vector(name, is_state=is_state).slice(first, end)


BATCH_ROWS: Final = 16 * PAGE_ROWS_MAX


@dataclass(frozen=True, slots=True)
class PagedSource:
    """The base table of a segment; every page is read and decoded each time it is asked for.

    Parameters
    ----------
    segment : SegmentFile
        The open file.
    schema : TableSchema
        The table's, with the types of columns that the segment lacks: those are null.
    """

    segment: SegmentFile
    schema: TableSchema

    @property
    def row_count(self) -> int:
        """Number of base rows."""
        return self.segment.tables[0].row_count

    def batches(self) -> Iterator[Rows]:
        """Yield all rows, at most `BATCH_ROWS` at a time."""
        for start in range(0, self.row_count, BATCH_ROWS):
            yield Rows(self, RowRange(start, min(start + BATCH_ROWS, self.row_count)))

    def vector(self, name: str, *, is_state: bool = False) -> Vector:
        """Return a whole column."""
        return self.vector_of_range(name, 0, self.row_count, is_state=is_state)

    def vector_of_rows(
        self, name: str, row_ids: NDArray[np.uint32], *, is_state: bool = False
    ) -> Vector:
        """Return a column at `row_ids`, uint32[k] ascending."""
        if len(row_ids) == 0:
            return self.vector_of_range(name, 0, 0, is_state=is_state)
        first, end = int(row_ids[0]), int(row_ids[-1]) + 1
        vector = self.vector_of_range(name, first, end, is_state=is_state)
        return vector.take(row_ids - np.uint32(first))

    def vector_of_range(self, name: str, first: int, end: int, *, is_state: bool = False) -> Vector:
        """Return the rows [first, end) of a column."""
        del is_state  # base tables have no states
        base = viewed(self.segment, self.schema)
        if not base.has_column(BASE_TABLE, "base", name):
            return null_vector(self.schema.field(name).type, end - first)
        starts = base.directory(BASE_TABLE, "base", name).row_starts
        first_page = int(np.searchsorted(starts, first, side="right")) - 1
        page_end = int(np.searchsorted(starts, end, side="left"))
        pages = base.column(BASE_TABLE, "base", name, first_page, page_end)
        offset = int(starts[first_page])
        return pages.slice(first - offset, end - offset)

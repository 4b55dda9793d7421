"""Whole columns of a segment that is read past every cache, for work that passes over it once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from projseg.reader.sources.segment_source import null_vector
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.layout.footer import BASE_TABLE, Role
from projseg.segment_format.vectors.vectors import Vector
from projseg.table_layer.columns.renamed_columns import viewed
from projseg.table_layer.metadata.table_schema import TableSchema


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

"""What a finished segment file is: its sizes, and the checksum of its footer."""

from __future__ import annotations

from dataclasses import dataclass

from projseg.segment_format.layout.footer import Role


@dataclass(frozen=True)
class TableSummary:
    """Sizes of a table of a finished segment: pages and bitmap indexes, without dictionaries.

    `column_bytes` are the bytes of each column's pages, by (role, name).
    """

    name: str
    row_count: int
    byte_count: int
    column_bytes: dict[tuple[Role, str], int]


@dataclass(frozen=True)
class SegmentSummary:
    """What a manifest entry needs of a finished segment. `footer_checksum` is the tail's."""

    byte_count: int
    footer_checksum: int
    tables: tuple[TableSummary, ...]

    def table(self, name: str) -> TableSummary:
        """Return the summary of the table of that name."""
        return next(table for table in self.tables if table.name == name)

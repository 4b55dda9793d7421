"""One table of a segment under other column names, with some columns in wider types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from projseg.memory.cache import Owner
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import ColumnEntry, Role
from projseg.segment_format.footer_checks import ReadRange
from projseg.segment_format.indexes.bitmap_index import BitmapIndex
from projseg.segment_format.logical_types import parse_type_name
from projseg.segment_format.page_directory import (
    PageDirectory,
    PageZones,
    keeps_ids,
    widened,
    widened_dictionary,
    widened_zones,
)
from projseg.segment_format.vectors import Vector

Find = Callable[[Role, str], tuple[str, pa.DataType] | None]
"""From role and name to the stored name, and to the type that the values are wanted in."""


@dataclass(frozen=True, slots=True)
class ColumnView:
    """What `SegmentFile` offers of the columns of one table, by names that the file does not know.

    `find` returns where a column is stored; None if it does not exist.
    """

    file: SegmentFile
    find: Find

    @property
    def owner(self) -> Owner | None:
        """The file's cache entry, to which its cached parts belong."""
        return self.file.owner

    @property
    def byte_count(self) -> int:
        """The size of the file."""
        return self.file.byte_count

    @property
    def read_range(self) -> ReadRange:
        """The file's reads."""
        return self.file.read_range

    def ranges_of(
        self, table: str, role: Role, name: str, first_page: int, page_end: int
    ) -> list[tuple[int, int]]:
        """Return (offset, size) of each read that decoding pages of a column takes."""
        return self.file.ranges_of(table, role, self.stored_name(role, name), first_page, page_end)

    def key_of(self, table: str, role: Role, name: str) -> tuple[str, ...]:
        """Return a key that no other column has, of any file and in any type."""
        stored, wide = self._wide(table, role, name)
        key = (self.file.path, table, role, stored)
        return key if wide is None else (*key, str(wide))

    def has_column(self, table: str, role: Role, name: str) -> bool:
        """Whether the table holds such a column."""
        known = self.find(role, name)
        return known is not None and self.file.has_column(table, role, known[0])

    def is_sorted_by(self, table: str, role: Role, name: str) -> bool:
        """Whether a table's rows ascend by a column, nulls first."""
        return self.file.is_sorted_by(table, role, self.stored_name(role, name))

    def value_bytes(self, table: str, role: Role, name: str) -> int:
        """Return the approximate bytes of one decoded row of a column."""
        return self.file.value_bytes(table, role, self.stored_name(role, name))

    def column(
        self, table: str, role: Role, name: str, first_page: int = 0, page_end: int | None = None
    ) -> Vector:
        """Decode pages [first_page, page_end) of a column into one vector."""
        stored, wide = self._wide(table, role, name)
        vector = self.file.column(table, role, stored, first_page, page_end)
        return vector if wide is None else widened(vector, wide)

    def directory(self, table: str, role: Role, name: str) -> PageDirectory:
        """Return the proved page directory of a column."""
        return self.file.directory(table, role, self.stored_name(role, name))

    def page_zones(self, table: str, role: Role, name: str) -> PageZones | None:
        """Return the zone maps of a column's pages; None if they do not fit the wider type."""
        stored, wide = self._wide(table, role, name)
        zones = self.file.page_zones(table, role, stored)
        if wide is None:
            return zones
        if self.file.column_entry(table, role, stored).kind == "ids":
            return zones if keeps_ids(wide) else None
        return widened_zones(zones, wide)

    def column_entry(self, table: str, role: Role, name: str) -> ColumnEntry:
        """Return the directory entry of a column."""
        return self.file.column_entry(table, role, self.stored_name(role, name))

    def column_dictionary(self, table: str, role: Role, name: str) -> Dictionary | None:
        """Return the dictionary of a column's ids; None if it is not read as ids."""
        stored, wide = self._wide(table, role, name)
        dictionary = self.file.column_dictionary(table, role, stored)
        if wide is None or dictionary is None:
            return dictionary
        return widened_dictionary(dictionary, wide) if keeps_ids(wide) else None

    def bitmap_index(self, table: str, role: Role, name: str) -> BitmapIndex | None:
        """Return the bitmap index of a column, or None where there is none for its ids."""
        stored, wide = self._wide(table, role, name)
        if wide is not None and not keeps_ids(wide):
            return None
        return self.file.bitmap_index(table, role, stored)

    def stored_name(self, role: Role, name: str) -> str:
        """Return the file's name of a column that is there."""
        known = self.find(role, name)
        assert known is not None, f"'{name}' was looked for before"
        return known[0]

    def _wide(self, table: str, role: Role, name: str) -> tuple[str, pa.DataType | None]:
        """Return a column's stored name, and its type here if that is not the stored one."""
        known = self.find(role, name)
        assert known is not None, f"'{name}' was looked for before"
        stored, wanted = known
        found = parse_type_name(self.file.column_entry(table, role, stored).type)
        return stored, None if found == wanted else wanted

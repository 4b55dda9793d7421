"""The base rows of a foreign entry, offered as a segment file offers its base table.

Row groups stand for pages. Columns are by the table's names and in its types; one that the file
lacks is missing, as one that was added to a table is in old segments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from projseg.memory.cache import KEPT, Owner
from projseg.segment_format.footer import ColumnEntry, Role
from projseg.segment_format.logical_types import is_fixed_width, type_name
from projseg.segment_format.page_directory import PageZones
from projseg.segment_format.vectors import Vector
from projseg.table_layer.foreign.parquet_file import ParquetRows, proved_footer
from projseg.table_layer.foreign.source_files import ListedFile, source_changed
from projseg.table_layer.metadata.segment_entry import ForeignFile, SegmentEntry
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.table_layer.storage.storage_contract import Storage
from projseg.table_layer.storage.store_location import NO_OPTIONS, StorageOptions

_TEXT_BYTES: Final = 16  # of a row of a column that is no number, about
_NUMBER_BYTES: Final = 8


class RowGroups(msgspec.Struct, frozen=True):
    """Where each row group begins, as a page directory says it of pages."""

    row_starts: NDArray[np.int64]

    @property
    def records(self) -> Any:
        """Nothing is known of sizes within a column."""
        return np.zeros(len(self.row_starts) - 1, [("raw_bytes", "<u4")])


class ForeignSegment(msgspec.Struct, frozen=True, eq=False):
    """What a source of rows asks of a segment.

    Parameters
    ----------
    rows : ParquetRows
        The row groups.
    schema : TableSchema
        The names and types that columns are wanted by.
    source_names : mapping of str to str
        The source's name of each column whose name here is another.
    path : str
        What tells the rows from all others.
    byte_count : int
        Stored bytes of the row groups.
    owner : Owner
        The cache entry that decoded columns belong to.
    """

    rows: ParquetRows
    schema: TableSchema
    source_names: Mapping[str, str]
    path: str
    byte_count: int
    owner: Owner
    read_range: None = None

    def key_of(self, table: str, role: Role, name: str) -> tuple[str, ...]:
        """Return what tells a column from every other, of any file and in any type."""
        wanted = type_name(self.schema.field(name).type)
        return (self.path, table, role, self._source_name(name), wanted)

    def has_column(self, table: str, role: Role, name: str) -> bool:
        """Whether the rows have such a column."""
        return role == "base" and self.rows.has_column(self._source_name(name))

    def is_sorted_by(self, table: str, role: Role, name: str) -> bool:
        """Nobody says how the rows of others are sorted."""
        return False

    def value_bytes(self, table: str, role: Role, name: str) -> int:
        """Return the approximate bytes of one decoded row of a column."""
        return _NUMBER_BYTES if is_fixed_width(self.schema.field(name).type) else _TEXT_BYTES

    def column(
        self, table: str, role: Role, name: str, first_page: int = 0, page_end: int | None = None
    ) -> Vector:
        """Decode row groups [first_page, page_end) of a column into one vector."""
        wanted = self.schema.field(name).type
        return self.rows.vector(self._source_name(name), wanted, first_page, page_end)

    def directory(self, table: str, role: Role, name: str) -> RowGroups:
        """Return where row groups begin."""
        return RowGroups(self.rows.row_starts)

    def page_zones(self, table: str, role: Role, name: str) -> PageZones | None:
        """Return bounds by which rows may be left out; None if none are known."""
        return self.rows.zones(self._source_name(name), self.schema.field(name).type)

    def column_entry(self, table: str, role: Role, name: str) -> ColumnEntry:
        """Return a description of a column: no dictionary is known before it is read."""
        wanted = type_name(self.schema.field(name).type)
        return ColumnEntry(role, name, wanted, "numbers", None, b"", b"")

    def column_dictionary(self, table: str, role: Role, name: str) -> None:
        """No dictionary is known before a column is read."""

    def bitmap_index(self, table: str, role: Role, name: str) -> None:
        """There are no bitmaps."""

    def ranges_of(
        self, table: str, role: Role, name: str, first_page: int, page_end: int
    ) -> list[tuple[int, int]]:
        """Nothing is read ahead of the columns themselves."""
        return []

    def _source_name(self, name: str) -> str:
        return self.source_names.get(name, name)


def open_foreign(storage: Storage, entry: SegmentEntry, schema: TableSchema) -> ForeignSegment:
    """Return the base rows of a foreign entry.

    The footer is read each time, so that no decoded column in memory is of a file that was
    overwritten since.

    Raises
    ------
    StorageError
        PROJSEG_SOURCE_GONE, PROJSEG_SOURCE_CHANGED.
    """
    foreign = entry.foreign
    assert foreign is not None, "the caller has looked"
    listed, options = listed_file(foreign), source_options(storage)
    footer = proved_footer(listed, foreign.footer_digest, options)
    rows = ParquetRows(listed, footer, foreign.row_groups, options)
    if rows.row_count != entry.row_count:
        raise source_changed(
            foreign.path, f"has {rows.row_count} rows, and {entry.row_count} were listed"
        )
    path = foreign.listed_as
    key = ("foreign rows", path)
    owner: Owner | None = KEPT.get(key)
    if owner is None:
        fresh = Owner(key)
        owner = KEPT.put(key, fresh, len(path), stands_for=fresh)
    assert owner is not None
    byte_count = sum(zone.bytes for zone in entry.columns.values())
    return ForeignSegment(rows, schema, schema.source_names, path, byte_count, owner)


def listed_file(foreign: ForeignFile) -> ListedFile:
    """Return a file of an entry as its source listed it."""
    partition = tuple(foreign.partition.items())
    return ListedFile(foreign.path, foreign.byte_count, foreign.tag, partition)


def source_options(storage: Storage) -> StorageOptions:
    """Return the options by which the files of a table's source are read, which it never keeps."""
    options = getattr(storage, "source_options", None)
    if options is None:
        options = getattr(storage, "options", None)
    return options if isinstance(options, StorageOptions) else NO_OPTIONS

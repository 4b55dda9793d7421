"""The base rows of a foreign entry, offered as a segment file offers its base table.

Row groups stand for pages. Columns are by the table's names and in its types; one that the file
lacks is missing, as one that was added to a table is in old segments.
"""

from __future__ import annotations

from functools import lru_cache
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
from projseg.table_layer.storage.store_client import is_store_option
from projseg.table_layer.storage.store_location import NO_OPTIONS, StorageOptions

_TEXT_BYTES: Final = 16  # of a row of a column that is no number, about
_NUMBER_BYTES: Final = 8
_OF_STORES: Final = {
    "s3.endpoint": "endpoint",
    "s3.region": "region",
    "s3.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "s3.session-token": "session_token",
    "client.region": "region",
    "client.access-key-id": "access_key_id",
    "client.secret-access-key": "secret_access_key",
    "client.session-token": "session_token",
    "adls.account-name": "account_name",
    "adls.account-key": "account_key",
}
"""What a catalog's properties are called as options of a store."""


class RowGroups(msgspec.Struct, frozen=True):
    """Where each row group begins, as a page directory says it of pages."""

    row_starts: NDArray[np.int64]

    @property
    def records(self) -> Any:
        """Nothing is known of sizes within a column."""
        return np.zeros(len(self.row_starts) - 1, [("raw_bytes", "<u4")])


class ForeignSegment(msgspec.Struct, frozen=True, eq=False):
    """Row groups in a foreign file as a segment, with the names and types of a schema.

    `present` has the stored names of the columns in the file, None if columns have the source's
    names there; `path` identifies the rows, and `owner` is the cache entry of decoded columns.
    """

    rows: ParquetRows
    schema: TableSchema
    present: frozenset[str] | None
    path: str
    byte_count: int
    owner: Owner
    read_range: None = None

    def key_of(self, table: str, role: Role, name: str) -> tuple[str, ...]:
        """Return a key that no other column has, of any file and in any type."""
        wanted = type_name(self.schema.field(name).type)
        return (self.path, table, role, self._source_name(name) or "", wanted)

    def has_column(self, table: str, role: Role, name: str) -> bool:
        """Whether the rows have such a column."""
        found = self._source_name(name)
        return role == "base" and found is not None and self.rows.has_column(found)

    def is_sorted_by(self, table: str, role: Role, name: str) -> bool:
        """Return False: nothing states how the rows of a foreign file are sorted."""
        return False

    def value_bytes(self, table: str, role: Role, name: str) -> int:
        """Return the approximate bytes of one decoded row of a column."""
        return _NUMBER_BYTES if is_fixed_width(self.schema.field(name).type) else _TEXT_BYTES

    def column(
        self, table: str, role: Role, name: str, first_page: int = 0, page_end: int | None = None
    ) -> Vector:
        """Decode row groups [first_page, page_end) of a column into one vector."""
        found, wanted = self._source_name(name), self.schema.field(name).type
        assert found is not None, "the caller has asked whether it is there"
        return self.rows.vector(found, wanted, first_page, page_end)

    def directory(self, table: str, role: Role, name: str) -> RowGroups:
        """Return where row groups begin."""
        return RowGroups(self.rows.row_starts)

    def page_zones(self, table: str, role: Role, name: str) -> PageZones | None:
        """Return bounds by which rows may be left out; None if none are known."""
        found = self._source_name(name)
        return None if found is None else self.rows.zones(found, self.schema.field(name).type)

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

    def _source_name(self, name: str) -> str | None:
        if self.present is None:
            return self.schema.source_names.get(name, name)
        return self.schema.stored_name(name, self.present)


def open_foreign(storage: Storage, entry: SegmentEntry, schema: TableSchema) -> ForeignSegment:
    """Return the base rows of a foreign entry; raise StorageError if its file is gone or changed.

    The footer is read each time, so that no decoded column in memory is of a file that was
    overwritten since.
    """
    foreign = entry.foreign
    assert foreign is not None, "the caller has looked"
    listed, options = listed_file(foreign), file_options(storage, foreign.names is not None)
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
    is_by_id = foreign.names is not None
    present = frozenset((*(foreign.names or ()), *foreign.partition)) if is_by_id else None
    return ForeignSegment(rows, schema, present, path, byte_count, owner)


def listed_file(foreign: ForeignFile) -> ListedFile:
    """Return a file of an entry as its source listed it."""
    partition = tuple(foreign.partition.items())
    names = None if foreign.names is None else tuple(foreign.names.items())
    return ListedFile(foreign.path, foreign.byte_count, foreign.tag, partition, names=names)


def source_options(storage: Storage) -> StorageOptions:
    """Return the options by which a table's source is found, which it never keeps."""
    options = getattr(storage, "source_options", None)
    if options is None:
        options = getattr(storage, "options", None)
    return options if isinstance(options, StorageOptions) else NO_OPTIONS


def file_options(storage: Storage, is_in_catalog: bool) -> StorageOptions:
    """Return the options by which the files of a table's source are read.

    Those of a source in a catalog are properties of that.
    """
    options = source_options(storage)
    return _options_of_files(options) if is_in_catalog else options


@lru_cache(maxsize=64)
def _options_of_files(options: StorageOptions) -> StorageOptions:
    """Return the options of a catalog by which its store is reached, as a store calls them."""
    given = {key: value for key, value in options.items() if is_store_option(key)}
    given |= {_OF_STORES[key]: value for key, value in options.items() if key in _OF_STORES}
    if given.get("endpoint", "").startswith("http://"):
        given.setdefault("allow_http", "true")
    return StorageOptions(given)

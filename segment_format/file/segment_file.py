"""Read one segment file through range reads: the tail once, then only the parts that are used.

A `SegmentFile` keeps the directory and the dictionaries it has loaded, never pages: the caller that
decodes columns decides what to cache. Any number of threads may use one. It has no locks, because a
forked child could inherit them held; two threads may load the same part, and one copy is kept.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.errors import InvalidInputError, did_you_mean
from projseg.memory.cache import Owner
from projseg.segment_format.byte_reader import corrupt
from projseg.segment_format.checksum_and_compression import file_seed, part_checksum
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.dictionary_pages import HeldBytes, read_values
from projseg.segment_format.footer import (
    TAIL_LAYOUT,
    ColumnEntry,
    DictionaryEntry,
    Footer,
    PartEntry,
    Role,
    TableEntry,
    Tail,
)
from projseg.segment_format.footer_checks import ReadRange, read_exactly, read_footer
from projseg.segment_format.format_limits import (
    DICTIONARY_BYTES_MAX,
    expanded_bytes_max,
    require_limit,
)
from projseg.segment_format.indexes.bitmap_index import BitmapIndex
from projseg.segment_format.logical_types import parse_type_name
from projseg.segment_format.page_decoder import PageRun, decode_ids, decode_numbers, decode_opaque
from projseg.segment_format.page_directory import PageDirectory, PageZones, page_zones
from projseg.segment_format.vectors import Ids, Opaque, Vector

# Approximate memory of an open file, of a byte of its footer, and of a directory or index.
_OPEN_BYTES: Final = 16 * 1024
_FOOTER_EXPANSION: Final = 4
_PART_BYTES: Final = 1024

# Most bytes of a decoded value: an id, a number, an integer that exceeds 64 bits.
_ID_BYTES_MAX: Final = 4
_NUMBER_BYTES: Final = 8
_WIDE_BYTES: Final = 64

Part = TypeVar("Part", PageDirectory, PageZones, BitmapIndex, Dictionary)


class SegmentFile:
    """An open segment file; use `SegmentFile.open`.

    Methods raise InvalidInputError for a table, column, dictionary or page that the file lacks, and
    CorruptSegmentError for bytes that break SPEC.md.
    """

    def __init__(
        self,
        read_range: ReadRange,
        footer: Footer,
        tail: Tail,
        path: str,
        *,
        owner: Owner | None = None,
    ) -> None:
        self.footer, self.tail, self.path = footer, tail, path
        self.read_range, self._seed = read_range, file_seed(footer.file_id)
        self._tables = {table.name: table for table in footer.tables}
        self._columns = {
            (table.name, column.role, column.name): column
            for table in footer.tables
            for column in table.columns
        }
        self._directories: dict[tuple[str, str, str], PageDirectory] = {}
        self._zones: dict[tuple[str, str, str], PageZones] = {}
        self._indexes: dict[tuple[str, str, str], BitmapIndex] = {}
        self._dictionaries: dict[str, Dictionary] = {}
        opened_bytes = _OPEN_BYTES + _FOOTER_EXPANSION * tail.footer_bytes
        self._held_bytes = HeldBytes(owner, opened_bytes, expanded_bytes_max(self.byte_count))

    @classmethod
    def open(
        cls,
        read_range: ReadRange,
        size: int,
        *,
        path: str,
        owner: Owner | None = None,
        ending: bytes = b"",
    ) -> SegmentFile:
        """Read and prove the directory of a file of `size` bytes by `read_range(offset, size)`.

        `ending` has the last bytes of the file, at least the tail, if they are read already.
        """
        footer, tail = read_footer(read_range, size, path, ending)
        return cls(read_range, footer, tail, path, owner=owner)

    @property
    def owner(self) -> Owner | None:
        """The file's cache entry, to which its cached parts belong."""
        return self._held_bytes.owner

    @property
    def held_bytes(self) -> int:
        """Approximate memory of the directory and the loaded dictionaries, in bytes."""
        return self._held_bytes.total

    @property
    def schema(self) -> pa.Schema:
        """The columns of the base table, as the table declared them."""
        return pa.schema(
            pa.field(f.name, parse_type_name(f.type), f.nullable) for f in self.footer.fields
        )

    @property
    def tables(self) -> tuple[TableEntry, ...]:
        """The base table, then the projections."""
        return self.footer.tables

    def table(self, name: str) -> TableEntry:
        """Return the table of that name."""
        if name not in self._tables:
            raise _unknown(f"{self.path}: no table '{name}'", name, self._tables)
        return self._tables[name]

    def column_entry(self, table: str, role: Role, name: str) -> ColumnEntry:
        """Return the directory entry of a column."""
        entry = self._columns.get((table, role, name))
        if entry is None:
            known = [c.name for c in self.table(table).columns if c.role == role]
            raise _unknown(f"{self.path}: table '{table}' has no {role} '{name}'", name, known)
        return entry

    def has_column(self, table: str, role: Role, name: str) -> bool:
        """Whether the table holds such a column."""
        return (table, role, name) in self._columns

    def is_sorted_by(self, table: str, role: Role, name: str) -> bool:
        """Whether a table's rows ascend by a column, nulls first."""
        return role != "state" and self.table(table).sort_order[:1] == (name,)

    def column_dictionary(self, table: str, role: Role, name: str) -> Dictionary | None:
        """Return the dictionary of a column's ids; None if it is not stored as ids."""
        index = self.column_entry(table, role, name).dictionary
        return None if index is None else self.dictionary(self.footer.dictionaries[index].name)

    def directory(self, table: str, role: Role, name: str) -> PageDirectory:
        """Return the proved page directory of a column."""
        key = (table, role, name)
        known = self._directories.get(key)
        if known is None:
            entry = self.column_entry(table, role, name)
            known = PageDirectory.parse(
                entry.pages,
                row_count=self.table(table).row_count,
                is_uniform=entry.kind != "opaque",
                pages_end=self.tail.footer_offset,
                where=f"{self.path}: {table}/{role}/{name}",
            )
            known = self._held(self._directories, key, known, known.row_starts.nbytes)
        return known

    def page_zones(self, table: str, role: Role, name: str) -> PageZones:
        """Return the zone maps of a column's pages; nobody writes to them."""
        key = (table, role, name)
        known = self._zones.get(key)
        if known is None:
            entry = self.column_entry(table, role, name)
            known = page_zones(
                self.directory(table, role, name),
                parse_type_name(entry.type),
                is_numbers=entry.kind == "numbers",
            )
            known = self._held(self._zones, key, known, known.nbytes)
        return known

    def column_bytes(self, table: str, role: Role, name: str) -> int:
        """Return the bytes of a column's pages on disk."""
        return self.directory(table, role, name).stored_bytes

    @property
    def byte_count(self) -> int:
        """The size of the file."""
        return self.tail.footer_offset + self.tail.footer_bytes + TAIL_LAYOUT.size

    def value_bytes(self, table: str, role: Role, name: str) -> int:
        """Return the approximate bytes of one decoded row of a column."""
        entry = self.column_entry(table, role, name)
        if entry.kind == "ids":
            return _ID_BYTES_MAX
        if entry.kind == "numbers":
            return _WIDE_BYTES if entry.type.startswith("decimal") else _NUMBER_BYTES
        directory = self.directory(table, role, name)
        row_count = max(int(directory.row_starts[-1]), 1)
        raw_bytes = int(directory.records["raw_bytes"].sum(dtype=np.int64))
        return _NUMBER_BYTES + -(-raw_bytes // row_count)

    def column(
        self,
        table: str,
        role: Role,
        name: str,
        first_page: int = 0,
        page_end: int | None = None,
    ) -> Vector:
        """Decode pages [first_page, page_end) of a column into one vector, by one range read.

        `Ids` are in their dictionary's `id_dtype`; integer `Numbers` are as narrow as these pages
        allow.
        """
        entry = self.column_entry(table, role, name)
        directory = self.directory(table, role, name)
        page_end = len(directory) if page_end is None else page_end
        run = self.pages(directory, first_page, page_end, f"{table}/{role}/{name}")
        arrow_type = parse_type_name(entry.type)
        if entry.kind == "ids":
            dictionary = self.column_dictionary(table, role, name)
            assert dictionary is not None, "proved when the file was opened"
            return Ids(decode_ids(run, len(dictionary), dictionary.id_dtype), dictionary)
        if entry.kind == "numbers":
            return decode_numbers(run, arrow_type)
        return Opaque(decode_opaque(run, arrow_type))

    def bitmap_index(self, table: str, role: Role, name: str) -> BitmapIndex | None:
        """Return the bitmap index of a column, or None where none is stored."""
        key, entry = (table, role, name), self.column_entry(table, role, name)
        if not entry.index_blocks or entry.dictionary is None:
            return None
        known = self._indexes.get(key)
        if known is None:
            index = BitmapIndex(
                entry.index_blocks,
                cardinality=self.footer.dictionaries[entry.dictionary].cardinality,
                row_count=self.table(table).row_count,
                parts_end=self.tail.footer_offset,
                read_part=self.part,
                path=self.path,
                part_name="/".join(key),
            )
            known = self._held(self._indexes, key, index, 0)
        return known

    def dictionary(self, name: str) -> Dictionary:
        """Return a dictionary, read on first use: always the same object."""
        known = self._dictionaries.get(name)
        if known is None:
            loaded = self._load_dictionary(self.dictionary_entry(name))
            hashes = loaded.stored_hashes
            known = self._held(
                self._dictionaries, name, loaded, 0 if hashes is None else hashes.nbytes
            )
        return known

    def _held(self, parts: dict[Any, Part], key: Any, part: Part, byte_count: int) -> Part:
        """Keep a loaded part and count its bytes; return the copy that is kept."""
        held = parts.setdefault(key, part)
        if held is part:
            self._held_bytes.add(byte_count + _PART_BYTES)
        return held

    def dictionary_entry(self, name: str) -> DictionaryEntry:
        """Return the directory entry of a dictionary."""
        entries = {entry.name: entry for entry in self.footer.dictionaries}
        if name not in entries:
            raise _unknown(f"{self.path}: no dictionary '{name}'", name, entries)
        return entries[name]

    def _load_dictionary(self, entry: DictionaryEntry) -> Dictionary:
        arrow_type, held = parse_type_name(entry.type), self._held_bytes
        part_name = f"dictionary '{entry.name}'"
        directory = self.dictionary_directory(entry)
        raw_bytes = int(directory.records["raw_bytes"].sum(dtype=np.int64))
        require_limit(f"size of {part_name} in bytes", raw_bytes, 2 * DICTIONARY_BYTES_MAX)
        least_bytes = _NUMBER_BYTES * entry.cardinality
        require_limit(f"bytes of {part_name} of {self.path}", least_bytes, held.values_left)
        run = self.pages(directory, 0, len(directory), part_name)
        values = read_values(run, arrow_type, held, entry.name)
        return Dictionary(values, self._hashes(entry, part_name), self.owner)

    def ranges_of(
        self, table: str, role: Role, name: str, first_page: int, page_end: int
    ) -> list[tuple[int, int]]:
        """Return (offset, size) of each read that decoding pages of a column takes."""
        entry = self.column_entry(table, role, name)
        ranges = [_extent(self.directory(table, role, name).records[first_page:page_end])]
        if entry.dictionary is not None:
            dictionary = self.footer.dictionaries[entry.dictionary]
            if dictionary.name not in self._dictionaries:
                ranges.append(_extent(self.dictionary_directory(dictionary).records))
                hashes = dictionary.hashes
                ranges += [] if hashes is None else [(hashes.file_offset, hashes.byte_count)]
        return [(offset, size) for offset, size in ranges if size]

    def dictionary_directory(self, entry: DictionaryEntry) -> PageDirectory:
        """Return the proved page directory of a dictionary."""
        return PageDirectory.parse(
            entry.pages,
            row_count=entry.cardinality,
            is_uniform=False,
            pages_end=self.tail.footer_offset,
            where=f"{self.path}: dictionary '{entry.name}'",
        )

    def stored_hashes(self, entry: DictionaryEntry) -> NDArray[np.uint64] | None:
        """Return the value hashes of a dictionary, without its values; None if none are stored."""
        found: NDArray[np.uint64] | None = self._hashes(entry, f"dictionary '{entry.name}'")
        return found

    def _hashes(self, entry: DictionaryEntry, part_name: str) -> Any:
        if entry.hashes is None:
            return None
        return np.frombuffer(self.part(entry.hashes, f"hashes of {part_name}"), "<u8")

    def read(self, file_offset: int, byte_count: int) -> bytes:
        """Return bytes of the file as they are; prefer `part`, which proves their checksum."""
        return read_exactly(self.read_range, file_offset, byte_count, self.path)

    def part(self, entry: PartEntry, name: str) -> bytes:
        """Read a part and prove its checksum."""
        content = self.read(entry.file_offset, entry.byte_count)
        if part_checksum(content, self._seed, entry.file_offset) != entry.checksum:
            problem = f"checksum of the part at byte {entry.file_offset} differs"
            raise corrupt(self.path, name, problem)
        return content

    def pages(
        self, directory: PageDirectory, first_page: int, page_end: int, part_name: str
    ) -> PageRun:
        """Read pages [first_page, page_end) of a directory, to be decoded by the caller."""
        if not 0 <= first_page <= page_end <= len(directory):
            raise InvalidInputError(
                "PROJSEG_INTERNAL", f"pages [{first_page}, {page_end}) of {len(directory)}"
            )
        records, content = directory.records[first_page:page_end], b""
        if len(records):
            content = self.read(*_extent(records))
        return PageRun(records, content, self._seed, path=self.path, part_name=part_name)


def _extent(records: Any) -> tuple[int, int]:
    """Return (offset, size) of neighbouring pages; (0, 0) if there are none."""
    if len(records) == 0:
        return 0, 0
    start, last = int(records["file_offset"][0]), records[-1]
    return start, int(last["file_offset"]) + int(last["stored_bytes"]) - start


def _unknown(message: str, name: str, known: Any) -> InvalidInputError:
    return InvalidInputError("PROJSEG_INTERNAL", message + did_you_mean(name, known))

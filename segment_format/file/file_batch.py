"""Many small segment files read side by side: footers compared by shape, pages decoded together.

It opens and decodes what `SegmentFile` would, with the same proofs. What it does not take, a
`SegmentFile` reads, or refuses with a reason.

Segments of a table are alike: names, types, definitions. A footer of thousands of bytes is decoded
and proved once for each such shape; of another file of that shape only what differs is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from projseg.errors import ProjsegError
from projseg.kernels.split_footers import split_footers
from projseg.memory.cache import KEPT
from projseg.segment_format.checksum_and_compression import NONE, decompress_page, file_seed
from projseg.segment_format.footer import (
    FILE_ID_BYTES,
    GROUPS_ONLY,
    HEAD_LAYOUT,
    TAIL_LAYOUT,
    ColumnEntry,
    Footer,
    Role,
    Tail,
    encode_footer,
    parse_tail,
)
from projseg.segment_format.footer_checks import ReadRange, prove_footer, read_exactly
from projseg.segment_format.format_limits import DICTIONARY_VALUES_MAX, SEGMENT_ROWS_MAX
from projseg.segment_format.logical_types import is_fixed_width, is_text, parse_type_name
from projseg.segment_format.page_batch import NotTogetherError, PageBatch, require, require_sound
from projseg.segment_format.page_directory import PAGE_DTYPE
from projseg.segment_format.vectors import Numbers

FooterNumbers = NDArray[np.int64]
_Place = tuple[Any, ...]
_Pages = tuple[int, int]  # which numbers are the position of pages, and the rows that they hold

_EXPANSION: Final = 16  # bytes held of a shape for each byte of it
_HASH_BYTES: Final = 8

_OF_PAGES: Final = ("file_offset", "stored_bytes", "raw_bytes", "compression", "checksum")


class FooterShape:
    """What footers of one shape have in common, and the names and positions of their numbers."""

    def __init__(self, footer: Footer, features: int, places: Sequence[_Place]) -> None:
        self.footer = footer
        self._index = {place: index for index, place in enumerate(places)}
        self._file_id = self._index["file_id", "bytes"]
        self.row_counts = [self._index["tables", n, "row_count"] for n in range(len(footer.tables))]
        self._of_rows = [
            index
            for table, index in zip(footer.tables, self.row_counts, strict=True)
            if table.holds_rows
        ]
        self.cardinalities = [
            self._index["dictionaries", n, "cardinality"] for n in range(len(footer.dictionaries))
        ]
        hashed = [n for n, entry in enumerate(footer.dictionaries) if entry.hashes is not None]
        self._hashed = [self.cardinalities[n] for n in hashed]
        self._hash_sizes = [self._index["dictionaries", n, "hashes", "byte_count"] for n in hashed]
        parts: list[_Place] = [("dictionaries", n, "hashes") for n in hashed]
        parts += [("extra_sections", n, "section") for n in range(len(footer.extra_sections))]
        self._offsets = [self._index[*part, "file_offset"] for part in parts]
        self._sizes = [self._index[*part, "byte_count"] for part in parts]
        self._columns = {
            (table.name, column.role, column.name): (t, c)
            for t, table in enumerate(footer.tables)
            for c, column in enumerate(table.columns)
        }
        # Numbers that have to be what they are in the footer that was proved.
        self._same = dict[int, int]()
        if features & GROUPS_ONLY:
            self._same[self.row_counts[0]] = 0
        for t, table in enumerate(footer.tables):
            for c, column in enumerate(table.columns):
                place = ("tables", t, "columns", c)
                if column.dictionary is not None:
                    self._same[self._index[*place, "dictionary"]] = column.dictionary
                if column.kind != "ids":
                    self._same[self._index[*place, "index_blocks", "bytes"] + 1] = 0

    def has_column(self, table: str, role: Role, name: str) -> bool:
        """Whether the table holds such a column."""
        return (table, role, name) in self._columns

    def column(self, table: str, role: Role, name: str) -> tuple[ColumnEntry, _Pages, _Pages]:
        """Return a column there is: its entry, its pages and those of its dictionary.

        Where it has none, its own stand for the dictionary's.
        """
        t, c = self._columns[table, role, name]
        entry = self.footer.tables[t].columns[c]
        pages = self._index["tables", t, "columns", c, "pages", "bytes"], self.row_counts[t]
        if (number := entry.dictionary) is None:
            return entry, pages, pages
        values = self._index["dictionaries", number, "pages", "bytes"], self.cardinalities[number]
        return entry, pages, values

    def accepts(self, numbers: FooterNumbers, ends: FooterNumbers) -> NDArray[np.bool_]:
        """Return which footers of this shape `prove_footer` would accept; it may accept others."""
        base, end = numbers[:, self.row_counts[:1]], ends[:, None]
        cardinalities, rows = numbers[:, self.cardinalities], numbers[:, self.row_counts]
        offsets, sizes = numbers[:, self._offsets], numbers[:, self._sizes]
        good: NDArray[np.bool_] = numbers[:, self._file_id + 1] == FILE_ID_BYTES
        for found in (
            (cardinalities >= 0) & (cardinalities <= DICTIONARY_VALUES_MAX),
            numbers[:, self._hash_sizes] == _HASH_BYTES * numbers[:, self._hashed],
            (rows >= 0) & (rows <= SEGMENT_ROWS_MAX),
            numbers[:, self._of_rows] <= base,
            (offsets >= HEAD_LAYOUT.size) & (offsets <= end),
            (sizes >= 0) & (sizes <= end - offsets),
            numbers[:, list(self._same)] == list(self._same.values()),
        ):
            good &= found.all(axis=1)
        return good

    def file_ids(self, numbers: FooterNumbers) -> list[int]:
        """Return the positions of the file ids."""
        found: list[int] = numbers[:, self._file_id].tolist()
        return found


def _places(value: object, place: _Place = ()) -> Iterator[_Place]:
    """Yield the place of each number of a footer, as `split_footers` counts them."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _places(inner, (*place, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _places(inner, (*place, number))
    elif isinstance(value, bytes):
        yield (*place, "bytes")
        yield (*place, "size")
    elif isinstance(value, int) and not isinstance(value, bool):
        yield place


def shape_of(content: memoryview, tail: Tail, path: str, shape: bytes) -> FooterShape | None:
    """Return the shape of a footer, which is proved if it is the first; None if it has none."""
    key = ("footer shape", tail.format_version, tail.required_features, shape)
    known: FooterShape | None = KEPT.get(key)
    if known is not None or not shape:
        return known
    footer = prove_footer(content, tail, path)
    types = [parse_type_name(entry.type) for entry in footer.dictionaries]
    is_plain = all(is_fixed_width(one) or is_text(one) for one in types)
    is_plain = is_plain and all(table.columns for table in footer.tables)
    # Names come in the order in which this release writes them, each once.
    if not is_plain or encode_footer(footer) != content:
        return None
    made = FooterShape(footer, tail.required_features, [*_places(msgspec.msgpack.decode(content))])
    kept: FooterShape = KEPT.put(key, made, _EXPANSION * len(shape))
    return kept


class Ending(NamedTuple):
    """The last bytes of a file, and what reads others."""

    content: bytes
    byte_count: int
    path: str
    read_range: ReadRange


class _Split(NamedTuple):
    """A footer whose checksum is right: its file, and its numbers."""

    file: int
    tail: Tail
    numbers: NDArray[np.int64]


class SmallFile(NamedTuple):
    """A file whose footer is proved; no page of it passes `pages_end`."""

    ending: Ending
    seed: int
    pages_end: int
    shape: FooterShape
    numbers: NDArray[np.int64]

    @property
    def row_counts(self) -> list[int]:
        """Rows of each table."""
        found: list[int] = self.numbers[self.shape.row_counts].tolist()
        return found


class StackedIds(NamedTuple):
    """Ids of files with a dictionary each: places among the values of all, one after the other."""

    ids: NDArray[np.int64]
    values: pa.Array


class FileBatch:
    """Files that are read together; at least the tail of each is read."""

    def __init__(self, endings: Sequence[Ending]) -> None:
        self.files: list[SmallFile | None] = [None] * len(endings)
        footers, found = list[memoryview](), list[tuple[int, Tail]]()
        for number, (content, size, path, _) in enumerate(endings):
            whole = memoryview(content)
            tail, checksum = parse_tail(whole[-TAIL_LAYOUT.size :], size, path)
            start = tail.footer_offset - (size - len(content))
            footer = whole[max(start, 0) : -TAIL_LAYOUT.size]
            if start >= 0 and tail.checksum(footer) == checksum:
                footers.append(footer)
                found.append((number, tail))
        self._footers = np.frombuffer(b"".join(footers), np.uint8)
        starts = np.array([*accumulate(map(len, footers), initial=0)], np.int64)
        by_shape: dict[FooterShape, list[_Split]] = {}
        split = zip(found, footers, split_footers(self._footers, starts), strict=True)
        for (number, tail), footer, (content, numbers) in split:
            shape = shape_of(footer, tail, endings[number].path, content)
            if shape is not None:
                by_shape.setdefault(shape, []).append(_Split(number, tail, numbers))
        for shape, several in by_shape.items():
            self._accept(endings, shape, several)

    def _accept(
        self, endings: Sequence[Ending], shape: FooterShape, several: Sequence[_Split]
    ) -> None:
        """Take the files of one shape whose footers are sound."""
        together = np.stack([one.numbers for one in several])
        ends = np.array([one.tail.footer_offset for one in several], np.int64)
        is_good, places = shape.accepts(together, ends).tolist(), shape.file_ids(together)
        for (number, tail, numbers), is_sound, place in zip(several, is_good, places, strict=True):
            if is_sound:
                seed = file_seed(self._footers[place : place + FILE_ID_BYTES].tobytes())
                made = SmallFile(endings[number], seed, tail.footer_offset, shape, numbers)
                self.files[number] = made

    def column(
        self, files: Sequence[SmallFile], table: str, role: Role, name: str
    ) -> Numbers | StackedIds | None:
        """Return a column that several files have; None if it is to be decoded file by file."""
        try:
            return self._column(files, table, role, name)
        except (NotTogetherError, ProjsegError, pa.ArrowException, ValueError):
            return None

    def _column(
        self, files: Sequence[SmallFile], table: str, role: Role, name: str
    ) -> Numbers | StackedIds:
        shapes = {file.shape: file.shape.column(table, role, name) for file in files}
        kinds = {(entry.kind, entry.type) for entry, *_ in shapes.values()}
        kind, type_name = kinds.pop()
        require(not kinds and kind != "opaque")
        arrow_type, places = parse_type_name(type_name), [shapes[file.shape] for file in files]
        pages = self._pages(files, [place for _, place, _ in places])
        if kind == "numbers":
            return pages.numbers(arrow_type)
        dictionaries = self._pages(files, [place for _, _, place in places])
        ids = pages.ids(np.diff(dictionaries.row_starts))
        shifts = pages.each_row(dictionaries.row_starts[:-1])
        return StackedIds(ids + shifts, dictionaries.values(arrow_type))

    def _pages(self, files: Sequence[SmallFile], places: Sequence[tuple[int, int]]) -> PageBatch:
        """Return the only page of one column of each file.

        `places` has where its directory and its row count stand in the numbers of the footer.
        """
        numbers = [
            (file.numbers[at], file.numbers[at + 1], file.numbers[rows])
            for file, (at, rows) in zip(files, places, strict=True)
        ]
        starts, sizes, row_counts = np.array(numbers).T
        require((sizes == PAGE_DTYPE.itemsize).all())
        spread = self._footers[starts[:, None] + np.arange(PAGE_DTYPE.itemsize)]
        records: NDArray[Any] = spread.view(PAGE_DTYPE).ravel()
        require_sound(records, row_counts, np.array([file.pages_end for file in files]))
        fields = (records[name].tolist() for name in _OF_PAGES)
        pages = [_page(*one) for one in zip(files, *fields, strict=True)]
        return PageBatch.of(records, pages)


def _page(
    file: SmallFile, offset: int, stored: int, raw: int, compression: int, checksum: int
) -> bytes | memoryview:
    """Return the bytes of a page, proved and decompressed."""
    content, size, path, read_range = file.ending
    start = offset - (size - len(content))
    if start >= 0:
        page = content[start : start + stored]
    else:
        page = read_exactly(read_range, offset, stored, path)
    require(xxhash.xxh3_64_intdigest(page, seed=file.seed ^ offset) == checksum)
    if compression == NONE and stored == raw:
        return page
    return decompress_page(memoryview(page), compression, raw, path=path, part_name="page")

"""Footers that differ in numbers and byte strings alone: one is proved, others compared with it.

Segments of a table are alike: names, types, definitions. A footer of thousands of bytes is decoded
and proved once for each such shape; of another file of that shape only what differs is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from projseg.memory.cache import KEPT
from projseg.segment_format.layout.footer import ColumnEntry, Footer, Role, encode_footer
from projseg.segment_format.layout.footer_checks import prove_footer
from projseg.segment_format.layout.format_limits import DICTIONARY_VALUES_MAX, SEGMENT_ROWS_MAX
from projseg.segment_format.layout.frame import FILE_ID_BYTES, GROUPS_ONLY, HEAD_LAYOUT, Tail
from projseg.segment_format.layout.logical_types import is_fixed_width, is_text, parse_type_name

Numbers = NDArray[np.int64]
_Place = tuple[Any, ...]
_Pages = tuple[int, int]  # which numbers are the position of pages, and the rows that they hold

_EXPANSION: Final = 16  # bytes held of a shape for each byte of it
_HASH_BYTES: Final = 8


class FooterShape:
    """What footers of one shape have in common, and which of their numbers mean what.

    Parameters
    ----------
    footer : Footer
        One of them, proved.
    features : int
        The required features of their files.
    places : sequence of tuple
        Of each number, its names and positions in the footer.
    """

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

    def accepts(self, numbers: Numbers, ends: Numbers) -> NDArray[np.bool_]:
        """Return which footers of this shape `prove_footer` would accept; it may accept others.

        Parameters
        ----------
        numbers : int64[n, k]
            Of each footer.
        ends : int64[n]
            Where it begins, and parts end.
        """
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

    def file_ids(self, numbers: Numbers) -> list[int]:
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
    """Return the shape of a footer, which is proved if it is the first; None if it has none.

    Parameters
    ----------
    content, tail, path
        As of `prove_footer`.
    shape : bytes
        What `split_footers` made of the footer.

    Raises
    ------
    CorruptSegmentError, LimitExceededError, UnsupportedFeatureError
        As of `prove_footer`.
    """
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

"""Which of some texts a segment file holds: in dictionaries, in pages of text and nested values.

Every dictionary and every page is decoded; what has no text in it (numbers, sketches' hashes) is
passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.logical_types import parse_type_name
from projseg.segment_format.vectors import Opaque


class SearchedSegment(NamedTuple):
    """Those texts that a value of a file equals, and the values and decoded bytes compared."""

    found: frozenset[bytes]
    value_count: int
    byte_count: int


def search_segment(segment: SegmentFile, wanted: pa.Array) -> SearchedSegment:
    """Return which texts, large_binary in UTF-8, are values of a segment."""
    found: set[bytes] = set()
    value_count = byte_count = 0
    for values in _texts(segment):
        plain = values.cast(pa.large_binary())
        value_count += len(plain)
        byte_count += plain.nbytes
        hits = plain.filter(pc.is_in(plain, value_set=wanted)).unique()
        found.update(hits.drop_null().to_pylist())
    return SearchedSegment(frozenset(found), value_count, byte_count)


def _texts(segment: SegmentFile) -> Iterator[pa.Array]:
    """Yield every text and binary value, of nested ones the innermost."""
    for dictionary in segment.footer.dictionaries:
        if any(_is_text(leaf) for leaf in _leaf_types(parse_type_name(dictionary.type))):
            yield from _leaves(segment.dictionary(dictionary.name).values)
    for table in segment.tables:
        for column in table.columns:
            if column.kind != "opaque":
                continue
            directory = segment.directory(table.name, column.role, column.name)
            for page in range(len(directory)):
                vector = segment.column(table.name, column.role, column.name, page, page + 1)
                assert isinstance(vector, Opaque), "its kind says so"
                yield from _leaves(vector.array)


def _leaves(values: pa.Array) -> Iterator[pa.Array]:
    if isinstance(values, pa.ExtensionArray):
        yield from _leaves(values.storage)
    elif isinstance(values, pa.StructArray):
        for child in values.flatten():
            yield from _leaves(child)
    elif isinstance(values, pa.MapArray):
        yield from _leaves(values.keys)
        yield from _leaves(values.items)
    elif isinstance(values, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        yield from _leaves(values.flatten())
    elif _is_text(values.type):
        yield values


def _leaf_types(type_: pa.DataType) -> Iterator[pa.DataType]:
    if pa.types.is_nested(type_):
        for index in range(type_.num_fields):
            yield from _leaf_types(type_.field(index).type)
    else:
        yield type_


def _is_text(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return any(kind(type_) for kind in (*kinds, pa.types.is_large_binary))

"""Which rows hold a value, and nested values taken apart: nulls, list lengths and leaves.

A list is the lengths of its lists and one array of all items; a map is a list of key and value
structs; a struct is its fields. Leaves use the encodings of flat columns.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.segment_format.arrow_arrays import (
    numpy_dtype,
    primitive_array,
    primitive_values,
    text_array,
    valid_values,
    validity_bitmap,
)
from projseg.segment_format.byte_reader import ByteReader, padded
from projseg.segment_format.encodings.encoding import IntegerEncodings, NumberEncodings
from projseg.segment_format.encodings.encoding_protocols import Offer, TextEncoding, composed
from projseg.segment_format.format_limits import LIST_ITEMS_MAX, require_limit
from projseg.segment_format.logical_types import arrow_to_numbers, is_text, numbers_to_arrow

ALL_VALID: Final = 0
_ALL_NULL: Final = 1
BITMAP: Final = 2  # one bit a row, least significant first, 1 = valid
RUNS: Final = 3  # run ends: runs of valid and null rows in turn, the first one valid


def encode_validity(validity: NDArray[np.bool_] | None) -> tuple[int, bytes]:
    """Return the kind and the bytes of the smallest form of a mask that is true for values."""
    if validity is None or validity.all():
        return ALL_VALID, b""
    if not validity.any():
        return _ALL_NULL, b""
    ends = np.flatnonzero(np.diff(validity, append=~validity[-1])) + 1
    if not validity[0]:
        ends = np.concatenate([[0], ends])
    if 8 + 4 * len(ends) < len(validity) // 8:
        count = np.array([len(ends)], "<u8")
        return RUNS, count.tobytes() + padded(ends.astype("<u4").tobytes())
    return BITMAP, padded(np.packbits(validity, bitorder="little").tobytes())


def decode_validity(
    reader: ByteReader, kind: int, row_count: int, null_count: int
) -> NDArray[np.bool_] | None:
    """Return validity[row_count], or None where no row is null."""
    reader.require(ALL_VALID <= kind <= RUNS, f"unknown kind of validity {kind}")
    if kind in (ALL_VALID, _ALL_NULL):
        expected = 0 if kind == ALL_VALID else row_count
        reader.require(null_count == expected, f"{null_count} nulls counted, not {expected}")
        return None if kind == ALL_VALID else np.zeros(row_count, np.bool_)
    validity = (_bitmap if kind == BITMAP else _runs)(reader, row_count)
    found = row_count - int(np.count_nonzero(validity))
    reader.require(found == null_count, f"{found} nulls found, {null_count} counted")
    return validity


def _bitmap(reader: ByteReader, row_count: int) -> NDArray[np.bool_]:
    packed = reader.array("u1", -(-row_count // 8))
    bits = np.unpackbits(packed, bitorder="little")
    reader.require(not bits[row_count:].any(), "a bit beyond the last row is set")
    return bits[:row_count].view(np.bool_)


def _runs(reader: ByteReader, row_count: int) -> NDArray[np.bool_]:
    count = int(reader.array("<u8", 1)[0])
    reader.require(2 <= count <= row_count + 1, f"{count} runs for {row_count} rows")
    ends = reader.array("<u4", count).astype(np.int64)
    lengths = np.diff(ends, prepend=0)
    reader.require(
        bool((lengths[1:] > 0).all()) and int(ends[-1]) == row_count,
        "run ends do not ascend to the row count",
    )
    return np.repeat(np.arange(count) % 2 == 0, lengths)


_LAYOUT: Final = struct.Struct("<II")  # of a list: lengths_encoding, item_count
_LEVEL_LAYOUT: Final = struct.Struct("<BBHI")  # encoding, validity, reserved, null_count
_TEXT_LEVEL: Final = 0  # what the encoding of a level is that holds no numbers
_NESTED_LEVEL: Final = 12
_NO_VALUES: Final = 0, Offer(0, bytes)


class Nested:
    """Levels of nested values, depth first, with encodings for lengths, numbers and texts."""

    def __init__(
        self, lengths: IntegerEncodings, numbers: NumberEncodings, text: TextEncoding
    ) -> None:
        self._lengths, self._numbers, self._text = lengths, numbers, text

    def offer(self, array: pa.Array) -> Offer:
        """Return the offer for at least one list, map or struct; not for its own nulls."""
        if pa.types.is_struct(array.type):
            fields = (array.field(i) for i in range(array.type.num_fields))
            return composed(b"", *(self._level(field) for field in fields))
        filled = array if array.null_count == 0 else _without_null_items(array)
        offsets: NDArray[np.int64] = primitive_values(filled.offsets).astype(np.int64)
        lengths = self._lengths.choose(offsets[1:] - offsets[:-1])
        items = _items(filled)
        require_limit("number of list items of a page", len(items), LIST_ITEMS_MAX)
        header = _LAYOUT.pack(lengths.number, len(items))
        return composed(header, lengths.offer, self._level(items))

    def _level(self, array: pa.Array) -> Offer:
        kind, validity_part = 0, b""
        if array.null_count:
            kind, validity_part = encode_validity(valid_values(array))
        is_empty = len(array) == 0 or kind == _ALL_NULL
        encoding, values = _NO_VALUES if is_empty else self._leaf(array)
        header = _LEVEL_LAYOUT.pack(encoding, kind, 0, array.null_count)
        return composed(header + validity_part, values)

    def _leaf(self, array: pa.Array) -> tuple[int, Offer]:
        if pa.types.is_nested(array.type):
            return _NESTED_LEVEL, self.offer(array)
        if is_text(array.type):
            offer = self._text.offer(array, is_sorted=False)
            assert offer is not None, "the encoding of leaves holds any text"
            return _TEXT_LEVEL, offer
        values, _ = arrow_to_numbers(array)
        chosen, _ = self._numbers.choose(values)
        return chosen

    def decode(
        self,
        reader: ByteReader,
        arrow_type: pa.DataType,
        row_count: int,
        validity: NDArray[np.bool_] | None,
    ) -> pa.Array:
        """Return the array of `row_count` >= 1 values; the caller validates it."""
        bitmap, null_count = validity_bitmap(validity)
        if pa.types.is_struct(arrow_type):
            children = [self._decode_level(reader, field.type, row_count) for field in arrow_type]
            return pa.Array.from_buffers(arrow_type, row_count, [bitmap], null_count, 0, children)
        number, item_count = reader.unpack(_LAYOUT)
        require_limit("number of list items of a page", item_count, LIST_ITEMS_MAX)
        lengths = np.empty(row_count, np.int64)
        self._lengths.decode_into(reader, number, lengths, 0)
        low, high = int(lengths.min()), int(lengths.max())
        reader.require(low >= 0 and high <= item_count, f"lists of {low} to {high} items")
        reader.require(
            int(lengths.sum()) == item_count, f"list lengths do not add up to {item_count}"
        )
        if validity is not None:
            reader.require(not lengths[~validity].any(), "a null list has items")
        offsets = np.zeros(row_count + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        items = self._decode_level(reader, _item_type(arrow_type), item_count)
        buffers = [bitmap, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(arrow_type, row_count, buffers, null_count, 0, [items])

    def _decode_level(
        self, reader: ByteReader, arrow_type: pa.DataType, row_count: int
    ) -> pa.Array:
        number, kind, reserved, null_count = reader.unpack(_LEVEL_LAYOUT)
        reader.require(reserved == 0, "a reserved field is not zero")
        if not pa.types.is_null(arrow_type):
            reader.claim(row_count)
        validity = decode_validity(reader, kind, row_count, null_count)
        if row_count == 0 or kind == _ALL_NULL:
            return pa.nulls(row_count, arrow_type)
        if pa.types.is_nested(arrow_type):
            return self.decode(reader, arrow_type, row_count, validity)
        if is_text(arrow_type):
            return text_array(*self._text.decode(reader, row_count), arrow_type, validity)
        values: NDArray[Any]
        if pa.types.is_floating(arrow_type):
            values = np.empty(row_count, numpy_dtype(arrow_type))
            self._numbers.decode_into(reader, number, values, 0)
        else:
            values = self._numbers.decode_integers(reader, number, row_count)
        return numbers_to_arrow(values, arrow_type, validity)


def item_count(array: pa.Array) -> int:
    """Return how many items the lists of all levels of an array hold."""
    if pa.types.is_struct(array.type):
        return sum(item_count(array.field(i)) for i in range(array.type.num_fields))
    if not pa.types.is_nested(array.type):
        return 0
    items = _items(array)
    return len(items) + item_count(items)


def value_count(array: pa.Array) -> int:
    """Return how many rows all levels of an array have together; void levels do not count."""
    if pa.types.is_struct(array.type):
        levels = [array.field(i) for i in range(array.type.num_fields)]
    else:
        levels = [_items(array)] if pa.types.is_nested(array.type) else []
    rows = sum(len(level) for level in levels if not pa.types.is_null(level.type))
    return rows + sum(value_count(level) for level in levels)


def _items(array: pa.Array) -> pa.Array:
    """Return all items of all lists; of a map, structs of key and value."""
    if not pa.types.is_map(array.type):
        return array.flatten()
    start, end = array.offsets[0].as_py(), array.offsets[len(array)].as_py()
    entries = [array.keys.slice(start, end - start), array.items.slice(start, end - start)]
    return pa.StructArray.from_arrays(entries, fields=list(_item_type(array.type)))


def _item_type(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_map(arrow_type):
        return pa.struct([arrow_type.key_field, arrow_type.item_field])
    return arrow_type.value_type


def _without_null_items(array: pa.Array) -> pa.Array:
    """Return the array with each null list made empty, so that its slot holds no items."""
    empty = pa.array([[]], array.type)
    pool = pa.concat_arrays([array, empty])
    row_ids = np.where(valid_values(array), np.arange(len(array)), len(array))
    return pool.take(primitive_array(row_ids))

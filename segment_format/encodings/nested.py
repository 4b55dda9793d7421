"""Nested values, taken apart: each level's nulls, list lengths, and leaves. SPEC.md section 6.12.

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
from projseg.segment_format.byte_reader import ByteReader
from projseg.segment_format.encodings.integers import INTEGER_ENCODINGS
from projseg.segment_format.encodings.numbers import (
    decode_floats_best_into,
    decode_wide_best,
    encode_floats_best,
    encode_wide_best,
)
from projseg.segment_format.encodings.text import decode_text, encode_text
from projseg.segment_format.limits import LIST_ITEMS_MAX, require_limit
from projseg.segment_format.types import arrow_to_numbers, is_text, numbers_to_arrow
from projseg.segment_format.validity import ALL_NULL, decode_validity, encode_validity

NESTED_ID: Final = 12

_LAYOUT: Final = struct.Struct("<BBHI")  # encoding, validity, reserved, null_count
_LIST_LAYOUT: Final = struct.Struct("<II")  # lengths_encoding, item_count


def encode_nested(array: pa.Array) -> bytes:
    """Return the values of a list, map or struct array of at least one row; not its own nulls."""
    if pa.types.is_struct(array.type):
        return b"".join(_encode_level(array.field(i)) for i in range(array.type.num_fields))
    filled = array if array.null_count == 0 else _without_null_items(array)
    offsets: NDArray[np.int64] = primitive_values(filled.offsets).astype(np.int64)
    lengths = offsets[1:] - offsets[:-1]
    encoding, encoded = INTEGER_ENCODINGS.encode(lengths)
    items = _items(filled)
    require_limit("number of list items of a page", len(items), LIST_ITEMS_MAX)
    return _LIST_LAYOUT.pack(encoding, len(items)) + encoded + _encode_level(items)


def decode_nested(
    reader: ByteReader,
    arrow_type: pa.DataType,
    row_count: int,
    validity: NDArray[np.bool_] | None,
) -> pa.Array:
    """Return the array of `row_count` >= 1 values; the caller validates it.

    Raises
    ------
    CorruptSegmentError
        If the parts are malformed or contradict each other.
    """
    bitmap, null_count = validity_bitmap(validity)
    if pa.types.is_struct(arrow_type):
        children = [_decode_level(reader, field.type, row_count) for field in arrow_type]
        return pa.Array.from_buffers(arrow_type, row_count, [bitmap], null_count, 0, children)
    encoding_id, item_count = reader.unpack(_LIST_LAYOUT)
    require_limit("number of list items of a page", item_count, LIST_ITEMS_MAX)
    lengths = np.empty(row_count, np.int64)
    INTEGER_ENCODINGS.decode_into(reader, encoding_id, lengths, 0)
    low, high = int(lengths.min()), int(lengths.max())
    reader.require(low >= 0 and high <= item_count, f"lists of {low} to {high} items")
    reader.require(int(lengths.sum()) == item_count, f"list lengths do not add up to {item_count}")
    if validity is not None:
        reader.require(not lengths[~validity].any(), "a null list has items")
    offsets = np.zeros(row_count + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    items = _decode_level(reader, _item_type(arrow_type), item_count)
    buffers = [bitmap, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(arrow_type, row_count, buffers, null_count, 0, [items])


def item_count(array: pa.Array) -> int:
    """Return how many items the lists of all levels of an array hold."""
    if pa.types.is_struct(array.type):
        return sum(item_count(array.field(i)) for i in range(array.type.num_fields))
    if not pa.types.is_nested(array.type):
        return 0
    items = _items(array)
    return len(items) + item_count(items)


def value_count(array: pa.Array) -> int:
    """Return how many rows all levels of an array have together, void ones apart: they are free."""
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


def _encode_level(array: pa.Array) -> bytes:
    kind, validity_part = 0, b""
    if array.null_count:
        kind, validity_part = encode_validity(valid_values(array))
    encoding, part = 0, b""
    if len(array) and kind != ALL_NULL:
        encoding, part = _encode_leaf(array)
    return _LAYOUT.pack(encoding, kind, 0, array.null_count) + validity_part + part


def _encode_leaf(array: pa.Array) -> tuple[int, bytes]:
    if pa.types.is_nested(array.type):
        return NESTED_ID, encode_nested(array)
    if is_text(array.type):
        return 0, encode_text(array)
    values, _ = arrow_to_numbers(array)
    if values.dtype == object:
        return encode_wide_best(values)[:2]
    if values.dtype.kind == "f":
        return encode_floats_best(values)
    encoding, part = INTEGER_ENCODINGS.encode(values)
    return encoding, part


def _decode_level(reader: ByteReader, arrow_type: pa.DataType, row_count: int) -> pa.Array:
    encoding, kind, reserved, null_count = reader.unpack(_LAYOUT)
    reader.require(reserved == 0, "a reserved field is not zero")
    if not pa.types.is_null(arrow_type):
        reader.claim(row_count)
    validity = decode_validity(reader, kind, row_count, null_count)
    if row_count == 0 or kind == ALL_NULL:
        return pa.nulls(row_count, arrow_type)
    if pa.types.is_nested(arrow_type):
        return decode_nested(reader, arrow_type, row_count, validity)
    if is_text(arrow_type):
        return text_array(*decode_text(reader, row_count), arrow_type, validity)
    values: NDArray[Any]
    if pa.types.is_floating(arrow_type):
        values = np.empty(row_count, numpy_dtype(arrow_type))
        decode_floats_best_into(reader, encoding, values)
    else:
        values = decode_wide_best(reader, encoding, row_count)
    return numbers_to_arrow(values, arrow_type, validity)

"""Arrays of any Arrow type, encoding and slice as arrays of a stored type.

Arrow's own casts know neither views in a dictionary nor all types in run-end form, and end the
process at slices of nested arrays with a field of type null. So nested arrays are taken apart by
their values, never by their buffers, and put together without an offset.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.segment_format.arrow_arrays import primitive_array, primitive_values
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import (
    DECIMAL_DIGITS_MAX,
    INTEGER_DIGITS,
    is_text,
    normal_type,
)

_LIST_ITEMS_MAX = (1 << 31) - 1


def cast_array(array: pa.Array, target: pa.DataType, *, cuts_times: bool = False) -> pa.Array:
    """Return values in a stored type; fields of structs are matched by name.

    A field that the array lacks is null. What null rows hide is not looked at. Times finer than
    a microsecond are cut where that is asked for.
    """
    types = pa.types
    array = plain_rows(array)
    if types.is_null(array.type):
        return pa.nulls(len(array), target)
    if types.is_struct(array.type) and types.is_struct(target):
        return _cast_struct(array, target, cuts_times)
    if types.is_map(array.type) and types.is_map(target):
        return _cast_map(array, target, cuts_times)
    if types.is_nested(array.type) and types.is_list(target) and not types.is_struct(array.type):
        return _cast_list(array, target, cuts_times)
    if types.is_integer(array.type) and types.is_decimal(target):
        array = _wide_decimals(array, target)
    if cuts_times and types.is_timestamp(array.type):
        array = pc.floor_temporal(array, unit="microsecond")
    converted = array.cast(target, safe=True)
    converted.validate(full=is_text(target))
    return converted


def plain_rows(array: pa.Array) -> pa.Array:
    """Return an array with a value for each row: no dictionary, no runs, no extension type."""
    while isinstance(array, pa.ExtensionArray):
        array = array.storage.cast(pa.bool_()) if _is_bool8(array.type) else array.storage
    if isinstance(array, pa.DictionaryArray):
        return _rows_of(array.dictionary, array.indices)
    if isinstance(array, pa.RunEndEncodedArray):
        rows = np.arange(array.offset, array.offset + len(array))
        ends = primitive_values(array.run_ends)
        return _rows_of(array.values, primitive_array(np.searchsorted(ends, rows, side="right")))
    return array


def field_of(struct: pa.DataType, name: str) -> pa.Field | None:
    """Return the field of a name, in any case where none is spelled so."""
    if struct.get_field_index(name) >= 0:
        return struct.field(name)
    return next((field for field in struct if name_key(field.name) == name_key(name)), None)


def _is_bool8(arrow_type: pa.DataType) -> bool:
    return str(arrow_type.extension_name) == "arrow.bool8"


def _rows_of(values: pa.Array, rows: pa.Array) -> pa.Array:
    """Return values by row; Arrow takes no views."""
    return cast_array(values, normal_type(values.type)).take(rows)


def _cast_struct(array: pa.StructArray, target: pa.StructType, cuts_times: bool) -> pa.Array:
    found = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    by_name: dict[str, pa.Array] = {}
    for name, values in found.items():
        field = field_of(target, name)
        if field is None:
            raise pa.ArrowInvalid(f"there is no field '{name}'")
        by_name[field.name] = values
    columns = [
        cast_array(by_name[field.name], field.type, cuts_times=cuts_times)
        if field.name in by_name
        else pa.nulls(len(array), field.type)
        for field in target
    ]
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=array.is_null())


def _cast_list(array: pa.Array, target: pa.ListType, cuts_times: bool) -> pa.Array:
    lengths = pc.list_value_length(array)
    items = cast_array(array.flatten(), target.value_type, cuts_times=cuts_times)
    return pa.ListArray.from_arrays(_offsets_of(lengths), items, type=target, mask=array.is_null())


def _cast_map(array: pa.MapArray, target: pa.MapType, cuts_times: bool) -> pa.Array:
    entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    offsets = primitive_array(primitive_values(array.offsets).copy())
    lists = pa.ListArray.from_arrays(offsets, entries, mask=array.is_null())
    keys, items = lists.flatten().flatten()
    return pa.MapArray.from_arrays(
        _offsets_of(pc.list_value_length(lists)),
        cast_array(keys, target.key_type, cuts_times=cuts_times),
        cast_array(items, target.item_type, cuts_times=cuts_times),
        type=target,
        mask=array.is_null(),
    )


def _offsets_of(lengths: pa.Array) -> pa.Array:
    """Return where each list begins, and where the last one ends."""
    counts: NDArray[np.int64] = primitive_values(lengths.cast(pa.int64()).fill_null(0))
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    if offsets[-1] > _LIST_ITEMS_MAX:
        raise pa.ArrowInvalid(f"a batch has {offsets[-1]} items; append fewer rows at once")
    return primitive_array(offsets.astype(np.int32))


def _wide_decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return integers as decimals of the target's scale that hold any: Arrow checks types first."""
    digits = INTEGER_DIGITS.get(normal_type(array.type), DECIMAL_DIGITS_MAX)
    precision = min(digits + target.scale, DECIMAL_DIGITS_MAX)
    return array.cast(pa.decimal128(precision, target.scale), safe=True)

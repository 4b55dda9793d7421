"""NumPy arrays and Python values as Arrow's, and back; integers of 128 bits. Without pandas.

Integers of 128 bits, as decimals of many digits need them, are two halves of 64 bits a row. The
value is `high * 2**64 + low`, where `low` counts as unsigned: two's complement, as in Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.errors import InvalidInputError

WIDE: Final = np.dtype([("low", np.int64), ("high", np.int64)])

_HALF: Final = 1 << 64


def primitive_array(values: NDArray[Any], validity: NDArray[np.bool_] | None = None) -> pa.Array:
    """Return an Arrow array of booleans, integers or floats, which shares values but for booleans.

    So they must not change afterwards; `validity` is true where there is a value.
    """
    arrow_type = pa.from_numpy_dtype(values.dtype)
    content = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else values
    bitmap, null_count = validity_bitmap(validity)
    buffers = [bitmap, pa.py_buffer(np.ascontiguousarray(content))]
    return pa.Array.from_buffers(arrow_type, len(values), buffers, null_count)


def text_array(
    offsets: NDArray[np.int32],
    content: memoryview | NDArray[np.uint8],
    arrow_type: pa.DataType,
    validity: NDArray[np.bool_] | None,
) -> pa.Array:
    """Return strings or binary values as an Arrow array; offsets and bytes are not checked.

    `validity` is true where there is a value; None means everywhere.
    """
    bitmap, null_count = validity_bitmap(validity)
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(content)]
    return pa.Array.from_buffers(arrow_type, len(offsets) - 1, buffers, null_count)


def text_buffers(array: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return (offsets int32[n + 1], content) as an array of strings or binary values holds them.

    Both are read-only, so that kernels are compiled for one kind of array.
    """
    _, offset_buffer, content_buffer = array.buffers()
    offsets, content = np.zeros(1, np.int32), np.zeros(0, np.uint8)
    if offset_buffer is not None:
        offsets = np.frombuffer(offset_buffer, np.int32)
    if content_buffer is not None:
        content = np.frombuffer(content_buffer, np.uint8)
    offsets = offsets[array.offset : array.offset + len(array) + 1]
    offsets.flags.writeable = content.flags.writeable = False
    return offsets, content


def validity_bitmap(validity: NDArray[np.bool_] | None) -> tuple[pa.Buffer | None, int]:
    """Return (Arrow's validity bitmap, how many rows are null); `validity` is true for values."""
    if validity is None:
        return None, 0
    null_count = len(validity) - int(np.count_nonzero(validity))
    return pa.py_buffer(np.packbits(validity, bitorder="little")), null_count


def primitive_values(array: pa.Array) -> NDArray[Any]:
    """Return the values of an array of booleans, integers or floats without nulls.

    The result shares its memory, save for booleans, and is then read-only.
    """
    start, end = array.offset, array.offset + len(array)
    content = array.buffers()[1]
    if array.type == pa.bool_():
        if content is None:
            return np.zeros(0, np.bool_)
        held = np.frombuffer(content, np.uint8)[start // 8 : (end + 7) // 8]
        bits = np.unpackbits(held, bitorder="little")
        return bits[start % 8 : start % 8 + len(array)].view(np.bool_)
    dtype = numpy_dtype(array.type)
    values: NDArray[Any] = np.zeros(0, dtype)
    if len(array):
        values = np.frombuffer(content, dtype, len(array), start * np.dtype(dtype).itemsize)
    values.flags.writeable = False
    return values


def numpy_dtype(arrow_type: pa.DataType) -> np.dtype[Any]:
    """Return the dtype of a boolean, integer or float type; pyarrow below 26 asks pandas for it."""
    if pa.types.is_boolean(arrow_type):
        return np.dtype(np.bool_)
    if pa.types.is_floating(arrow_type):
        return np.dtype(f"f{arrow_type.bit_width // 8}")
    if not pa.types.is_integer(arrow_type):
        raise InvalidInputError("PROJSEG_INTERNAL", f"{arrow_type} is not a type of plain numbers")
    sign = "i" if pa.types.is_signed_integer(arrow_type) else "u"
    return np.dtype(f"{sign}{arrow_type.bit_width // 8}")


def filled_values(array: pa.Array, null: float) -> NDArray[Any]:
    """Return the values of an array of booleans, integers or floats, `null` where it has none."""
    return primitive_values(
        array.fill_null(scalar_of(null, array.type)) if array.null_count else array
    )


def valid_values(array: pa.Array) -> NDArray[np.bool_]:
    """Return bool[n], true where the array holds a value."""
    return primitive_values(array.is_valid())


def array_of(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Return Python values, some of which may be None, as an Arrow array.

    Lists, structs, maps and timestamps are left to pyarrow, and so to pandas. A value of another
    type raises OverflowError, TypeError, ValueError, pa.ArrowInvalid or pa.ArrowTypeError.
    """
    validity = np.array([value is not None for value in values], np.bool_)
    if not validity.any():
        return pa.nulls(len(values), arrow_type)
    if pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type):
        texts = [value.encode() if isinstance(value, str) else value or b"" for value in values]
        offsets = np.array([*accumulate(map(len, texts), initial=0)], np.int32)
        present = None if validity.all() else validity
        return text_array(offsets, memoryview(b"".join(texts)), arrow_type, present)
    if pa.types.is_decimal(arrow_type):
        digits = [None if value is None else format(value, "f") for value in values]
        return array_of(digits, pa.string()).cast(arrow_type)
    if pa.types.is_date32(arrow_type):
        days = np.array(values, "datetime64[D]").astype(np.int64)
        return primitive_array(days.astype(np.int32), validity).cast(arrow_type)
    is_number = pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type)
    if not is_number and not pa.types.is_boolean(arrow_type):
        return pa.array(values, arrow_type)
    plain = [0 if value is None else value for value in values]
    numbers = np.array(plain, numpy_dtype(arrow_type))
    return primitive_array(numbers, None if validity.all() else validity)


def scalar_of(value: Any, arrow_type: pa.DataType) -> pa.Scalar:
    """Return a Python value, or None, as an Arrow scalar; raise as `array_of` does."""
    return array_of([value], arrow_type)[0]


def halves(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return WIDE[n], contiguous, as int64[n, 2]; the memory is the same."""
    return values.view(np.int64).reshape(-1, 2)


def as_wide(values: NDArray[Any]) -> NDArray[Any]:
    """Return int64[n], WIDE[n], or Python integers of at most 128 bits, object[n], as WIDE[n]."""
    if values.dtype == WIDE:
        return np.ascontiguousarray(values)
    wide = np.empty(len(values), WIDE)
    if values.dtype == object:
        wide["low"] = (values & (_HALF - 1)).astype(np.uint64).view(np.int64)
        wide["high"] = (values >> 64).astype(np.int64)
    else:
        wide["low"] = values
        wide["high"] = wide["low"] >> 63
    return wide


def to_objects(values: NDArray[Any]) -> NDArray[Any]:
    """Return WIDE[n] as Python integers, object[n]."""
    low = np.ascontiguousarray(values["low"]).view(np.uint64)
    return np.asarray(values["high"].astype(object) * _HALF + low.astype(object), dtype=object)


def limits(values: NDArray[Any]) -> tuple[int, int]:
    """Return the least and the greatest of integers of any width; (0, 0) if there are none.

    `values` is integer[n], WIDE[n] or object[n].
    """
    if len(values) == 0:
        return 0, 0
    if values.dtype != WIDE:
        return int(values.min()), int(values.max())
    ends = []
    for is_greatest in (False, True):
        high = values["high"].max() if is_greatest else values["high"].min()
        low = values["low"][values["high"] == high].view(np.uint64)
        ends.append(int(high) * _HALF + int(low.max() if is_greatest else low.min()))
    return ends[0], ends[1]


def are_at_least(values: NDArray[Any], least: int) -> NDArray[np.bool_]:
    """Return which of WIDE[n] are no less than a number, bool[n]."""
    high, low = values["high"], values["low"].view(np.uint64)
    upper, lower = least >> 64, least & (_HALF - 1)
    if not -(1 << 63) <= upper < 1 << 63:
        return np.full(len(values), upper < 0)
    inside: NDArray[np.bool_] = (high > upper) | ((high == upper) & (low >= np.uint64(lower)))
    return inside

"""Walk the footer of a Parquet file, in Thrift's compact protocol, and prove what Arrow does not.

pyarrow ends the process where it looks at a part of a row group that does not fit the schema. No
footer may make the walk see something else than Arrow, which takes items of a list that it knows
for what they should be, whatever the list says.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import inlined_kernel, kernel
from projseg.kernels.texts.text_bytes import read_only

_BYTE_ARRAY: Final = 6  # the physical type of texts
_DEPTH_MAX: Final = 32
_FIELD_MAX: Final = 2**15 - 1
_STOP, _TRUE, _FALSE, _BYTE, _INT16, _INT32, _INT64, _DOUBLE = range(8)
_BINARY, _LIST, _SET, _, _STRUCT = range(8, 13)
_REFUSED: Final = 15  # no type has this number
_OTHER, _FILE, _ROW_GROUP, _CHUNK, _PART, _STATISTICS, _SIZES, _PLACES = range(8)


def _fields() -> NDArray[np.int64]:
    """Return the type, that of items and the kind of structs of each field of a kind of struct.

    Fields of encrypted parts are refused; of those with type 0 nothing is to be known.
    """
    fields = np.zeros((8, 18, 3), np.int64)
    fields[_FILE, [2, 5, 7]] = fields[_ROW_GROUP, 4] = _LIST, _STRUCT, _OTHER
    fields[_FILE, 4] = _LIST, _STRUCT, _ROW_GROUP
    fields[_ROW_GROUP, 1] = _LIST, _STRUCT, _CHUNK
    fields[_CHUNK, 3] = _STRUCT, 0, _PART
    fields[_CHUNK, [8, 9]] = _REFUSED, 0, _OTHER
    fields[_PART, 1] = _INT32, 0, _OTHER
    fields[_PART, 2] = fields[_PLACES, 2] = _LIST, _INT32, _OTHER
    fields[_PART, 3] = _LIST, _BINARY, _OTHER
    fields[_PART, [8, 13]] = _LIST, _STRUCT, _OTHER
    fields[_PART, 12] = _STRUCT, 0, _STATISTICS
    fields[_PART, 16] = _STRUCT, 0, _SIZES
    fields[_PART, 17] = _STRUCT, 0, _PLACES
    fields[_STATISTICS, [1, 2, 5, 6]] = _BINARY, 0, _OTHER
    fields[_SIZES, 1] = _INT64, 0, _OTHER
    fields[_SIZES, 2:4] = _LIST, _INT64, _OTHER
    return fields


_FIELDS: Final = _fields()


def misfit(footer: NDArray[np.uint8], columns: NDArray[np.int64]) -> int | None:
    """Return the byte at which a footer is damaged or does not fit its schema; None if it fits.

    `columns`, int64[4, leaves], has of each leaf its physical type, how often it repeats and is
    optional at most, and the bytes that a bound has at least.
    """
    if columns.ndim != 2 or len(columns) != len(("type", "repeated", "optional", "width")):
        raise InvalidInputError("PROJSEG_INTERNAL", "columns of a footer come as four rows")
    frames = np.zeros((_DEPTH_MAX, 3), np.int64)
    found = int(_first_misfit(read_only(footer), _FIELDS, np.ascontiguousarray(columns), frames))
    return None if found < 0 else found


@kernel(interpretable=True)
def _first_misfit(
    content: NDArray[np.uint8],
    fields: NDArray[np.int64],
    columns: NDArray[np.int64],
    frames: NDArray[np.int64],
) -> int:
    """Return where a footer does not fit, or -1.

    A frame is the kind of a struct, -1 and its last field; of a list it is the kind of its items,
    how many are left, and their type.

    Shapes: content [bytes]; fields [8, 18, 3]; columns [4, leaves]; frames [32, 3].
    Oracle: tests/oracle/parquet_footer.py::fits.
    """
    at, depth, column, is_typed = 0, 0, -1, False
    frames[0, 0], frames[0, 1], frames[0, 2] = _FILE, -1, 0
    while depth >= 0:
        start = at
        kind, left, found = frames[depth]
        if left == 0:
            depth -= 1
            continue
        field, item, inner = 0, 0, kind
        if left > 0:
            frames[depth, 1] = left - 1
        else:
            found, field, item, inner, at = _field(content, at, fields, frames[depth])
        is_stop = left < 0 and found == _STOP
        if at < 0 or (is_stop and kind == _CHUNK and not is_typed):
            return start
        if is_stop:
            depth -= 1
            continue
        value, items, at = _value(content, at, found, left > 0)
        if at < 0 or not _fits(columns, column, kind, field, value):
            return start
        if found in (_LIST, _SET, _STRUCT):
            depth += 1
            if depth == len(frames) or (item and value and items != item):
                return start
            frames[depth, 0], frames[depth, 1], frames[depth, 2] = inner, value, items
        is_typed = is_typed or (kind == _PART and field == 1)
        if inner == _CHUNK:
            column, is_typed = (column + 1 if found == _STRUCT else -1), False
    return -1


@inlined_kernel
def _field(
    content: NDArray[np.uint8], at: int, fields: NDArray[np.int64], frame: NDArray[np.int64]
) -> tuple[int, int, int, int, int]:
    """Return the type of a field, what is to be known of it, and where its value begins.

    That is its number, the type of items and the kind of structs, or zeros; it begins at -1 where
    it is damaged.

    Shapes: content [bytes]; fields [8, 18, 3]; frame [3].
    Part of: `_first_misfit`.
    """
    if at >= len(content):
        return 0, 0, 0, 0, -1
    head: Any = np.int64(content[at])
    found, field = head & 15, frame[2] + (head >> 4)
    at += 1
    if found == _STOP:
        return found, 0, 0, 0, at
    if head < 16:
        number, at = _number(content, at)
        field = -1 if number & 1 else number >> 1
    if not 0 <= field <= _FIELD_MAX:
        return 0, 0, 0, 0, -1
    frame[2] = field
    wanted, item, inner = fields[frame[0], field if field < fields.shape[1] else 0]
    if wanted == 0:
        return found, 0, 0, 0, at
    return found, field, item, inner, at if found == wanted else -1


@inlined_kernel
def _value(content: NDArray[np.uint8], at: int, kind: int, is_item: bool) -> tuple[int, int, int]:
    """Return a number, a length or -1 of a struct, the type of items, and where the next begins.

    That is the first item, or what is behind the value; it begins at -1 where it is damaged.

    Shapes: content [bytes].
    Part of: `_first_misfit`.
    """
    value, items = -1 if kind == _STRUCT else 0, 0
    if kind in (_TRUE, _FALSE):
        at += is_item
    elif kind in (_BYTE, _DOUBLE):
        at += 1 if kind == _BYTE else 8
    elif kind in (_INT16, _INT32, _INT64, _BINARY):
        value, at = _number(content, at)
        if kind == _BINARY and at >= 0:
            at = at + value if value <= len(content) else -1
    elif kind in (_LIST, _SET) and at < len(content):
        head: Any = np.int64(content[at])
        value, items = head >> 4, head & 15
        at += 1
        if value == 15:
            value, at = _number(content, at)
        at = at if value <= len(content) else -1
    elif kind != _STRUCT:
        at = -1
    return value, items, at if at <= len(content) else -1


@inlined_kernel
def _number(content: NDArray[np.uint8], at: int) -> tuple[int, int]:
    """Return a number of at most ten bytes, but for its last bit, and where it ends; -1 if nowhere.

    Shapes: content [bytes].
    Part of: `_value`.
    """
    value = 0
    for place in range(at, min(at + 10, len(content))):
        byte: Any = np.int64(content[place])
        if place < at + 9:
            value |= (byte & 127) << 7 * (place - at)
        if byte < 128:
            return value, place + 1
    return 0, -1


@inlined_kernel
def _fits(columns: NDArray[np.int64], column: int, kind: int, field: int, value: int) -> Any:
    """Return whether a number or a length is one that the schema allows.

    Shapes: columns [4, leaves].
    Part of: `_first_misfit`.
    """
    if field == 0:
        return True
    if kind == _ROW_GROUP and field == 1:
        return value == columns.shape[1]
    if kind == _PART and field == 1:
        return value == 2 * columns[0, column]
    if kind == _STATISTICS:
        return value >= columns[3, column]
    if kind == _SIZES and field == 1:
        return columns[0, column] == _BYTE_ARRAY
    return kind != _SIZES or value in (0, columns[field - 1, column] + 1)

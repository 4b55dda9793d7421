"""The types of a kernel's arguments, as short texts, and how machine code takes them.

Numba compiles a kernel once for each combination of types. The texts tell these apart as Numba
does, without Numba: `u4C1` is an array of uint32 of one dimension, `r` after it is one that cannot
be written, `si8` is an int64 that is no array.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_KINDS: Final = "biuf"  # of dtypes
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_SCALARS: Final[dict[str, Any]] = {
    "sb1": ctypes.c_uint8,
    "si1": ctypes.c_int8,
    "si2": ctypes.c_int16,
    "si4": ctypes.c_int32,
    "si8": ctypes.c_int64,
    "su1": ctypes.c_uint8,
    "su2": ctypes.c_uint16,
    "su4": ctypes.c_uint32,
    "su8": ctypes.c_uint64,
    "sf4": ctypes.c_float,
    "sf8": ctypes.c_double,
}
_FORMATS: Final = {
    "sb1": "?",
    "si1": "b",
    "si2": "h",
    "si4": "i",
    "si8": "q",
    "su1": "B",
    "su2": "H",
    "su4": "I",
    "su8": "Q",
    "sf4": "f",
    "sf8": "d",
}
NONE: Final = "n"
_OF_PYTHON: Final[dict[type, str]] = {int: "si8", bool: "sb1", float: "sf8", type(None): NONE}


class KernelFailedError(Exception):
    """A kernel raised an error, which only Numba can name."""


TypeKey: TypeAlias = tuple[str, int, int] | type[object] | None
"""What tells types apart quickest: an array's dtype, flags and dimensions, or a class."""


def type_key(argument: object) -> TypeKey:
    """Return a key that is equal for arguments of equal types; None for what only Numba takes."""
    kind = type(argument)
    if kind is np.ndarray:
        array = cast("np.ndarray[Any, Any]", argument)
        dtype = array.dtype
        return dtype.char, array.flags.num, array.ndim if dtype.isnative else -1
    if kind is int and not _INT64_MIN <= cast("int", argument) <= _INT64_MAX:
        return None
    return kind


def type_of(argument: object) -> str | None:
    """Return the text of a value's type; None for what only Numba takes."""
    if type(argument) is np.ndarray:
        return _array_type(argument)
    if type_key(argument) is None:
        return None
    if isinstance(argument, np.generic):
        text = f"s{argument.dtype.kind}{argument.dtype.itemsize}"
        return text if text in _SCALARS else None
    return _OF_PYTHON.get(type(argument))


def _array_type(array: np.ndarray[Any, Any]) -> str | None:
    dtype, flags = array.dtype, array.flags
    if dtype.kind not in _KINDS or not dtype.isnative or not flags.aligned:
        return None
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    suffix = "" if flags.writeable else "r"
    return f"{dtype.kind}{dtype.itemsize}{layout}{array.ndim}{suffix}"


def c_types(text: str) -> list[Any]:
    """Return how machine code takes an argument of a type.

    An array is two owners, which are null here, its item count, its item size, its address, its
    shape and its strides.
    """
    if text == NONE:
        return [ctypes.c_void_p]
    if text in _SCALARS:
        return [_SCALARS[text]]
    dimensions = int(text.rstrip("r")[3:])
    pointer, word = ctypes.c_void_p, ctypes.c_int64
    return [pointer, pointer, word, word, pointer] + [word] * (2 * dimensions)


def c_values_of(text: str) -> Callable[[Any], tuple[Any, ...]]:
    """Return what makes of an argument of a type the values that machine code takes."""
    if text in _SCALARS or text == NONE:
        return _scalar_values
    layout, dimensions = text[2], text.rstrip("r")[3:]
    if layout != "C":
        return _spread_values
    return _row_values if dimensions == "1" else _block_values


def _scalar_values(argument: Any) -> tuple[Any, ...]:
    return (argument.item() if isinstance(argument, np.generic) else argument,)


def _row_values(array: NDArray[Any]) -> tuple[Any, ...]:
    """Return the values of an array of one dimension without gaps: most arguments are such."""
    size, item_bytes = array.size, array.itemsize
    # In a tenth of the time that NumPy takes for the address.
    return None, None, size, item_bytes, pa.py_buffer(array).address, size, item_bytes


def _block_values(array: NDArray[Any]) -> tuple[Any, ...]:
    address = pa.py_buffer(array).address
    return (None, None, array.size, array.itemsize, address, *array.shape, *array.strides)


def _spread_values(array: NDArray[Any]) -> tuple[Any, ...]:
    address = array.__array_interface__["data"][0]
    return (None, None, array.size, array.itemsize, address, *array.shape, *array.strides)


def result_layout(types: Sequence[str]) -> Struct:
    """Return how results of these types lie in memory."""
    return Struct("=" + "".join(_FORMATS[text] for text in types))

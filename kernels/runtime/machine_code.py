"""How the machine code of kernels takes arguments, and is cut out of Numba's object files.

Numba compiles a kernel once for each combination of types. Short texts tell these apart as Numba
does, without Numba: `u4C1` is an array of uint32 of one dimension, `r` after it is one that cannot
be written, `si8` is an int64 that is no array.

The object also holds wrappers through which Python calls the kernel, and these need Numba. The code
itself needs nothing: it addresses what it uses by 64-bit words, which are known once the code has a
place in memory. A kernel that does not fit this picture is not copied, and Numba runs it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, TypeAlias, cast

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_KINDS: Final = "biuf"  # of dtypes
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
# From the text of a scalar's type to how it is passed, and how it lies among results.
_SCALARS: Final[dict[str, tuple[Any, str]]] = {
    "sb1": (ctypes.c_uint8, "?"),
    "si1": (ctypes.c_int8, "b"),
    "si2": (ctypes.c_int16, "h"),
    "si4": (ctypes.c_int32, "i"),
    "si8": (ctypes.c_int64, "q"),
    "su1": (ctypes.c_uint8, "B"),
    "su2": (ctypes.c_uint16, "H"),
    "su4": (ctypes.c_uint32, "I"),
    "su8": (ctypes.c_uint64, "Q"),
    "sf4": (ctypes.c_float, "f"),
    "sf8": (ctypes.c_double, "d"),
}
NONE: Final = "n"
_OF_PYTHON: Final[dict[type, str]] = {int: "si8", bool: "sb1", float: "sf8", type(None): NONE}

_MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_X86_64: Final = 62
_SECTION: Final = np.dtype(
    [
        ("name", "<u4"),
        ("type", "<u4"),
        ("flags", "<u8"),
        ("address", "<u8"),
        ("offset", "<u8"),
        ("size", "<u8"),
        ("link", "<u4"),
        ("info", "<u4"),
        ("alignment", "<u8"),
        ("entry_bytes", "<u8"),
    ]
)
_SYMBOL: Final = np.dtype(
    [
        ("name", "<u4"),
        ("info", "u1"),
        ("other", "u1"),
        ("section", "<u2"),
        ("value", "<u8"),
        ("size", "<u8"),
    ]
)
_RELOCATION: Final = np.dtype(
    [("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("add", "<i8")]
)
_SYMBOLS, _RELOCATIONS = 2, 4  # types of sections
_WRITABLE, _IN_MEMORY = 1, 2  # flags of sections
_ABSOLUTE_64: Final = 1
_WORD_BYTES: Final = 8
_WRAPPERS: Final = ("_ZN7cpython", "cfunc.")
# Called when the last reference to an array that Numba made is gone: kernels here make none.
_NEVER_CALLED: Final = "NRT_MemInfo_call_dtor"
IMPORTED: Final = frozenset(("memcpy", "memmove", "memset"))
"""The functions of the C library that code may call."""

TypeKey: TypeAlias = tuple[str, int, int] | type[object] | None
"""What tells types apart quickest: an array's dtype, flags and dimensions, or a class."""


class KernelFailedError(Exception):
    """A kernel raised an error, which only Numba can name."""


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
        return [_SCALARS[text][0]]
    dimensions = int(text.rstrip("r")[3:])
    pointer, word = ctypes.c_void_p, ctypes.c_int64
    return [pointer, pointer, word, word, pointer] + [word] * (2 * dimensions)


def c_values_of(text: str) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function from an argument of a type to the values that machine code takes."""
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
    """Return the memory layout of results of these types."""
    return Struct("=" + "".join(_SCALARS[text][1] for text in types))


class MachineCode(msgspec.Struct, frozen=True, array_like=True):
    """An image of code and its constants, to be put anywhere in memory, which begins at `entry`.

    The image's address is added to the words at `places`; those at `imports` get the address of a
    function of the C library.
    """

    image: bytes
    entry: int
    places: list[int]
    imports: list[tuple[int, str]]


def machine_code(content: bytes, function: str) -> MachineCode | None:
    """Return a function of Numba's object file with all that it calls, or None if it needs more."""
    if content[:6] != _MAGIC or int.from_bytes(content[18:20], "little") != _X86_64:
        return None
    return _Object(content).cut(function)


class _Object:
    """An ELF object file, parsed."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        start, count = int.from_bytes(content[40:48], "little"), content[60]
        self._sections = np.frombuffer(content, _SECTION, count, start)
        (table,) = self._sections[self._sections["type"] == _SYMBOLS]
        self._symbols = self._records(table, _SYMBOL)
        names = self._bytes(self._sections[table["link"]])
        self._names = [
            names[start : names.index(b"\0", start)].decode()
            for start in self._symbols["name"].tolist()
        ]
        self._starts: dict[int, int] = {}  # where in the image a section begins
        self._image = bytearray()

    def cut(self, function: str) -> MachineCode | None:
        """Return the code and the addresses that it uses, or None."""
        self._place_sections()
        places, imports = list[int](), list[tuple[int, str]]()
        for place, record in self._relocations():
            if record["type"] != _ABSOLUTE_64:
                return None
            name, symbol = self._names[record["symbol"]], self._symbols[record["symbol"]]
            section = int(symbol["section"])
            if section in self._starts:
                value = self._starts[section] + int(symbol["value"])
                word = value + int(record["add"])
                self._image[place : place + _WORD_BYTES] = word.to_bytes(_WORD_BYTES, "little")
                places.append(place)
            elif name in IMPORTED:
                imports.append((place, name))
            elif name != _NEVER_CALLED:
                return None
        symbol = self._symbols[self._names.index(function)]
        entry = self._starts[int(symbol["section"])] + int(symbol["value"])
        return MachineCode(bytes(self._image), entry, places, imports)

    def _place_sections(self) -> None:
        """Put code and constants into the image; what is writable stays out."""
        for index, section in enumerate(self._sections):
            if section["flags"] & (_WRITABLE | _IN_MEMORY) != _IN_MEMORY or not section["size"]:
                continue
            self._image += bytes(-len(self._image) % max(int(section["alignment"]), 1))
            self._starts[index] = len(self._image)
            self._image += self._bytes(section)

    def _relocations(self) -> Any:
        """Yield (word of the image, record) for all that is not a wrapper's or a debugger's."""
        for section in self._sections[self._sections["type"] == _RELOCATIONS]:
            target = int(section["info"])
            if target not in self._starts or self._is_unwinding(target):
                continue
            skipped = [
                (int(symbol["value"]), int(symbol["value"] + symbol["size"]))
                for name, symbol in zip(self._names, self._symbols, strict=True)
                if symbol["section"] == target and name.startswith(_WRAPPERS)
            ]
            for record in self._records(section, _RELOCATION):
                offset = int(record["offset"])
                if not any(start <= offset < end for start, end in skipped):
                    yield self._starts[target] + offset, record

    def _is_unwinding(self, section: int) -> bool:
        """Whether a section is `.eh_frame`, which only C++ exceptions and debuggers read."""
        names = self._sections[int.from_bytes(self._content[62:64], "little")]
        start = int(self._sections[section]["name"])
        return self._bytes(names)[start:].startswith(b".eh_frame\0")

    def _records(self, section: Any, dtype: np.dtype[Any]) -> Any:
        return np.frombuffer(self._bytes(section), dtype)

    def _bytes(self, section: Any) -> bytes:
        start = int(section["offset"])
        return self._content[start : start + int(section["size"])]

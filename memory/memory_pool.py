"""Memory from Arrow's pool, which keeps what is freed; sizes in bytes, as text and of objects.

The C library gives large blocks back to the system at once, so the next query would fault every
page in again; at a few bytes a row that costs more than the kernel that fills them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from projseg.errors import InvalidInputError

# Smaller blocks are kept by the C library too, and cost less there.
_POOLED_BYTES_MIN: Final = 1 << 16
_HUGE_BYTES_MIN: Final = 1 << 22


def empty(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of undefined content, dtype[count]; objects are NumPy's to hold."""
    wanted = np.dtype(dtype)
    byte_count = count * wanted.itemsize
    if byte_count < _POOLED_BYTES_MIN or wanted.hasobject:
        return np.empty(count, wanted)
    return np.frombuffer(pa.allocate_buffer(byte_count), wanted)


def zeros(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros, dtype[count]."""
    array = empty(count, dtype)
    array.fill(0)
    return array


def empty_to_keep(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of undefined content, dtype[count], for data that outlives the query.

    NumPy asks the system for huge pages where an array is large, which random look-ups gain from.
    """
    wanted = np.dtype(dtype)
    if count * wanted.itemsize >= _HUGE_BYTES_MIN:
        return np.empty(count, wanted)
    return empty(count, wanted)


_SIZE: Final = re.compile(r"(\d{1,18})\s*([KMGT]?)(?:I?B)?", re.IGNORECASE)
_SHIFTS: Final = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def parse_byte_count(text: str, name: str) -> int:
    """Return the bytes that a text such as `4G` means; suffixes are powers of 1024.

    It is digits, then nothing or K, M, G or T, then nothing, B or iB, in any case.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"{name} is {text[:80]!r}; it takes a number of bytes, such as 4294967296, 4G or 512M",
        )
    return int(found[1]) << _SHIFTS[found[2].upper()]


_CONTROL_GROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


@cache
def quarter_of_memory() -> int:
    """Return a quarter of the machine's memory, or of what its control group may take."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CONTROL_GROUP_LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        limit = ""
    return (min(memory, int(limit)) if limit.isdigit() else memory) // 4


_DEPTH_MAX: Final = 12


def array_bytes(held: Any) -> int:
    """Return the bytes of all arrays that an object's attributes and items hold."""
    return _array_bytes(held, set(), _DEPTH_MAX)


def _array_bytes(held: Any, seen: set[int], depth: int) -> int:
    if depth == 0 or held is None or isinstance(held, str | bytes | int | float | type):
        return 0
    if id(held) in seen:
        return 0
    seen.add(id(held))
    if isinstance(held, np.ndarray | pa.Array | pa.Buffer):
        return int(held.size if isinstance(held, pa.Buffer) else held.nbytes)
    return sum(_array_bytes(part, seen, depth - 1) for part in _parts(held))


def _parts(held: Any) -> Iterable[Any]:
    if isinstance(held, Mapping):
        return held.values()
    if isinstance(held, list | tuple):
        return held
    if isinstance(held, msgspec.Struct):
        return [getattr(held, name) for name in held.__struct_fields__]
    slots = [name for kind in type(held).__mro__ for name in getattr(kind, "__slots__", ())]
    own = getattr(held, "__dict__", {})
    return [*own.values(), *(getattr(held, name, None) for name in slots)]

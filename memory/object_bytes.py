"""The bytes of the arrays that an object holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

_DEPTH_MAX: Final = 12


def array_bytes(held: Any) -> int:
    """Return the bytes of all arrays that an object's attributes and items hold.

    Parameters
    ----------
    held : object
        What is shared, as a dictionary that a segment owns, is counted like anything else, once.
    """
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

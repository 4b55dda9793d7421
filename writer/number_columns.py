"""Fixed-width Arrow columns as numbers no wider than they need be, a stretch of rows at a time.

A stretch stays in the processor's cache while it is converted, and only the column, in the bytes
that its range takes, is left in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.memory.memory_pool import empty
from projseg.segment_format.layout.logical_types import arrow_to_numbers
from projseg.segment_format.vectors.vectors import Numbers

_ROWS: Final = 1 << 16
_NARROW: Final[tuple[np.dtype[Any], ...]] = tuple(map(np.dtype, ("u1", "u2", "u4")))


class _Stretch(NamedTuple):
    """Rows of a column: base + values, which lie from `low` to `high` where they are not null."""

    values: NDArray[Any]
    validity: NDArray[np.bool_] | None
    base: int
    low: int | None
    high: int | None


def numbers_of(column: pa.ChunkedArray) -> Numbers:
    """Return a fixed-width column as `Numbers`; integers are as narrow as their range allows."""
    stretches = [_stretch(*arrow_to_numbers(rows)) for rows in _pieces(column)]
    validity = _joined_validity(stretches)
    if any(stretch.values.dtype.kind in "fO" for stretch in stretches):
        values = [_complete(stretch) for stretch in stretches]
        return Numbers(np.concatenate(values), column.type, validity=validity)
    low = min((s.low for s in stretches if s.low is not None), default=0)
    high = max((s.high for s in stretches if s.high is not None), default=0)
    base, dtype = _form(low, high)
    joined = empty(len(column), dtype)
    start = 0
    for stretch in stretches:
        _put(stretch, joined[start : start + len(stretch.values)], base)
        start += len(stretch.values)
    bounds = min(0, low - base), max(0, high - base)  # nulls hold 0
    return Numbers(joined, column.type, base, validity, bounds)


def _pieces(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield the rows as arrays of at most `_ROWS`, at least one."""
    if len(column) == 0:
        yield pa.nulls(0, column.type)
    for chunk in column.chunks:
        for start in range(0, len(chunk), _ROWS):
            yield chunk.slice(start, _ROWS)


def _stretch(values: NDArray[Any], validity: NDArray[np.bool_] | None) -> _Stretch:
    known = values if validity is None else values[validity]
    if values.dtype.kind in "fO" or len(known) == 0:
        return _Stretch(values, validity, 0, None, None)
    low, high = int(known.min()), int(known.max())
    base, dtype = _form(low, high)
    return _Stretch((values - base).astype(dtype, copy=False), validity, base, low, high)


def _form(low: int, high: int) -> tuple[int, np.dtype[Any]]:
    """Return the base and the dtype of integers in a range."""
    for dtype in _NARROW:
        if high - low <= np.iinfo(dtype).max:
            return low, dtype
    return 0, np.dtype(np.int64)


def _put(stretch: _Stretch, target: NDArray[Any], base: int) -> None:
    """Write a stretch as values less `base`; 0 for nulls."""
    if stretch.low is None:
        target.fill(0)
        return
    np.copyto(target, stretch.values, casting="unsafe")
    target += target.dtype.type(stretch.base - base)
    if stretch.validity is not None:
        target[~stretch.validity] = 0


def _complete(stretch: _Stretch) -> NDArray[Any]:
    """Return floats, or integers of which others do not fit 64 bits, as they are."""
    if stretch.values.dtype.kind in "fO":
        return stretch.values
    complete = stretch.values.astype(object) + stretch.base
    if stretch.validity is not None:
        complete[~stretch.validity] = 0
    return complete


def _joined_validity(stretches: Sequence[_Stretch]) -> NDArray[np.bool_] | None:
    if all(stretch.validity is None for stretch in stretches):
        return None
    present = [
        np.ones(len(stretch.values), np.bool_) if stretch.validity is None else stretch.validity
        for stretch in stretches
    ]
    return np.concatenate(present)

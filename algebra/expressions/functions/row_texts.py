"""Texts from row to row: arguments as kernels take them, and arrays of what kernels return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.functions.datum import (
    Datum,
    all_valid,
    as_array,
    check_text_bytes,
    integers,
    text_limit,
    texts_too_large,
)
from projseg.memory.forks import late_import
from projseg.segment_format.arrow_arrays import primitive_array, text_array, text_buffers

if TYPE_CHECKING:
    from projseg.kernels.texts.text_changes import Written
    from projseg.kernels.texts.text_parts import Spans, Texts

Write: TypeAlias = "Callable[[NDArray[np.bool_], int], Written]"
"""(rows that are computed, most bytes) -> texts, or None where they would take more."""


def texts_of(datum: Datum) -> Texts:
    """Return strings or binary values: one if the datum is one for all rows."""
    return text_buffers(as_array(datum, 1))


def numbers_of(datum: Datum) -> NDArray[np.int64]:
    """Return whole numbers: one if the datum is one for all rows; null as 0."""
    return integers(datum, 1)


def parts_of(arguments: Sequence[Datum], spans: Spans, row_count: int) -> pa.Array:
    """Return parts of the first argument, null where an argument is null."""
    with late_import:
        from projseg.kernels.texts.text_bytes import gathered
    valid = all_valid(arguments, row_count)
    starts, sizes = spans
    sizes[~valid] = 0
    check_text_bytes(int(sizes.sum()), arguments, row_count)
    offsets = np.zeros(row_count + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    content = gathered(starts, sizes, texts_of(arguments[0])[1])
    return text_array(offsets, content, arguments[0].type, None if valid.all() else valid)


def written_texts(
    write: Write, arguments: Sequence[Datum], row_count: int, result: pa.DataType
) -> pa.Array:
    """Return the texts that a kernel writes, null where an argument is null."""
    valid = all_valid(arguments, row_count)
    found = write(valid, text_limit(arguments, row_count))
    if found is None:
        raise texts_too_large(row_count)
    return text_array(*found, result, None if valid.all() else valid)


def truths(found: NDArray[np.bool_], valid: NDArray[np.bool_]) -> pa.Array:
    """Return bool[n] as an array, null where not valid."""
    return primitive_array(found, None if valid.all() else valid)

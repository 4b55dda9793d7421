"""Dictionaries as pages: their values in order, and a part of value hashes. SPEC.md section 4.3.

A dictionary read back is proved sorted and free of duplicates: pruning, bitmaps and grouping all
rely on it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from projseg.errors import InvalidInputError
from projseg.kernels.text_order import first_disorder
from projseg.segment_format.column_writer import vector_pages
from projseg.segment_format.dictionary import Dictionary
from projseg.segment_format.encodings.text import text_parts
from projseg.segment_format.limits import (
    DICTIONARY_BYTES_MAX,
    DICTIONARY_VALUES_MAX,
    require_limit,
)
from projseg.segment_format.page_encoder import EncodedPage
from projseg.segment_format.types import arrow_to_numbers, is_fixed_width, is_text
from projseg.segment_format.vectors import Numbers, Opaque


def dictionary_pages(dictionary: Dictionary) -> Iterator[EncodedPage]:
    """Yield the pages of a dictionary's values.

    Raises
    ------
    InvalidInputError
        If the values are not strictly ascending, or of a type that has no order.
    LimitExceededError
        If there are too many.
    """
    values = dictionary.values
    require_limit("number of values of a dictionary", len(values), DICTIONARY_VALUES_MAX)
    if is_text(values.type):
        require_limit("size of a dictionary in bytes", values.nbytes, DICTIONARY_BYTES_MAX)
    if problem := order_problem(values):
        raise InvalidInputError("PROJSEG_INTERNAL", f"a dictionary {problem}")
    if is_fixed_width(values.type):
        numbers, validity = arrow_to_numbers(values)
        yield from vector_pages(Numbers(numbers, values.type, 0, validity))
    else:
        yield from vector_pages(Opaque(values), is_sorted=True)


def order_problem(values: pa.Array) -> str | None:
    """Return why these values are no dictionary, or None if they are one."""
    nulls = values.null_count
    if nulls > 1 or (nulls and values[0].is_valid):
        return "holds a null other than the first value"
    known = values.slice(nulls)
    if is_text(values.type):
        disorder = first_disorder(*text_parts(known))
    elif is_fixed_width(values.type):
        numbers, _ = arrow_to_numbers(known)
        if numbers.dtype.kind == "f":
            return _float_disorder(numbers)
        steps = np.flatnonzero(numbers[1:] <= numbers[:-1])
        disorder = int(steps[0]) if len(steps) else -1
    else:
        return None if len(known) == 0 else f"of {values.type} has no order"
    return None if disorder < 0 else f"is not ascending after value {disorder + nulls}"


def _float_disorder(numbers: np.ndarray) -> str | None:
    """NaN is the greatest value and occurs once; -0.0 is 0.0."""
    nan_count = int(np.isnan(numbers).sum())
    if nan_count > 1 or (nan_count and not np.isnan(numbers[-1])):
        return "holds NaN other than as the last value"
    known = numbers[: len(numbers) - nan_count]
    return None if (known[1:] > known[:-1]).all() else "is not ascending"

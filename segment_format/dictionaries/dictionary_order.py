"""Proof that values are a dictionary: in order, each once. SPEC.md section 4.3.

Pruning, bitmaps and grouping all rely on it, so a dictionary is proved when it is written and again
when it is read.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from projseg.kernels.texts.texts import first_disorder
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.layout.logical_types import arrow_to_numbers, is_fixed_width, is_text


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

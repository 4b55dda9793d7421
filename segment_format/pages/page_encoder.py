"""A run of rows to the bytes of one page, with its zone map. SPEC.md section 5.

A page is a validity part, then a values part. Null rows take the place of the page's smallest value
(or an empty text), so that they cost nothing in the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.kernels.integer_codes import PageStatistics, page_statistics
from projseg.segment_format.encodings.encoding_table import (
    INTEGER_ENCODINGS,
    NESTED,
    NUMBER_ENCODINGS,
    TEXT_ENCODINGS,
)
from projseg.segment_format.encodings.nested_encoding import encode_validity, value_count
from projseg.segment_format.layout.format_limits import NESTED_VALUES_MAX, require_limit
from projseg.segment_format.layout.logical_types import is_nested
from projseg.segment_format.layout.page_directory import HAS_BOUNDS, HAS_NAN
from projseg.segment_format.pages.zone_map import float_bounds
from projseg.segment_format.vectors.arrow_arrays import valid_values


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """A page before compression, and what the directory will say of it."""

    raw: bytes
    row_count: int
    encoding: int
    validity: int = 0
    null_count: int = 0
    flags: int = 0
    minimum: int = 0
    maximum: int = 0


def encode_ids_page(ids: NDArray[Any], *, has_null: bool) -> EncodedPage:
    """Encode dictionary ids, unsigned[n]; id 0 counts as null where the dictionary has one."""
    values = ids.astype(np.int64)
    facts = page_statistics(values)
    encoding, raw = INTEGER_ENCODINGS.choose(values, facts).encode()
    return EncodedPage(
        raw,
        len(ids),
        encoding,
        null_count=len(ids) - int(np.count_nonzero(ids)) if has_null else 0,
        flags=HAS_BOUNDS,
        minimum=facts.minimum,
        maximum=facts.maximum,
    )


def encode_numbers_page(values: NDArray[Any], validity: NDArray[np.bool_] | None) -> EncodedPage:
    """Encode fixed-width values.

    Parameters
    ----------
    values : int64[n], float32[n], float64[n] or object[n]
        n >= 1; complete values, without a base.
    validity : bool[n] or None
        True where there is a value.
    """
    kind, validity_part = encode_validity(validity)
    null_count = 0 if validity is None else len(validity) - int(np.count_nonzero(validity))
    known = values if validity is None or null_count == 0 else values[validity]
    filled = values
    if null_count:
        fill = known.min() if len(known) else values.dtype.type(0)
        filled = np.where(validity, values, fill) if validity is not None else values
    chosen, facts = NUMBER_ENCODINGS.choose(filled)
    encoding, values_part = chosen.encode()
    flags, minimum, maximum = _bounds(known, facts)
    raw = validity_part + values_part
    return EncodedPage(
        raw, len(values), encoding, kind, null_count, flags, minimum=minimum, maximum=maximum
    )


def encode_opaque_page(array: pa.Array, *, is_sorted: bool = False) -> EncodedPage:
    """Encode an Arrow array of text or nested values, of at least one row.

    `is_sorted` says that the texts are a dictionary's, worth front coding.

    Raises
    ------
    LimitExceededError
        If a value is too large, or a page has too many nested values.
    """
    kind, validity_part = 0, b""
    if array.null_count:
        kind, validity_part = encode_validity(valid_values(array))
    if array.null_count == len(array):
        encoding, values_part = NESTED.number, b""
    elif is_nested(array.type):
        require_limit("number of values of a nested page", value_count(array), NESTED_VALUES_MAX)
        encoding, values_part = NESTED.number, NESTED.codec.offer(array).make()
    else:
        encoding, values_part = TEXT_ENCODINGS.choose(array, is_sorted=is_sorted).encode()
    return EncodedPage(validity_part + values_part, len(array), encoding, kind, array.null_count)


def _bounds(known: NDArray[Any], facts: PageStatistics | None) -> tuple[int, int, int]:
    """Return (flags, minimum, maximum) of the values that are not null."""
    if known.dtype.kind == "f":
        if len(known) == 0:
            return 0, 0, 0
        found = float_bounds(known)
        if found is None:
            return HAS_NAN, 0, 0
        minimum, maximum, has_nan = found
        return HAS_BOUNDS | (HAS_NAN if has_nan else 0), minimum, maximum
    if len(known) == 0 or facts is None:
        return 0, 0, 0
    return HAS_BOUNDS, facts.minimum, facts.maximum

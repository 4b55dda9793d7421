"""Dictionaries as pages: their values in order. SPEC.md section 4.3."""

from __future__ import annotations

from collections.abc import Iterator

from projseg.errors import InvalidInputError
from projseg.segment_format.dictionaries.dictionary import Dictionary
from projseg.segment_format.dictionaries.dictionary_order import order_problem
from projseg.segment_format.layout.format_limits import (
    DICTIONARY_BYTES_MAX,
    DICTIONARY_VALUES_MAX,
    require_limit,
)
from projseg.segment_format.layout.logical_types import arrow_to_numbers, is_fixed_width, is_text
from projseg.segment_format.pages.column_writer import vector_pages
from projseg.segment_format.pages.page_encoder import EncodedPage
from projseg.segment_format.vectors.vectors import Numbers, Opaque


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

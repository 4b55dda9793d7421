"""What a file stores of a dictionary: its values as pages, and a hash of each value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.sketches.value_hash import hash_bytes, hash_int64
from projseg.kernels.sorting import plain_doubles
from projseg.memory.forks import late_import
from projseg.segment_format.dictionaries.dictionary import Dictionary, order_problem
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.layout.format_limits import (
    DICTIONARY_BYTES_MAX,
    DICTIONARY_VALUES_MAX,
    require_limit,
)
from projseg.segment_format.layout.logical_types import arrow_to_numbers, is_fixed_width, is_text
from projseg.segment_format.vectors.vectors import Numbers, Opaque

if TYPE_CHECKING:
    from projseg.segment_format.pages.page_encoder import EncodedPage


def dictionary_pages(dictionary: Dictionary) -> Iterator[EncodedPage]:
    """Yield the pages of a dictionary's values.

    Raises
    ------
    InvalidInputError
        If the values are not strictly ascending, or of a type that has no order.
    LimitExceededError
        If there are too many.
    """
    # Imported here, so that a process that only reads starts without it.
    with late_import:
        from projseg.segment_format.pages.column_writer import vector_pages

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


NULL_HASH: Final = 0


def dictionary_hashes(dictionary: Dictionary) -> NDArray[np.uint64]:
    """Return uint64[cardinality]: the value hash of each value, 0 for null.

    Strings are hashed as UTF-8, binary as it is, all else as the eight bytes of an int64: booleans
    as 0 or 1, dates and timestamps as days and microseconds, floats as the bits of a double,
    those decimals that pass 64 bits as their 16 bytes.
    """
    if dictionary.stored_hashes is not None:
        return dictionary.stored_hashes
    return dictionary.memo(
        ("value hashes",), lambda: _hash_values(dictionary), lambda hashes: hashes.nbytes
    )


def array_hashes(values: pa.Array) -> NDArray[np.uint64]:
    """Return the value hash of each value of an array that is not nested: uint64[n].

    That of a null is of no meaning.
    """
    if is_text(values.type):
        return hash_bytes(*text_parts(values))
    return _hash_numbers(arrow_to_numbers(values)[0])


def _hash_values(dictionary: Dictionary) -> NDArray[np.uint64]:
    hashes = array_hashes(dictionary.values)
    if dictionary.has_null:
        hashes[0] = NULL_HASH
    return hashes


def _hash_numbers(numbers: NDArray[np.generic]) -> NDArray[np.uint64]:
    if numbers.dtype == object:
        return _hash_wide([int(number) for number in numbers])
    if numbers.dtype.kind == "f":
        return hash_int64(plain_doubles(numbers).view(np.int64))
    return hash_int64(numbers.astype(np.int64, copy=False))


def _hash_wide(numbers: list[int]) -> NDArray[np.uint64]:
    """Hash each number by itself: a value has one hash, whatever else its dictionary holds."""
    byte_counts = [8 if -(1 << 63) <= number < 1 << 63 else 16 for number in numbers]
    pairs = zip(numbers, byte_counts, strict=True)
    content = b"".join(number.to_bytes(size, "little", signed=True) for number, size in pairs)
    offsets = np.concatenate([[0], np.cumsum(byte_counts)]).astype(np.int64)
    return hash_bytes(offsets, np.frombuffer(content, np.uint8))

"""Dictionaries in a file: values as pages, a hash of each value, and values decoded when needed.

The values are decoded at once, or of many texts only the pages needed: a filter looks for a few
values, and a few groups are returned of many. Ids alone, by which rows are grouped and counted,
need no values. What is decoded is counted in the cache with the open file, and bounded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.row_selection import gather
from projseg.kernels.sketches.value_hash import hash_bytes, hash_int64
from projseg.kernels.sorting import plain_doubles
from projseg.memory.cache import KEPT, Owner
from projseg.memory.forks import late_import
from projseg.segment_format.arrow_arrays import primitive_array, valid_values
from projseg.segment_format.dictionary import Dictionary, TextValue, order_problem, place_of
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.format_limits import (
    DICTIONARY_BYTES_MAX,
    DICTIONARY_VALUES_MAX,
    require_limit,
)
from projseg.segment_format.logical_types import (
    arrow_to_numbers,
    is_fixed_width,
    is_text,
    type_name,
)
from projseg.segment_format.page_decoder import PageRun, decode_numbers, decode_opaque
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector

if TYPE_CHECKING:
    from projseg.segment_format.column_writer import EncodedPage

_ARROW_BYTES_MAX: Final = 2**31 - 1  # of one array of texts
_SLACK_BYTES: Final = 1 << 20  # Arrow's bitmaps and last offsets, which no limit counts
_NUMBER_BYTES: Final = 8

# Fewer pages are decoded together; and so are all, once more than this share is needed.
_PAGES_MIN: Final = 4
_PAGE_SHARE_MAX: Final = 0.5

NULL_HASH: Final = 0


class HeldBytes:
    """Bytes held by one open file, which counts them for its cache entry.

    `values_max` limits the values of all its dictionaries: a small file may claim gigabytes.
    """

    def __init__(self, owner: Owner | None, total: int, values_max: int) -> None:
        self.owner, self.total = owner, total
        self._values_max = values_max
        self._values: dict[str, int] = {}  # by dictionary

    @property
    def values_left(self) -> int:
        """Bytes left for values that are not decoded yet."""
        return self._values_max - sum(tuple(self._values.values()))

    def add(self, byte_count: int) -> None:
        """Count something else that is held from now on."""
        self.total += byte_count
        if self.owner is not None:
            KEPT.resize(self.owner, self.total)

    def hold_values(self, name: str, byte_count: int) -> None:
        """Count what a dictionary's values take now."""
        held = self._values.get(name, 0)
        self._values[name] = byte_count
        self.add(byte_count - held)


def read_values(
    run: PageRun, arrow_type: pa.DataType, held: HeldBytes, name: str
) -> pa.Array | _PagedValues:
    """Return the values of the dictionary `name`: decoded, or a large one's as they were read."""
    if is_text(arrow_type) and len(run.records) >= _PAGES_MIN:
        return _PagedValues(run, arrow_type, held, name)
    values = _decoded(run, arrow_type, held)
    least_bytes = 0 if is_text(arrow_type) else _NUMBER_BYTES * len(values)
    held.hold_values(name, max(values.nbytes, least_bytes))
    return values


class _PagedValues:
    """The values of one dictionary, read and not yet decoded."""

    def __init__(self, run: PageRun, arrow_type: pa.DataType, held: HeldBytes, name: str) -> None:
        self.type = arrow_type
        self._run, self._held, self._name = run, held, name
        self._starts = np.cumsum([0, *run.records["row_count"].tolist()])
        self._stored_bytes = int(run.records["stored_bytes"].sum())
        self._pages: dict[int, pa.Array] = {}
        if run.records["null_count"][1:].any():
            raise run.fail("holds a null other than the first value")
        self._count()

    def __len__(self) -> int:
        return self._run.row_count

    @property
    def has_null(self) -> bool:
        """Whether the first value is null."""
        return bool(self._run.records["null_count"][0])

    @property
    def nbytes(self) -> int:
        """Bytes held: of the pages as they are stored, and of those that are decoded."""
        decoded_bytes: int = sum(page.nbytes for page in tuple(self._pages.values()))
        return self._stored_bytes + decoded_bytes

    def all(self) -> pa.Array:
        """Decode all values; pages that were decoded before are no longer held."""
        self._pages = {}
        self._count()
        values = _decoded(self._run, self.type, self._held)
        self._held.hold_values(self._name, self._stored_bytes + values.nbytes)
        return values

    def take(self, ids: NDArray[Any]) -> pa.Array | None:
        """Return the values of `ids`, uint[n], in that order; None if all are better decoded."""
        page_of_each = np.searchsorted(self._starts, ids, side="right") - 1
        wanted = np.flatnonzero(np.bincount(page_of_each, minlength=1))
        needed = self._pages.keys() | set(wanted.tolist())
        if len(needed) > _PAGE_SHARE_MAX * len(self._run.records):
            return None
        if not len(wanted):
            return pa.nulls(0, self.type)
        order = np.argsort(page_of_each, kind="stable")
        places = (ids - self._starts[page_of_each])[order]
        ends = np.cumsum(np.bincount(page_of_each)[wanted])
        parts = np.split(places, ends[:-1])
        taken = [
            self._page(number).take(primitive_array(part))
            for number, part in zip(wanted.tolist(), parts, strict=True)
        ]
        return pa.concat_arrays(taken).take(primitive_array(np.argsort(order)))

    def id_of(self, value: TextValue) -> int | None:
        """Return the id of a text, None if it is not among the values."""
        later = range(1, len(self._run.records))
        number = bisect_right(later, value, key=lambda one: self._page(one)[0].as_py())
        place = place_of(value, self._page(number))
        return None if place is None else int(self._starts[number]) + place

    def _page(self, number: int) -> pa.Array:
        page = self._pages.get(number)
        if page is None:
            decoded = _decoded(self._run.part(number, number + 1), self.type, self._held)
            page = self._pages.setdefault(number, decoded)
            self._count()
        return page

    def _count(self) -> None:
        self._held.hold_values(self._name, self.nbytes)


def _decoded(run: PageRun, arrow_type: pa.DataType, held: HeldBytes) -> pa.Array:
    """Decode values and prove that they are in order, each once."""
    try:
        if is_fixed_width(arrow_type):
            values = decode_numbers(run, arrow_type).to_arrow()
        else:
            most = min(held.values_left + _SLACK_BYTES, _ARROW_BYTES_MAX)
            values = decode_opaque(run, arrow_type, most)
    except (pa.ArrowException, ValueError) as error:
        raise run.fail(f"not {type_name(arrow_type)}: {error}") from error
    if problem := order_problem(values):
        raise run.fail(problem)
    return values


def dictionary_pages(dictionary: Dictionary) -> Iterator[EncodedPage]:
    """Yield the pages of a dictionary's values."""
    # Imported here, so that a process that only reads starts without it.
    with late_import:
        from projseg.segment_format.column_writer import vector_pages

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


def vector_hashes(vector: Vector) -> NDArray[np.uint64]:
    """Return the value hash of each row of a vector that is not nested, 0 for null: uint64[n]."""
    if isinstance(vector, Ids):
        return gather(dictionary_hashes(vector.dictionary), vector.ids)
    if isinstance(vector, Numbers):
        hashes, validity = _hash_numbers(vector.wide()), vector.validity
    else:
        hashes = array_hashes(vector.array)
        validity = valid_values(vector.array) if vector.array.null_count else None
    return hashes if validity is None else np.where(validity, hashes, np.uint64(NULL_HASH))


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

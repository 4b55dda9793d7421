"""Dictionaries (distinct values in order), and the check that given values form one.

Order of ids = order of values (Spark's order: strings by UTF-8 bytes, nulls first), so a range or a
prefix of values is a range of ids. If the column has nulls, id 0 is the null.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.kernels.row_selection import gather_text
from projseg.kernels.sorting import distinct, float_order_keys
from projseg.kernels.texts.text_bytes import first_disorder
from projseg.memory.cache import KEPT, CacheKey, Owner
from projseg.memory.forks import cached_property
from projseg.segment_format.arrow_arrays import (
    filled_values,
    primitive_array,
    text_array,
    text_buffers,
)
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.logical_types import arrow_to_numbers, is_fixed_width, is_text

# Proof that values are a dictionary: in order, each once. SPEC.md section 4.3.
#
# Pruning, bitmaps and grouping all rely on it, so a dictionary is proved when it is written and
# again when it is read.


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


Memo = TypeVar("Memo")

TextValue = str | bytes


class UndecodedValues(Protocol):
    """The values of a large dictionary of texts, which can be decoded in part."""

    @property
    def type(self) -> pa.DataType:
        """The logical type of the values."""

    @property
    def has_null(self) -> bool:
        """Whether the first value is null."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""

    def __len__(self) -> int: ...

    def all(self) -> pa.Array:
        """Decode all values."""

    def take(self, ids: NDArray[Any]) -> pa.Array | None:
        """Return the values of `ids`, in that order; None if all are better decoded."""

    def id_of(self, value: TextValue) -> int | None:
        """Return the id of a text; None if it is not among the values."""


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Values by id, strictly ascending, the first perhaps null; two are equal only if they are one.

    `stored_hashes`, uint64[cardinality], are those of `kernels.value_hash`, 0 for null, if the file
    has them. `owner` is the cache entry that the dictionary belongs to, if any.
    """

    given: pa.Array | UndecodedValues
    stored_hashes: NDArray[np.uint64] | None = None
    owner: Owner | None = None
    _own_memos: dict[CacheKey, Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.given)

    @cached_property
    def values(self) -> pa.Array:
        """All values, decoded when they are first asked for."""
        return self.given if isinstance(self.given, pa.Array) else self.given.all()

    @property
    def _undecoded(self) -> UndecodedValues | None:
        """The values, until all of them are decoded."""
        is_decoded = isinstance(self.given, pa.Array) or "values" in self.__dict__
        return None if is_decoded else self.given

    @property
    def type(self) -> pa.DataType:
        """The logical type of the values."""
        return self.given.type

    @property
    def value_sizes(self) -> NDArray[np.int64]:
        """Return the bytes of each value of a dictionary of texts: int64[cardinality]."""

        def compute() -> NDArray[np.int64]:
            if self._text is None:
                return np.zeros(len(self), np.int64)
            return np.diff(self._text[0]).astype(np.int64)

        return self.memo(("value sizes",), compute, lambda sizes: sizes.nbytes)

    def text_bytes(self, ids: NDArray[np.unsignedinteger[Any]], enough: int) -> int:
        """Return the bytes of the texts of `ids`, uint[n]; 0 if the values are no texts.

        An upper bound may be returned instead if it is at most `enough`.
        """
        if len(ids) == 0:
            return 0
        if (undecoded := self._undecoded) is not None:
            used = distinct(ids)
            some = undecoded.take(used)
            if some is not None:
                sizes = np.diff(text_buffers(some)[0])
                return int(sizes[np.searchsorted(used, ids)].sum(dtype=np.int64))
        most = self._longest_value * len(ids)
        return most if most <= enough else int(self.value_sizes.take(ids).sum())

    @cached_property
    def _longest_value(self) -> int:
        """Bytes of the longest text; 0 if the values are no texts."""
        return 0 if self._text is None else int(np.diff(self._text[0]).max(initial=0))

    @property
    def value_bytes(self) -> int:
        """Bytes of the values: texts as they are and 4 bytes each, other values 8 bytes."""
        sizes = 4 * len(self) + int(self.value_sizes.sum())
        return sizes if self._text is not None else 8 * len(self)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        hashes = 0 if self.stored_hashes is None else self.stored_hashes.nbytes
        return int((self._undecoded or self.values).nbytes) + hashes

    def memo(
        self, key: CacheKey, compute: Callable[[], Memo], byte_count_of: Callable[[Memo], int]
    ) -> Memo:
        """Return a result computed from the values alone, once; it is kept as long as they are."""
        if self.owner is None:
            if key not in self._own_memos:
                self._own_memos[key] = compute()
            known: Memo = self._own_memos[key]
            return known
        kind, *rest = key
        kept: Memo = KEPT.get_or_load(
            (kind, id(self), *rest), compute, byte_count_of, owners=(self.owner,)
        )
        return kept

    @cached_property
    def has_null(self) -> bool:
        """Whether id 0 is the null."""
        if (undecoded := self._undecoded) is not None:
            return undecoded.has_null
        return len(self.values) > 0 and not self.values[0].is_valid

    @cached_property
    def id_dtype(self) -> np.dtype[np.unsignedinteger]:
        """The narrowest unsigned integer that holds every id."""
        return narrow_id_dtype(len(self))

    def values_of(self, ids: NDArray[np.unsignedinteger[Any]]) -> pa.Array:
        """Return the values of `ids`, each below `len(self)`, in that order."""
        if (undecoded := self._undecoded) is not None:
            some = undecoded.take(ids)
            if some is not None:
                return some
        validity = ids != 0 if self.has_null else None
        if self._text is not None:
            gathered = gather_text(*self._text, ids)
            if gathered is not None:
                return text_array(*gathered, self.type, validity)
        elif pa.types.is_boolean(self.type):
            return primitive_array(self._truths.take(ids), validity)
        return self.values.take(primitive_array(ids))

    def id_of(self, value: TextValue) -> int | None:
        """Return the id of a text, if the values are texts and it is one of them."""
        undecoded = self._undecoded
        return place_of(value, self.values) if undecoded is None else undecoded.id_of(value)

    def place_of(self, value: pa.Array) -> tuple[int, bool]:
        """Return (the first id whose value is no less than one, array[1]; whether it is equal).

        The value is not null; the id is the number of ids if there is none.
        """
        wanted = _order_key(value)
        values = self if self._undecoded is not None else self.values

        def key_of(place: int) -> Any:
            if isinstance(values, Dictionary):
                return _order_key(values.values_of(np.array([place], np.uint32)))
            return _order_key(values.slice(place, 1))

        place = bisect_left(range(len(self)), wanted, int(self.has_null), key=key_of)
        return place, place < len(self) and key_of(place) == wanted

    @cached_property
    def _truths(self) -> NDArray[np.bool_]:
        """The values of a dictionary of booleans, false for null."""
        return filled_values(self.values, False)

    @cached_property
    def _text(self) -> tuple[NDArray[np.int32], NDArray[np.uint8]] | None:
        """Offsets and bytes of the values as Arrow holds them; None if they are no text."""
        return text_buffers(self.values) if is_text(self.type) else None


def _order_key(value: pa.Array) -> Any:
    """Return a key that Python orders as Spark orders the only value of an array."""
    if is_fixed_width(value.type):
        numbers, _ = arrow_to_numbers(value)
        return float_order_keys(numbers)[0] if numbers.dtype.kind == "f" else numbers[0]
    found = value[0].as_py()
    return found.encode() if isinstance(found, str) else found


def place_of(value: TextValue, values: pa.Array) -> int | None:
    """Return where a text stands among ascending texts after at most one null; None: nowhere."""
    places = range(len(values))
    place = bisect_left(places, value, values.null_count, key=lambda one: values[one].as_py())
    return place if place < len(values) and values[place].as_py() == value else None


def narrow_id_dtype(cardinality: int) -> np.dtype[np.unsignedinteger]:
    """Return uint8, uint16 or uint32: the narrowest that holds ids below `cardinality`."""
    if cardinality <= 1 << 8:
        return np.dtype(np.uint8)
    return np.dtype(np.uint16 if cardinality <= 1 << 16 else np.uint32)

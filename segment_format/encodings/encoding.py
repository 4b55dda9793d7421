"""One record for each encoding, and the choice among those that hold the same page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.kernels.integer_codes import PageStatistics, page_statistics
from projseg.segment_format.arrow_arrays import WIDE, as_wide
from projseg.segment_format.byte_reader import ByteReader
from projseg.segment_format.encodings.encoding_protocols import (
    FloatEncoding,
    Int64s,
    IntegerEncoding,
    Offer,
    TextEncoding,
    WideIntegerEncoding,
)

ValueKind = Literal["integers", "wide integers", "floats", "text", "nested"]
Codec = TypeVar("Codec")


class Encoding(NamedTuple, Generic[Codec]):
    """One encoding: its number in pages, its section of SPEC.md, its codec and cost.

    An encoding of two kinds of values has a record for each. `weight` is the cost of reading one of
    its bytes, relative to a byte that is only copied: sizes are compared weighted, so that a page
    is not made slow for a few bytes.
    """

    number: int
    name: str
    kind: ValueKind
    section: str
    codec: Codec
    weight: float = 1.0


class _Chosen(NamedTuple):
    """The number of the encoding that won, and its offer."""

    number: int
    offer: Offer

    def encode(self) -> tuple[int, bytes]:
        """Return the number and the bytes."""
        return self.number, self.offer.make()


_LEAST_BYTES: Final = 8
"""No page has fewer: its parts are padded to so many."""


def _least(candidates: Iterable[tuple[Encoding[Codec], Offer | None]]) -> _Chosen:
    """Return the candidate of the least weighted size, of equal ones the first."""
    best: _Chosen | None = None
    least = math.inf
    for encoding, offer in candidates:
        if offer is not None and (weighted := offer.byte_count * encoding.weight) < least:
            best, least = _Chosen(encoding.number, offer), weighted
            if least <= _LEAST_BYTES:
                break
    assert best is not None, "one encoding of each kind holds any page"
    return best


class IntegerEncodings:
    """Integer encodings by their number, of which one must hold any page."""

    def __init__(self, records: Iterable[Encoding[IntegerEncoding]]) -> None:
        self.records: Final = {record.number: record for record in records}

    def choose(self, values: Int64s, facts: PageStatistics | None = None) -> _Chosen:
        """Return the best encoding for int64[n], n >= 1, and its offer.

        `facts` are those of `values`, if known.
        """
        known = page_statistics(values) if facts is None else facts
        return _least(
            (record, record.codec.offer(values, known)) for record in self.records.values()
        )

    def decode_into(self, reader: ByteReader, number: int, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base, modulo the size of its dtype."""
        record = self.records.get(number)
        reader.require(record is not None, f"no integer encoding {number} here")
        assert record is not None
        record.codec.decode_into(reader, out, base)


# Pages of fixed-width values: integers, wide integers or floats, and back.
#
# Floats are encoded as the integers their bits are where values repeat, as decimals where all are
# short decimals, and plain otherwise.

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class NumberEncodings:
    """Encodings of fixed-width values by their number.

    `integers` also take the bits of floats, `wide` takes integers of which some do not fit int64;
    one of `floats` must hold any page.
    """

    def __init__(
        self,
        integers: IntegerEncodings,
        wide: Iterable[Encoding[WideIntegerEncoding]],
        floats: Iterable[Encoding[FloatEncoding]],
    ) -> None:
        self._integers: Final = integers
        self.wide: Final = {record.number: record for record in wide}
        self.floats: Final = {record.number: record for record in floats}

    def choose(self, values: NDArray[Any]) -> tuple[_Chosen, PageStatistics | None]:
        """Return the best encoding and its offer, and the facts of integers that all fit int64.

        Values are int64, float32, float64 or Python integers, at least one.
        """
        if values.dtype.kind == "f":
            return self._choose_floats(values), None
        if values.dtype == object:
            if int(values.max()) > _INT64_MAX or int(values.min()) < _INT64_MIN:
                wide = self.wide.values()
                return _least((record, record.codec.offer(values)) for record in wide), None
            values = values.astype(np.int64)
        facts = page_statistics(values)
        return self._integers.choose(values, facts), facts

    def _choose_floats(self, values: NDArray[Any]) -> _Chosen:
        bits = values.view(f"u{values.dtype.itemsize}").astype(np.uint64).view(np.int64)
        as_bits = self._integers.choose(bits)
        records = self.floats.values()
        as_floats = _least((record, record.codec.offer(values)) for record in records)
        return min(as_bits, as_floats, key=lambda chosen: chosen.offer.byte_count)

    def has_wide(self, numbers: Iterable[int]) -> bool:
        """Return whether one of the encodings is of integers that may pass 64 bits."""
        return any(number in self.wide for number in numbers)

    def decode_into(self, reader: ByteReader, number: int, out: NDArray[Any], base: int) -> None:
        """Fill contiguous `out`, not empty, from whichever encoding the page has.

        `base`, 0 for floats and WIDE, is subtracted from each integer.
        """
        if out.dtype == WIDE:
            out[:] = as_wide(self.decode_integers(reader, number, len(out)))
        elif out.dtype.kind != "f":
            self._integers.decode_into(reader, number, out, base)
        elif number in self.floats:
            self.floats[number].codec.decode_into(reader, out)
        else:
            bits = out.view(np.int64 if out.dtype == np.float64 else np.uint32)
            self._integers.decode_into(reader, number, bits, 0)

    def decode_integers(self, reader: ByteReader, number: int, value_count: int) -> NDArray[Any]:
        """Return WIDE[n], or int64[n] if the encoding holds no integers that pass 64 bits."""
        if number in self.wide:
            return self.wide[number].codec.decode(reader, value_count)
        narrow = np.empty(value_count, np.int64)
        self._integers.decode_into(reader, number, narrow, 0)
        return narrow


class TextEncodings:
    """Text encodings by their number, of which one must hold any page."""

    def __init__(self, records: Iterable[Encoding[TextEncoding]]) -> None:
        self.records: Final = {record.number: record for record in records}

    def choose(self, array: pa.Array, *, is_sorted: bool = False) -> _Chosen:
        """Return the best encoding and its offer; see `TextEncoding.offer`."""
        records = self.records.values()
        return _least(
            (record, record.codec.offer(array, is_sorted=is_sorted)) for record in records
        )

    def decode(self, reader: ByteReader, number: int, row_count: int) -> tuple[NDArray[Any], Any]:
        """Return (offsets int32[n + 1], bytes) of n >= 1 values."""
        record = self.records.get(number)
        reader.require(record is not None, f"no text encoding {number} here")
        assert record is not None
        return record.codec.decode(reader, row_count)

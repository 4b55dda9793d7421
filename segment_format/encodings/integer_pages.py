"""Pages of integers: the choice among the encodings of a list, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from numpy.typing import NDArray

from projseg.kernels.pages.page_statistics import PageStatistics, page_statistics
from projseg.segment_format.encodings.encoding import Chosen, Encoding, least
from projseg.segment_format.encodings.encoding_protocols import IntegerEncoding
from projseg.segment_format.encodings.int64_offsets import Int64s
from projseg.segment_format.layout.byte_reader import ByteReader


class IntegerEncodings:
    """Integer encodings by their number.

    Parameters
    ----------
    records : iterable of Encoding
        One of them must hold any page.
    """

    def __init__(self, records: Iterable[Encoding[IntegerEncoding]]) -> None:
        self.records: Final = {record.number: record for record in records}

    def choose(self, values: Int64s, facts: PageStatistics | None = None) -> Chosen:
        """Return the best encoding for int64[n], n >= 1, and its offer.

        `facts` are those of `values`, if known.
        """
        known = page_statistics(values) if facts is None else facts
        return least(
            (record, record.codec.offer(values, known)) for record in self.records.values()
        )

    def decode_into(self, reader: ByteReader, number: int, out: NDArray[Any], base: int) -> None:
        """Fill `out` with value - base, modulo the size of its dtype.

        Raises
        ------
        CorruptSegmentError
            If the encoding is not one of these, or its part is malformed.
        """
        record = self.records.get(number)
        reader.require(record is not None, f"no integer encoding {number} here")
        assert record is not None
        record.codec.decode_into(reader, out, base)

"""A closed table of integer encodings, and the choice among them by measured size.

Sizes are weighted by what a byte costs to decode, so that a page is not made slow for a few bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from numpy.typing import NDArray

from projseg.kernels.page_statistics import PageStatistics, page_statistics
from projseg.segment_format.byte_reader import ByteReader
from projseg.segment_format.encodings.protocol import Int64s, IntegerEncoding


class EncodingTable:
    """Integer encodings by their number.

    Parameters
    ----------
    weighted : iterable of (IntegerEncoding, float)
        Each with what a byte of it is worth against a byte that is merely copied. One of them must
        hold any page.
    """

    def __init__(self, weighted: Iterable[tuple[IntegerEncoding, float]]) -> None:
        self.weighted: Final = tuple(weighted)
        self.encodings: Final = {encoding.encoding_id: encoding for encoding, _ in self.weighted}

    def choose(self, values: Int64s, facts: PageStatistics) -> tuple[IntegerEncoding, float]:
        """Return the encoding with the least weighted size, and that size."""
        best: tuple[IntegerEncoding, float] | None = None
        for encoding, weight in self.weighted:
            size = encoding.encoded_bytes(values, facts)
            if size is not None and (best is None or size * weight < best[1]):
                best = encoding, size * weight
        assert best is not None, "one encoding of each table holds any page"
        return best

    def encode(self, values: Int64s, facts: PageStatistics | None = None) -> tuple[int, bytes]:
        """Return the number of the best encoding, and the page in it.

        Parameters
        ----------
        values : int64[n]
            n >= 1.
        facts : PageStatistics, optional
            Of `values`, if known.
        """
        facts = page_statistics(values) if facts is None else facts
        encoding, _ = self.choose(values, facts)
        return encoding.encoding_id, encoding.encode(values, facts)

    def decode_into(
        self, reader: ByteReader, encoding_id: int, out: NDArray[Any], base: int
    ) -> None:
        """Fill `out` with value - base, modulo the size of its dtype.

        Raises
        ------
        CorruptSegmentError
            If the encoding is not one of the table, or its part is malformed.
        """
        encoding = self.encodings.get(encoding_id)
        reader.require(encoding is not None, f"no integer encoding {encoding_id} here")
        assert encoding is not None
        encoding.decode_into(reader, out, base)

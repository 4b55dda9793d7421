"""Pages of text: the choice among the encodings, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
from numpy.typing import NDArray

from projseg.segment_format.encodings.encoding import Chosen, Encoding, least
from projseg.segment_format.encodings.encoding_protocols import TextEncoding
from projseg.segment_format.layout.byte_reader import ByteReader


class TextEncodings:
    """Text encodings by their number.

    Parameters
    ----------
    records : iterable of Encoding
        One of them must hold any page.
    """

    def __init__(self, records: Iterable[Encoding[TextEncoding]]) -> None:
        self.records: Final = {record.number: record for record in records}

    def choose(self, array: pa.Array, *, is_sorted: bool = False) -> Chosen:
        """Return the best encoding and its offer; see `TextEncoding.offer`."""
        records = self.records.values()
        return least((record, record.codec.offer(array, is_sorted=is_sorted)) for record in records)

    def decode(self, reader: ByteReader, number: int, row_count: int) -> tuple[NDArray[Any], Any]:
        """Return (offsets int32[n + 1], bytes) of n >= 1 values.

        Raises
        ------
        CorruptSegmentError
            If the encoding is not one of text, or its part is malformed.
        """
        record = self.records.get(number)
        reader.require(record is not None, f"no text encoding {number} here")
        assert record is not None
        return record.codec.decode(reader, row_count)

"""The closed table of integer encodings, and the choice among them by measured size.

SPEC.md section 6.
"""

from __future__ import annotations

from typing import Any, Final

from numpy.typing import NDArray

from projseg.kernels.page_statistics import PageStatistics, page_statistics
from projseg.segment_format.byte_reader import ByteReader
from projseg.segment_format.encodings.bit_packed import BitPacked
from projseg.segment_format.encodings.constant import Constant
from projseg.segment_format.encodings.delta import Delta
from projseg.segment_format.encodings.frame_of_reference import FrameOfReference
from projseg.segment_format.encodings.protocol import Int64s, IntegerEncoding
from projseg.segment_format.encodings.run_length import RunLength

INTEGER_ENCODINGS: Final[dict[int, IntegerEncoding]] = {
    encoding.encoding_id: encoding
    for encoding in (Constant(), RunLength(), FrameOfReference(), BitPacked(), Delta())
}

# What a byte of each encoding is worth against a byte that is merely copied: its decoding cost.
_WEIGHTS: Final = {
    Constant.encoding_id: 1.0,
    RunLength.encoding_id: 1.0,
    FrameOfReference.encoding_id: 1.0,
    BitPacked.encoding_id: 1.02,
    Delta.encoding_id: 1.25,
}


def encode_integers(
    values: Int64s, facts: PageStatistics | None = None
) -> tuple[IntegerEncoding, bytes]:
    """Return the encoding with the least weighted size, and the page in it.

    Parameters
    ----------
    values : int64[n]
        n >= 1.
    facts : PageStatistics, optional
        Of `values`, if known.
    """
    facts = page_statistics(values) if facts is None else facts
    best, best_cost = None, float("inf")
    for encoding_id, encoding in INTEGER_ENCODINGS.items():
        size = encoding.encoded_bytes(values, facts)
        if size is not None and size * _WEIGHTS[encoding_id] < best_cost:
            best, best_cost = encoding, size * _WEIGHTS[encoding_id]
    assert best is not None, "frame of reference holds every page"
    return best, best.encode(values, facts)


def decode_integers_into(
    reader: ByteReader, encoding_id: int, out: NDArray[Any], base: int
) -> None:
    """Fill `out` with value - base, modulo the size of its dtype.

    Raises
    ------
    CorruptSegmentError
        If the encoding is not one of the table, or its part is malformed.
    """
    encoding = INTEGER_ENCODINGS.get(encoding_id)
    reader.require(encoding is not None, f"unknown integer encoding {encoding_id}")
    assert encoding is not None
    encoding.decode_into(reader, out, base)

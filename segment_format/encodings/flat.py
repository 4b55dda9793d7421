"""The integer encodings that hold no other encoding inside. SPEC.md sections 6.1 to 6.5."""

from __future__ import annotations

from typing import Final

from projseg.segment_format.encodings.bit_packed import BitPacked
from projseg.segment_format.encodings.constant import Constant
from projseg.segment_format.encodings.delta import Delta
from projseg.segment_format.encodings.frame_of_reference import FrameOfReference
from projseg.segment_format.encodings.patched import Patched
from projseg.segment_format.encodings.table import EncodingTable

FLAT_ENCODINGS: Final = EncodingTable(
    [
        (Constant(), 1.0),
        (FrameOfReference(), 1.0),
        (BitPacked(), 1.02),
        (Patched(), 1.1),
        (Delta(), 1.2),
    ]
)

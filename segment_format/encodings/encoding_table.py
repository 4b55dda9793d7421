"""The closed table of all encodings, from which every list of them is made. SPEC.md section 6.

An encoding whose parts are integer pages is given those that may stand inside it.
"""

from __future__ import annotations

from typing import Any, Final

from projseg.segment_format.encodings.encoding import (
    Encoding,
    IntegerEncodings,
    NumberEncodings,
    TextEncodings,
    ValueKind,
)
from projseg.segment_format.encodings.encoding_protocols import (
    FloatEncoding,
    IntegerEncoding,
    NestedEncoding,
    TextEncoding,
    WideIntegerEncoding,
)
from projseg.segment_format.encodings.fixed_width import DecimalDoubles, PlainFloats, PlainIntegers
from projseg.segment_format.encodings.nested_encoding import Nested
from projseg.segment_format.encodings.packed_integers import (
    BitPacked,
    Constant,
    FrameOfReference,
    Patched,
)
from projseg.segment_format.encodings.sequences import Delta, RunLength, Scaled
from projseg.segment_format.encodings.text_encoding import FrontCoded, Text

_FLAT: Final[tuple[Encoding[IntegerEncoding], ...]] = (
    Encoding(1, "constant", "integers", "6.1", Constant(), 1.0),
    Encoding(2, "frame of reference", "integers", "6.2", FrameOfReference(), 1.0),
    Encoding(3, "bit-packed", "integers", "6.3", BitPacked(), 1.02),
    Encoding(4, "patched", "integers", "6.4", Patched(), 1.1),
    Encoding(5, "delta", "integers", "6.5", Delta(), 1.2),
)
_SCALED: Final[tuple[Encoding[IntegerEncoding], ...]] = (
    *_FLAT,
    Encoding(6, "scaled", "integers", "6.6", Scaled(IntegerEncodings(_FLAT)), 1.15),
)
_INTEGERS: Final[tuple[Encoding[IntegerEncoding], ...]] = (
    *_SCALED,
    Encoding(7, "run length", "integers", "6.7", RunLength(IntegerEncodings(_SCALED)), 1.2),
)
INTEGER_ENCODINGS: Final = IntegerEncodings(_INTEGERS)

_WIDE_INTEGERS: Final[tuple[Encoding[WideIntegerEncoding], ...]] = (
    Encoding(8, "plain", "wide integers", "6.8", PlainIntegers()),
)
_FLOATS: Final[tuple[Encoding[FloatEncoding], ...]] = (
    Encoding(8, "plain", "floats", "6.8", PlainFloats()),
    Encoding(9, "decimal", "floats", "6.9", DecimalDoubles(INTEGER_ENCODINGS)),
)
NUMBER_ENCODINGS: Final = NumberEncodings(INTEGER_ENCODINGS, _WIDE_INTEGERS, _FLOATS)

_TEXT: Final = Text(INTEGER_ENCODINGS)
_TEXTS: Final[tuple[Encoding[TextEncoding], ...]] = (
    Encoding(10, "text", "text", "6.10", _TEXT),
    Encoding(11, "front-coded", "text", "6.11", FrontCoded(INTEGER_ENCODINGS)),
)
TEXT_ENCODINGS: Final = TextEncodings(_TEXTS)

NESTED: Final[Encoding[NestedEncoding]] = Encoding(
    12, "nested", "nested", "6.12", Nested(INTEGER_ENCODINGS, NUMBER_ENCODINGS, _TEXT)
)

ENCODINGS: Final[tuple[Encoding[Any], ...]] = (
    *_INTEGERS,
    *_WIDE_INTEGERS,
    *_FLOATS,
    *_TEXTS,
    NESTED,
)
ENCODING_NAMES: Final = {record.number: record.name for record in ENCODINGS}


def numbers_of(*kinds: ValueKind) -> frozenset[int]:
    """Return the numbers of the encodings of some kinds."""
    return frozenset(record.number for record in ENCODINGS if record.kind in kinds)

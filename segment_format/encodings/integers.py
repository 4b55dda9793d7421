"""The closed table of all integer encodings. SPEC.md section 6."""

from __future__ import annotations

from typing import Final

from projseg.segment_format.encodings.run_length import RunLength
from projseg.segment_format.encodings.scaled import SCALED_ENCODINGS
from projseg.segment_format.encodings.table import EncodingTable

INTEGER_ENCODINGS: Final = EncodingTable([*SCALED_ENCODINGS.weighted, (RunLength(), 1.2)])

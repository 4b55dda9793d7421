"""Many texts compared with one, or with a pattern, in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from projseg.memory.forks import late_import
from projseg.segment_format.vectors.arrow_arrays import primitive_array, text_buffers, valid_values

SEARCHED_TEXTS_MIN: Final = 1 << 16
"""So many texts are searched in compiled code; fewer by Arrow, before that is loaded."""


def searched(texts: pa.Array, pattern: Sequence[int]) -> pa.Array:
    """Return which texts match a pattern of bytes and wildcards, as of `like_texts`."""
    with late_import:
        from projseg.kernels.texts.like_texts import like_rows
    found = like_rows(*text_buffers(texts), pattern)
    return primitive_array(found, valid_values(texts) if texts.null_count else None)

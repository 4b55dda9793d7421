"""Front-coded: each text less what it shares with the one before it. For dictionaries only.

SPEC.md section 6.11. A page is one chain: dictionaries are loaded whole. A chain of equal texts
would grow without bound from few bytes, so a page is proved to ascend as it is decoded.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.kernels.pages.front_coding import (
    PREFIX_BYTES_MAX,
    expand_prefixes,
    shared_prefixes,
    suffixes,
)
from projseg.kernels.texts.texts import first_disorder
from projseg.segment_format.encodings.encoding_protocols import Offer, composed
from projseg.segment_format.encodings.integer_pages import IntegerEncodings
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.layout.byte_reader import ByteReader, padded, padding
from projseg.segment_format.layout.format_limits import (
    PAGE_RAW_BYTES_MAX,
    VALUE_BYTES_MAX,
    require_limit,
)

_LAYOUT: Final = struct.Struct("<II")  # prefixes_encoding, lengths_encoding


class FrontCoded:
    """A page of prefixes, one of the lengths of the rests, and the rests.

    Parameters
    ----------
    parts : IntegerEncodings
        Encodings that both pages may use.
    """

    def __init__(self, parts: IntegerEncodings) -> None:
        self._parts = parts

    def offer(self, array: pa.Array, *, is_sorted: bool) -> Offer | None:
        """Return the offer, or None if the texts are not sorted.

        A null, if there is one, comes first and counts as an empty text that need not ascend.

        Raises
        ------
        LimitExceededError
            If one value is too large.
        """
        if not is_sorted:
            return None
        offsets, content = text_parts(array)
        sizes = np.diff(offsets)
        require_limit("size of a value in bytes", int(sizes.max()), VALUE_BYTES_MAX)
        shared = shared_prefixes(offsets, content)
        prefixes, lengths = self._parts.choose(shared), self._parts.choose(sizes - shared)
        size = int((sizes - shared).sum())
        left = Offer(
            size + padding(size), lambda: padded(suffixes(offsets, content, shared).tobytes())
        )
        header = _LAYOUT.pack(prefixes.number, lengths.number)
        return composed(header, prefixes.offer, lengths.offer, left)

    def decode(
        self, reader: ByteReader, row_count: int
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return (offsets int32[n + 1], bytes uint8[m]) of `row_count` >= 1 values.

        Raises
        ------
        CorruptSegmentError
            If lengths contradict each other, or texts do not ascend.
        LimitExceededError
            If the texts take more bytes than a page may hold.
        """
        prefixes_encoding, lengths_encoding = reader.unpack(_LAYOUT)
        prefixes, lengths = np.empty((2, row_count), np.int64)
        self._parts.decode_into(reader, prefixes_encoding, prefixes, 0)
        self._parts.decode_into(reader, lengths_encoding, lengths, 0)
        reader.require(
            int(prefixes.min()) >= 0 and int(prefixes.max()) <= PREFIX_BYTES_MAX,
            f"shared prefixes of {prefixes.min()} to {prefixes.max()} bytes",
        )
        low, high = int(lengths.min()), int(lengths.max())
        reader.require(low >= 0 and high <= VALUE_BYTES_MAX, f"suffixes of {low} to {high} bytes")
        reader.require(int(lengths.sum()) <= reader.bytes_left, "suffixes pass the end of the page")
        sizes = prefixes + lengths
        reader.require(
            int(prefixes[0]) == 0 and bool((prefixes[1:] <= sizes[:-1]).all()),
            "a shared prefix is longer than the text before it",
        )
        # A writer cuts pages by the bytes of their texts, so no page has more than a page of them.
        require_limit("size of a page's texts in bytes", int(sizes.sum()), PAGE_RAW_BYTES_MAX)
        left = reader.array("u1", int(lengths.sum()))
        offsets, texts = expand_prefixes(prefixes, lengths, left)
        after_null = offsets[1:]  # row 0 may be the null, which is stored as an empty text
        reader.require(first_disorder(after_null, texts) < 0, "texts are not ascending")
        return offsets.astype(np.int32), texts

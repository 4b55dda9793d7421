"""Split texts into words and runs of three characters, folded by a table of characters.

An entry of the table is the character's fold, its class times `CLASS` and `NOTHING` if it has no
fold. SPEC.md section 16.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import inlined_kernel, kernel
from projseg.kernels.texts.text_bytes import checked_texts, read_only

CLASS: Final = 1 << 21
"""In an entry: one class. 0 is a gap, 1 a character of words, 2 one that is a word alone."""

NOTHING: Final = 1 << 23
"""In an entry: the character folds to nothing."""

CODE_POINTS: Final = 0x110000

Table = NDArray[np.uint32]


def split_words(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], table: Table
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32]]:
    """Return (offsets, content, texts): the folded words of texts, in order, and the text of each.

    `table`, uint32[0x110000], has an entry for each code point. A word has 1 to 255 bytes; all
    texts together are below 512 MiB.
    """
    offsets, content = checked_texts(offsets, content)
    size = int(offsets[-1] - offsets[0])
    words = np.empty(4 * size, np.uint8)  # a character is at least one byte, and at most four
    ends, texts = np.zeros(size + 1, np.int32), np.empty(size, np.int32)
    count = _split_words(offsets, content, _checked(table), words, ends, texts)
    return ends[: count + 1], words[: ends[count]], texts[:count]


def text_grams(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], table: Table
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return every three characters in a row of folded texts, int64[k], and the text of each.

    Three characters are `first << 42 | second << 21 | third`; arguments are those of `split_words`.
    """
    offsets, content = checked_texts(offsets, content)
    size = int(offsets[-1] - offsets[0])
    grams, texts = np.empty(size, np.int64), np.empty(size, np.int32)
    count = _text_grams(offsets, content, _checked(table), grams, texts)
    return grams[:count], texts[:count]


def _checked(table: Table) -> Table:
    if len(table) != CODE_POINTS:
        raise InvalidInputError("PROJSEG_INTERNAL", f"a table of {len(table)} characters")
    return read_only(table)


@inlined_kernel
def character_at(content: NDArray[np.uint8], at: np.int64, end: np.int64) -> Any:
    """Return the bytes of the character at a place times 2^32, and its code point.

    Shapes: content [bytes].
    Part of: `_split_words`.
    """
    lead = np.int64(content[at])
    size = np.int64(1) if lead < 0xC0 else np.int64(2) if lead < 0xE0 else np.int64(3)
    size = np.int64(4) if lead >= 0xF0 else size
    size = min(size, end - at)
    code = lead if size == 1 else lead & (np.int64(0x7F) >> size)
    for i in range(1, size):
        code = (code << 6) | (np.int64(content[at + i]) & 0x3F)
    return (size << 32) | min(code, np.int64(0x10FFFF))


@inlined_kernel
def put_character(code: np.int64, words: NDArray[np.uint8], at: np.int64) -> Any:
    """Write a character in UTF-8 and return where it ends.

    Shapes: words [bytes].
    Part of: `_split_words`.
    """
    if code < 0x80:
        words[at] = code
        return at + 1
    if code < 0x800:
        words[at] = 0xC0 | (code >> 6)
        words[at + 1] = 0x80 | (code & 0x3F)
        return at + 2
    if code < 0x10000:
        words[at] = 0xE0 | (code >> 12)
        words[at + 1] = 0x80 | ((code >> 6) & 0x3F)
        words[at + 2] = 0x80 | (code & 0x3F)
        return at + 3
    words[at] = 0xF0 | (code >> 18)
    words[at + 1] = 0x80 | ((code >> 12) & 0x3F)
    words[at + 2] = 0x80 | ((code >> 6) & 0x3F)
    words[at + 3] = 0x80 | (code & 0x3F)
    return at + 4


@kernel
def _split_words(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    table: NDArray[np.uint32],
    words: NDArray[np.uint8],
    ends: NDArray[np.int32],
    texts: NDArray[np.int32],
) -> int:
    """Write the words of each text and return how many there are.

    Shapes: offsets [n + 1]; content [bytes]; table [code points]; words [4 bytes];
        ends [bytes + 1]; texts [bytes].
    Oracle: tests/oracle/words.py::words.
    """
    count = 0
    out: Any = np.int64(0)
    for text in range(len(offsets) - 1):
        at, end = np.int64(offsets[text]), np.int64(offsets[text + 1])
        start = out
        while at < end:
            found = character_at(content, at, end)
            at += found >> 32
            entry = np.int64(table[found & 0xFFFFFFFF])
            kind = (entry >> 21) & 3
            if kind != 1 and out > start:
                count += 1
                ends[count], texts[count - 1] = out, text
                start = out
            if kind == 0 or entry >= 0x800000:
                continue
            after = put_character(entry & 0x1FFFFF, words, out)
            if after - start > 255:
                count += 1
                ends[count], texts[count - 1] = out, text
                start = out
            out = after
            if kind == 2:
                count += 1
                ends[count], texts[count - 1] = out, text
                start = out
        if out > start:
            count += 1
            ends[count], texts[count - 1] = out, text
    return count


@kernel
def _text_grams(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    table: NDArray[np.uint32],
    grams: NDArray[np.int64],
    texts: NDArray[np.int32],
) -> int:
    """Write the runs of three characters of each text and return how many there are.

    Shapes: offsets [n + 1]; content [bytes]; table [code points]; grams, texts [bytes].
    Oracle: tests/oracle/words.py::grams.
    """
    count = 0
    for text in range(len(offsets) - 1):
        at, end = np.int64(offsets[text]), np.int64(offsets[text + 1])
        known, gram = 0, np.int64(0)
        while at < end:
            found = character_at(content, at, end)
            at += found >> 32
            entry = np.int64(table[found & 0xFFFFFFFF])
            if entry >= 0x800000:
                continue
            gram = ((gram & 0x3FFFFFFFFFF) << 21) | (entry & 0x1FFFFF)
            known += 1
            if known >= 3:
                grams[count], texts[count] = gram, text
                count += 1
    return count

"""Find the texts that match a LIKE pattern, or are one text, by one search through their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.texts.text_bytes import checked_texts, read_only, word_at
from projseg.kernels.texts.text_parts import Texts, step_of
from projseg.memory.memory_pool import zeros

ONE: Final = -1
"""In a pattern: any character."""

ANY: Final = -2
"""In a pattern: any characters, or none."""

_BLOCK: Final = 1 << 12


def like_rows(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], pattern: Sequence[int]
) -> NDArray[np.bool_]:
    """Return which texts match a pattern of bytes, `ONE` and `ANY`, as bool[n]."""
    offsets, content = checked_texts(offsets, content)
    codes = np.array(pattern, np.int16)
    found = zeros(len(offsets) - 1, np.bool_)
    needle = _longest_run(pattern)
    if len(needle) == len(pattern):
        tail = int.from_bytes(bytes(needle[-8:]), "little")
        _match_equal(offsets, content, np.array(needle, np.uint8), np.uint64(tail), found)
        return found
    if not needle or pattern[0] != ANY:
        _match_each(offsets, content, codes, found)
        return found
    is_contained = list(pattern) == [ANY, *needle, ANY]
    marks = np.zeros(_BLOCK, np.uint8)
    wanted = np.array(needle, np.uint8)
    _match_found(offsets, content, codes, wanted, is_contained, marks, marks.view(np.uint64), found)
    return found


def like_pairs(
    texts: Texts, patterns: Texts, valid: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], int]:
    """Return which texts match the LIKE pattern of their row, and the first malformed one or -1.

    A pattern has a backslash only before %, _ and a backslash. Rows that are not valid do not
    match.
    """
    texts, patterns = checked_texts(*texts), checked_texts(*patterns)
    found = zeros(len(valid), np.bool_)
    codes = np.empty(int(np.diff(patterns[0]).max(initial=0)), np.int16)
    return found, int(_match_pairs(*texts, *patterns, read_only(valid), codes, found))


def _longest_run(pattern: Sequence[int]) -> list[int]:
    """Return the longest run of bytes in a pattern."""
    longest: list[int] = []
    run: list[int] = []
    for code in pattern:
        run = [*run, code] if code >= 0 else []
        longest = max(longest, run, key=len)
    return longest


@kernel
def _match_equal(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    wanted: NDArray[np.uint8],
    tail: np.uint64,
    found: NDArray[np.bool_],
) -> None:
    """Find the texts that are the one wanted, by their sizes, then by their last bytes.

    `tail` is the pattern's last eight bytes. Texts have beginnings in common more often.

    Shapes: offsets [n + 1]; content [bytes]; wanted [k]; found [n].
    Oracle: tests/oracle/selecting.py::like.
    """
    size = len(wanted)
    for row in range(len(found)):  # a loop that compilers turn into vectors
        found[row] = offsets[row + 1] - offsets[row] == size
    for row in range(len(found)):
        if not found[row]:
            continue
        left = size
        end = np.uint64(offsets[row + 1])
        if size >= 8:
            left = size - 8 if word_at(content, end - np.uint64(8)) == tail else -1
        start = np.int64(offsets[row])
        while left > 0 and content[start + left - 1] == wanted[left - 1]:
            left -= 1
        found[row] = left == 0


@kernel
def _match_each(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    codes: NDArray[np.int16],
    found: NDArray[np.bool_],
) -> None:
    """Match every text from its beginning.

    Shapes: offsets [n + 1]; content [bytes]; codes [p]; found [n].
    Oracle: tests/oracle/selecting.py::like.
    """
    for row in range(len(found)):
        found[row] = _matches(content, np.int64(offsets[row]), np.int64(offsets[row + 1]), codes)


@kernel(interpretable=True)
def _match_pairs(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    pattern_offsets: NDArray[np.int32],
    patterns: NDArray[np.uint8],
    valid: NDArray[np.bool_],
    codes: NDArray[np.int16],
    found: NDArray[np.bool_],
) -> Any:
    """Match each text with its pattern, and return the first row with a wrong backslash or -1.

    Shapes: offsets, pattern_offsets [1 or n, and 1]; content, patterns [bytes]; valid, found [n];
        codes [longest pattern].
    Oracle: tests/oracle/texts.py::like.
    """
    of_texts, of_patterns = step_of(len(offsets) - 1), step_of(len(pattern_offsets) - 1)
    for row in range(len(found)):
        if not valid[row]:
            continue
        at = np.int64(pattern_offsets[row * of_patterns])
        end = np.int64(pattern_offsets[row * of_patterns + 1])
        count = 0
        while at < end:
            code = np.int64(patterns[at])
            at += 1
            if code == 37:  # %
                code = np.int64(-2)
            elif code == 95:  # _
                code = np.int64(-1)
            elif code == 92:
                code = np.int64(patterns[at]) if at < end else np.int64(0)
                if code != 37 and code != 95 and code != 92:  # noqa: PLR1714 - slow in Numba
                    return row
                at += 1
            codes[count] = code
            count += 1
        start = np.int64(offsets[row * of_texts])
        stop = np.int64(offsets[row * of_texts + 1])
        found[row] = _matches(content, start, stop, codes[:count])
    return -1


@kernel
def _match_found(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    codes: NDArray[np.int16],
    needle: NDArray[np.uint8],
    is_contained: bool,
    marks: NDArray[np.uint8],
    words: NDArray[np.uint64],
    found: NDArray[np.bool_],
) -> None:
    """Match the texts in which the first and the last byte of the needle stand where they should.

    `words` is the same memory as `marks`. If `is_contained`, texts that hold the needle match.

    Shapes: offsets [n + 1]; content [bytes]; codes [p]; needle [k]; marks [8 w]; words [w];
        found [n].
    Oracle: tests/oracle/selecting.py::like.
    """
    row, tried = 0, -1
    size = len(needle)
    start: Any = np.int64(offsets[0])
    stop: Any = np.int64(offsets[len(found)]) - size + 1
    while start < stop:
        count = min(len(marks), stop - start)
        _mark(
            content[start:], content[start + size - 1 :], needle[0], needle[size - 1], marks[:count]
        )
        marks[count:] = 0
        for word in range((count + 7) >> 3):
            if words[word] == 0:
                continue
            for i in range(8 * word, 8 * word + 8):
                if marks[i] == 0:
                    continue
                at = start + i
                while offsets[row + 1] <= at:
                    row += 1
                if found[row] or row == tried:
                    continue
                end = np.int64(offsets[row + 1])
                if is_contained:
                    found[row] = at + size <= end and _is_at(content, at, needle)
                else:
                    tried = row
                    found[row] = _matches(content, np.int64(offsets[row]), end, codes)
        start += count


@kernel
def _mark(
    left: NDArray[np.uint8],
    right: NDArray[np.uint8],
    first: int,
    last: int,
    marks: NDArray[np.uint8],
) -> None:
    """Mark where both bytes stand; a loop that compilers turn into vectors.

    Shapes: left, right [bytes]; marks [k].
    Part of: `_match_found`.
    """
    for i in range(len(marks)):
        marks[i] = (left[i] == first) & (right[i] == last)


@kernel
def _is_at(content: NDArray[np.uint8], at: int, needle: NDArray[np.uint8]) -> bool:
    """Whether the needle stands at a place.

    Shapes: content [bytes]; needle [k].
    Part of: `_match_found`.
    """
    for i in range(len(needle)):  # noqa: SIM110 - Numba compiles no generators here
        if content[at + i] != needle[i]:
            return False
    return True


@kernel(interpretable=True)
def _matches(content: NDArray[np.uint8], at: int, end: int, codes: NDArray[np.int16]) -> bool:
    """Whether a text matches: what follows an `ANY` is tried from one character to the next.

    Shapes: content [bytes]; codes [p].
    Part of: `_match_found`.
    """
    place, after = 0, -1
    again: Any = np.int64(0)
    while at < end:
        code = np.int64(codes[place]) if place < len(codes) else np.int64(-3)
        if code == -2:
            place += 1
            after, again = place, at
        elif code == -1:
            at += _character_bytes(content, at, end)
            place += 1
        elif code == np.int64(content[at]):
            at += 1
            place += 1
        elif after >= 0:
            again += _character_bytes(content, again, end)
            place, at = after, again
        else:
            return False
    while place < len(codes) and codes[place] == -2:
        place += 1
    return bool(place == len(codes))


@kernel(interpretable=True)
def _character_bytes(content: NDArray[np.uint8], at: int, end: int) -> Any:
    """Return the size of the character at a place, in a text that ends at `end`.

    Shapes: content [bytes].
    Part of: `_matches`.
    """
    size = np.int64(1)
    while at + size < end and (content[at + size] & 0xC0) == 0x80:
        size += 1
    return size

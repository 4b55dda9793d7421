"""Parts of texts and what stands where in them, by arguments that may differ from row to row.

An argument that is one value for all rows has one entry, others have one for each row. Positions
and lengths count characters of UTF-8, each of which is a byte that continues none.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import inlined_kernel, kernel
from projseg.kernels.texts.text_bytes import checked_texts, read_only
from projseg.kernels.texts.text_words import character_at
from projseg.memory.memory_pool import empty, zeros

Texts: TypeAlias = tuple[NDArray[np.int32], NDArray[np.uint8]]
"""Where each text begins and the last one ends, int32[n + 1], not descending; and their bytes."""
Spans: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Where the part of each row begins in the bytes of the texts, and its size in bytes: int64[n]."""

CHARACTERS: Final = 0xC0
"""Count characters: bytes that these bits call a continuation belong to the one before."""
BYTES: Final = 0
"""Count bytes."""
AT_START, AT_END, ANYWHERE = 0, 1, 2
"""Where a part is looked for."""
LEFT, RIGHT = 1, 2
"""The sides that are trimmed; both are their sum."""


def _row_count(*arguments: Texts | NDArray[np.int64]) -> int:
    """Return the number of rows of arguments, some of which are one value for all rows."""
    counts = [len(one[0]) - 1 if isinstance(one, tuple) else len(one) for one in arguments]
    return 0 if 0 in counts else max(counts)


def borders_for(parts: Texts) -> NDArray[np.int32]:
    """Return room for the borders of the longest part."""
    return empty(int(np.diff(parts[0]).max(initial=0)), np.int32)


def marks_for(letters: Texts) -> NDArray[np.int64]:
    """Return zeros for each code point up to the greatest that some texts may hold."""
    largest = int(letters[1][letters[0][0] : letters[0][-1]].max(initial=0))
    limits = ((0x80, 0x80), (0xE0, 0x800), (0xF0, 0x10000))
    return np.zeros(next((n for lead, n in limits if largest < lead), 0x110000), np.int64)


def substring_rows(
    texts: Texts, positions: NDArray[np.int64], lengths: NDArray[np.int64], unit: int
) -> Spans:
    """Return the part of each text from a position on, counted in `CHARACTERS` or `BYTES`.

    Positions 0 and 1 are the first character, -1 is the last.
    """
    texts = checked_texts(*texts)
    spans = _new_spans(_row_count(texts, positions, lengths))
    _substrings(*texts, read_only(positions), read_only(lengths), unit, *spans)
    return spans


def trimmed_rows(texts: Texts, letters: Texts, sides: int) -> Spans:
    """Return each text without the characters at its ends that are among its letters.

    `sides` is `LEFT`, `RIGHT` or their sum.
    """
    texts, letters = checked_texts(*texts), checked_texts(*letters)
    spans = _new_spans(_row_count(texts, letters))
    _trimmed(*texts, *letters, marks_for(letters), sides, *spans)
    return spans


def split_rows(texts: Texts, delimiters: Texts, indexes: NDArray[np.int64]) -> Spans:
    """Return a part of each text between delimiters, from 1, or from -1 at the end.

    It is empty where there is no such part. An empty delimiter stands nowhere.
    """
    texts, delimiters = checked_texts(*texts), checked_texts(*delimiters)
    spans = _new_spans(_row_count(texts, delimiters, indexes))
    _split(*texts, *delimiters, read_only(indexes), borders_for(delimiters), *spans)
    return spans


def found_rows(texts: Texts, parts: Texts, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where a part stands first in each text from a character on, int64[n].

    Characters count from 1; 0 is nowhere, and before the first one. An empty part is at 1.
    """
    texts, parts = checked_texts(*texts), checked_texts(*parts)
    found = zeros(_row_count(texts, parts, starts), np.int64)
    _find_parts(*texts, *parts, read_only(starts), borders_for(parts), found)
    return found


def holding_rows(texts: Texts, parts: Texts, place: int) -> NDArray[np.bool_]:
    """Return which texts hold a part `AT_START`, `AT_END` or `ANYWHERE`, bool[n]."""
    texts, parts = checked_texts(*texts), checked_texts(*parts)
    found = empty(_row_count(texts, parts), np.bool_)
    _holding(*texts, *parts, place, borders_for(parts), found)
    return found


def first_codes(texts: Texts) -> NDArray[np.int64]:
    """Return the code point of each text's first character, 0 of the empty text; int64[n]."""
    texts = checked_texts(*texts)
    codes = empty(_row_count(texts), np.int64)
    _first_codes(*texts, codes)
    return codes


def _new_spans(row_count: int) -> Spans:
    return empty(row_count, np.int64), empty(row_count, np.int64)


@inlined_kernel
def step_of(entry_count: int) -> Any:
    """Return how far an argument's entries of neighbouring rows are apart: 0 if it has but one.

    Part of: `_substrings`.
    """
    return np.int64(0) if entry_count == 1 else np.int64(1)


@kernel(interpretable=True)
def behind(content: NDArray[np.uint8], at: int, end: int, count: int, unit: int) -> Any:
    """Return the position after `count` more characters of the text that ends at `end`.

    Shapes: content [bytes].
    Part of: `_substrings`.
    """
    if count >= end - at:
        return end
    while count > 0 and at < end:
        at += 1
        while at < end and content[at] & unit == 0x80:
            at += 1
        count -= 1
    return at


@kernel(interpretable=True)
def _substrings(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64],
    unit: int,
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    """Find the characters from a position on.

    Shapes: offsets [1 or n, and 1]; content [bytes]; positions, lengths [1 or n];
        starts, sizes [n].
    Oracle: tests/oracle/texts.py::substring.
    """
    of_texts = step_of(len(offsets) - 1)
    of_positions, of_lengths = step_of(len(positions)), step_of(len(lengths))
    for row in range(len(starts)):
        start = np.int64(offsets[row * of_texts])
        end = np.int64(offsets[row * of_texts + 1])
        position, length = positions[row * of_positions], lengths[row * of_lengths]
        at = start
        if position > 0:
            at = behind(content, start, end, position - 1, unit)
        elif position < 0:
            at = end
            while position < 0 and at > start:
                at -= 1
                if content[at] & unit != 0x80:
                    position += 1
            length += position  # as many characters as it lies before the text
        starts[row] = at
        sizes[row] = behind(content, at, end, length, unit) - at


@kernel(interpretable=True)
def _trimmed(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    letter_offsets: NDArray[np.int32],
    letters: NDArray[np.uint8],
    marks: NDArray[np.int64],
    sides: int,
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    """Find what is left without letters at the ends; `marks` has a row's number at its letters.

    Shapes: offsets, letter_offsets [1 or n, and 1]; content, letters [bytes];
        marks [code points]; starts, sizes [n].
    Oracle: tests/oracle/texts.py::trimmed.
    """
    of_texts, of_letters = step_of(len(offsets) - 1), step_of(len(letter_offsets) - 1)
    for row in range(len(starts)):
        mark = row * of_letters + 1
        at = np.int64(letter_offsets[row * of_letters])
        end = np.int64(letter_offsets[row * of_letters + 1])
        while at < end and (row == 0 or of_letters == 1):
            found = character_at(letters, at, end)
            marks[found & 0xFFFFFFFF] = mark
            at += found >> 32
        at = np.int64(offsets[row * of_texts])
        end = np.int64(offsets[row * of_texts + 1])
        while at < end and sides & 1 != 0:
            found = character_at(content, at, end)
            code = found & 0xFFFFFFFF
            if code >= len(marks) or marks[code] != mark:
                break
            at += found >> 32
        while at < end and sides & 2 != 0:
            last = end - 1
            while last > at and content[last] & 0xC0 == 0x80:
                last -= 1
            code = character_at(content, last, end) & 0xFFFFFFFF
            if code >= len(marks) or marks[code] != mark:
                break
            end = last
        starts[row], sizes[row] = at, end - at


@kernel(interpretable=True)
def fill_borders(
    parts: NDArray[np.uint8], first: int, last: int, borders: NDArray[np.int32]
) -> None:
    """Write for each beginning of a part the size of its longest border: a beginning at its end.

    Shapes: parts [bytes]; borders [longest part].
    Part of: `_split`.
    """
    size = np.int64(0)
    if last > first:
        borders[0] = 0
    for at in range(1, last - first):
        while size > 0 and parts[first + at] != parts[first + size]:
            size = np.int64(borders[size - 1])
        if parts[first + at] == parts[first + size]:
            size += 1
        borders[at] = size


@kernel(interpretable=True)
def find(
    content: NDArray[np.uint8],
    at: int,
    end: int,
    parts: NDArray[np.uint8],
    first: int,
    last: int,
    borders: NDArray[np.int32],
) -> Any:
    """Return where a part first stands in a text from `at` to `end`, -1 for nowhere.

    The borders of the part keep the result for the bytes before, so that no byte is read twice.
    After: Knuth, Morris and Pratt, "Fast pattern matching in strings", 1977.

    Shapes: content, parts [bytes]; borders [longest part].
    Part of: `_split`.
    """
    size = last - first
    if size == 0:
        return at
    known = np.int64(0)
    while at < end:
        while known > 0 and content[at] != parts[first + known]:
            known = np.int64(borders[known - 1])
        if content[at] == parts[first + known]:
            known += 1
        at += 1
        if known == size:
            return at - size
    return np.int64(-1)


@kernel(interpretable=True)
def _split(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    part_offsets: NDArray[np.int32],
    parts: NDArray[np.uint8],
    indexes: NDArray[np.int64],
    borders: NDArray[np.int32],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    """Find what lies between delimiters; those at the end are counted from the beginning.

    Shapes: offsets, part_offsets [1 or n, and 1]; content, parts [bytes]; indexes [1 or n];
        borders [longest part]; starts, sizes [n].
    Oracle: tests/oracle/texts.py::split_part.
    """
    of_texts, of_parts = step_of(len(offsets) - 1), step_of(len(part_offsets) - 1)
    of_indexes = step_of(len(indexes))
    for row in range(len(starts)):
        first = np.int64(part_offsets[row * of_parts])
        last = np.int64(part_offsets[row * of_parts + 1])
        if row == 0 or of_parts == 1:
            fill_borders(parts, first, last, borders)
        start = np.int64(offsets[row * of_texts])
        end = np.int64(offsets[row * of_texts + 1])
        left = indexes[row * of_indexes] - 1
        if left < 0:
            left += 2
            at = start
            while True:
                found = find(content, at, end, parts, first, last, borders)
                if found < 0 or first == last:
                    break
                at = found + last - first
                left += 1
        starts[row], sizes[row] = start, 0
        at = start
        while left >= 0:
            found = find(content, at, end, parts, first, last, borders)
            is_found = found >= 0 and last > first
            if left == 0:
                starts[row], sizes[row] = at, (found if is_found else end) - at
            if not is_found:
                break
            at = found + last - first
            left -= 1


@kernel(interpretable=True)
def _find_parts(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    part_offsets: NDArray[np.int32],
    parts: NDArray[np.uint8],
    starts: NDArray[np.int64],
    borders: NDArray[np.int32],
    found: NDArray[np.int64],
) -> None:
    """Find a part from a character on, and count the characters before it.

    Shapes: offsets, part_offsets [1 or n, and 1]; content, parts [bytes]; starts [1 or n];
        borders [longest part]; found [n].
    Oracle: tests/oracle/texts.py::position.
    """
    of_texts, of_parts = step_of(len(offsets) - 1), step_of(len(part_offsets) - 1)
    of_starts = step_of(len(starts))
    for row in range(len(found)):
        first = np.int64(part_offsets[row * of_parts])
        last = np.int64(part_offsets[row * of_parts + 1])
        if row == 0 or of_parts == 1:
            fill_borders(parts, first, last, borders)
        begin = np.int64(offsets[row * of_texts])
        end = np.int64(offsets[row * of_texts + 1])
        count = starts[row * of_starts] - 1
        found[row] = 0
        if count < 0:
            continue
        if first == last:
            found[row] = 1
            continue
        at = behind(content, begin, end, count, 0xC0)
        at = find(content, at, end, parts, first, last, borders)
        while at >= begin:
            found[row] += content[at] & 0xC0 != 0x80
            at -= 1


@kernel(interpretable=True)
def _holding(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    part_offsets: NDArray[np.int32],
    parts: NDArray[np.uint8],
    place: int,
    borders: NDArray[np.int32],
    found: NDArray[np.bool_],
) -> None:
    """Find whether a part stands at the start, at the end or anywhere.

    Shapes: offsets, part_offsets [1 or n, and 1]; content, parts [bytes];
        borders [longest part]; found [n].
    Oracle: tests/oracle/texts.py::holds.
    """
    of_texts, of_parts = step_of(len(offsets) - 1), step_of(len(part_offsets) - 1)
    for row in range(len(found)):
        first = np.int64(part_offsets[row * of_parts])
        last = np.int64(part_offsets[row * of_parts + 1])
        at = np.int64(offsets[row * of_texts])
        end = np.int64(offsets[row * of_texts + 1])
        if place == 2 and (row == 0 or of_parts == 1):
            fill_borders(parts, first, last, borders)
        if end - at < last - first:
            found[row] = False
            continue
        if place == 2:
            found[row] = find(content, at, end, parts, first, last, borders) >= 0
            continue
        if place == 1:
            at = end - (last - first)
        while first < last and content[at] == parts[first]:
            at += 1
            first += 1
        found[row] = first == last


@kernel(interpretable=True)
def _first_codes(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], codes: NDArray[np.int64]
) -> None:
    """Decode the first character of each text.

    Shapes: offsets [n + 1]; content [bytes]; codes [n].
    Oracle: tests/oracle/texts.py::first_code.
    """
    for row in range(len(codes)):
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        codes[row] = character_at(content, at, end) & 0xFFFFFFFF if at < end else 0

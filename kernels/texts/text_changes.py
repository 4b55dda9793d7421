"""Texts that are made from other texts, by arguments that may differ from row to row.

See `text_parts`.

A kernel writes texts one after the other until there is no room for the next one, and returns its
row. It is called again, from there, with more room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.texts.text_bytes import checked_texts, read_only
from projseg.kernels.texts.text_parts import (
    Texts,
    behind,
    borders_for,
    fill_borders,
    find,
    marks_for,
    step_of,
)
from projseg.kernels.texts.text_words import character_at, put_character
from projseg.memory.memory_pool import empty, zeros

_TEXT_BYTES_MAX: Final = (1 << 31) - 1  # what 32-bit offsets reach

CASED: Final = 1 << 21
"""In an entry of a table of cases: a letter that has a case."""
IGNORED: Final = 1 << 22
"""In an entry: what stands between letters without parting them, as an apostrophe does."""
CODES: Final = (0, 0x1F400, 0xE0000, 0xE0200)
"""The code points of which a table of cases has entries: two ranges, one after the other."""
SEVERAL: Final = 1 << 23
"""In an entry: the character becomes several, at this place among all such."""
SIGMA: Final = 1 << 24
"""In an entry: the letter whose small form is the one before at the end of a word."""

_ENTRIES: Final = 0x1F400 + 0x200

Written = tuple[NDArray[np.int32], NDArray[np.uint8]] | None
"""Texts, or None where they would take more bytes than they may."""


def replaced_rows(
    texts: Texts, searched: Texts, instead: Texts, valid: NDArray[np.bool_], most: int
) -> Written:
    """Return each text with another for the one searched for; an empty one is found nowhere.

    The texts take at most `most` bytes together; rows that are not valid get the empty text, as in
    the other functions.
    """
    texts, searched = checked_texts(*texts), checked_texts(*searched)
    rest = (*checked_texts(*instead), borders_for(searched), read_only(valid))

    def write(row: int, ends: NDArray[np.int32], made: NDArray[np.uint8]) -> Any:
        return _replace(row, *texts, *searched, *rest, ends, made)

    return written_texts(write, len(valid), texts, most)


def translated_rows(
    texts: Texts, letters: Texts, instead: Texts, valid: NDArray[np.bool_], most: int
) -> Written:
    """Return each text with its letters replaced by those that stand instead, or left out."""
    texts, letters = checked_texts(*texts), checked_texts(*letters)
    rest = (*checked_texts(*instead), marks_for(letters), read_only(valid))

    def write(row: int, ends: NDArray[np.int32], made: NDArray[np.uint8]) -> Any:
        return _translate(row, *texts, *letters, *rest, ends, made)

    return written_texts(write, len(valid), texts, most)


def padded_rows(
    texts: Texts,
    lengths: NDArray[np.int64],
    pads: Texts,
    valid: NDArray[np.bool_],
    *,
    unit: int,
    is_left: bool,
    most: int,
) -> Written:
    """Return each text with its number of characters: cut, or padded by a repeated text."""
    texts = checked_texts(*texts)
    rest = (read_only(lengths), *checked_texts(*pads), unit, is_left, read_only(valid))

    def write(row: int, ends: NDArray[np.int32], made: NDArray[np.uint8]) -> Any:
        return _pad(row, *texts, *rest, ends, made)

    return written_texts(write, len(valid), texts, most)


def cased_rows(
    texts: Texts,
    tables: tuple[NDArray[np.uint32], NDArray[np.uint32]],
    several: NDArray[np.uint32],
    valid: NDArray[np.bool_],
    most: int,
) -> Written:
    """Return each text with the first character of each word by one table, others by another.

    A table, uint32[c], has an entry for each of `CODES`: what it becomes, and `CASED`, `IGNORED`,
    `SEVERAL` and `SIGMA`; other characters stay as they are, and part words. `several` has three
    code points of each, 0 for none.
    """
    texts = checked_texts(*texts)
    if {len(table) for table in tables} != {_ENTRIES}:
        raise InvalidInputError("PROJSEG_INTERNAL", "a table of cases of another size")
    rest = (*map(read_only, (*tables, several, valid)),)

    def write(row: int, ends: NDArray[np.int32], made: NDArray[np.uint8]) -> Any:
        return _change_cases(row, *texts, *rest, ends, made)

    return written_texts(write, len(valid), texts, most)


def base64_rows(texts: Texts, valid: NDArray[np.bool_], most: int) -> Written:
    """Return bytes as letters in lines of 76, as MIME has them."""
    texts = checked_texts(*texts)
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    rest = np.frombuffer(letters, np.uint8), read_only(valid)

    def write(row: int, ends: NDArray[np.int32], made: NDArray[np.uint8]) -> Any:
        return _write_base64(row, *texts, *rest, ends, made)

    return written_texts(write, len(valid), texts, most)


def unhexed_rows(
    texts: Texts, valid: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.bool_]]:
    """Return the bytes of hexadecimal digits, and where there are such bytes: bool[n].

    The first digit may be one alone.
    """
    texts, is_hex = checked_texts(*texts), valid.copy()
    ends = zeros(len(valid) + 1, np.int32)
    made = empty((int(texts[0][-1] - texts[0][0]) + len(valid) + 1) // 2 + 1, np.uint8)
    _unhex(*texts, is_hex, ends, made)
    return ends, made[: ends[-1]], is_hex


def written_texts(
    write: Callable[[int, NDArray[np.int32], NDArray[np.uint8]], Any],
    row_count: int,
    texts: Texts,
    most: int,
) -> Written:
    """Return the texts that a kernel writes, in room that is doubled where it stops."""
    most = min(most, _TEXT_BYTES_MAX)
    ends = zeros(row_count + 1, np.int32)
    made = empty(min(int(texts[0][-1] - texts[0][0]) + 64, most), np.uint8)
    row = int(write(0, ends, made))
    while row < row_count:
        if len(made) == most:
            return None
        larger = empty(min(2 * len(made), most), np.uint8)
        larger[: ends[row]] = made[: ends[row]]
        made = larger
        row = int(write(row, ends, made))
    return ends, made[: ends[-1]]


@kernel(interpretable=True)
def copy_bytes(
    content: NDArray[np.uint8], start: int, end: int, made: NDArray[np.uint8], at: int
) -> Any:
    """Copy bytes and return where they end.

    Shapes: content [bytes]; made [room].
    Part of: `_replace`.
    """
    # Compilers copy several bytes at once where no index may count from the end.
    source, place = np.uint64(start), np.uint64(at)
    for i in range(end - start):
        made[place + np.uint64(i)] = content[source + np.uint64(i)]
    return at + end - start


@kernel(interpretable=True)
def _replace(
    row: int,
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    part_offsets: NDArray[np.int32],
    parts: NDArray[np.uint8],
    instead_offsets: NDArray[np.int32],
    instead: NDArray[np.uint8],
    borders: NDArray[np.int32],
    valid: NDArray[np.bool_],
    ends: NDArray[np.int32],
    made: NDArray[np.uint8],
) -> Any:
    """Copy what lies between the parts that are found, and what stands instead of them.

    Shapes: offsets, part_offsets, instead_offsets [1 or n, and 1]; content, parts, instead [bytes];
        borders [longest part]; valid [n]; ends [n + 1]; made [room].
    Oracle: tests/oracle/texts.py::replaced.
    """
    of_texts, of_parts = step_of(len(offsets) - 1), step_of(len(part_offsets) - 1)
    of_instead = step_of(len(instead_offsets) - 1)
    is_new = True
    while row < len(valid):
        out = np.int64(ends[row])
        at = np.int64(offsets[row * of_texts])
        end = np.int64(offsets[row * of_texts + 1])
        first = np.int64(part_offsets[row * of_parts])
        last = np.int64(part_offsets[row * of_parts + 1])
        if is_new or of_parts == 1:
            fill_borders(parts, first, last, borders)
            is_new = False
        start = np.int64(instead_offsets[row * of_instead])
        stop = np.int64(instead_offsets[row * of_instead + 1])
        while valid[row] and first < last:
            found = find(content, at, end, parts, first, last, borders)
            if found < 0:
                break
            if out + (found - at) + (stop - start) > len(made):
                return row
            out = copy_bytes(content, at, found, made, out)
            out = copy_bytes(instead, start, stop, made, out)
            at = found + last - first
        if valid[row]:
            if out + (end - at) > len(made):
                return row
            out = copy_bytes(content, at, end, made, out)
        row += 1
        ends[row] = out
    return row


@kernel(interpretable=True)
def _translate(
    row: int,
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    letter_offsets: NDArray[np.int32],
    letters: NDArray[np.uint8],
    instead_offsets: NDArray[np.int32],
    instead: NDArray[np.uint8],
    marks: NDArray[np.int64],
    valid: NDArray[np.bool_],
    ends: NDArray[np.int32],
    made: NDArray[np.uint8],
) -> Any:
    """Write each character, or what its mark has instead: a code point, or 0x1FFFFF for none.

    A mark is a row's number times 2^21 and that; of a letter that is there twice the first counts.

    Shapes: offsets, letter_offsets, instead_offsets [1 or n, and 1];
        content, letters, instead [bytes]; marks [code points]; valid [n]; ends [n + 1];
        made [room].
    Oracle: tests/oracle/texts.py::translated.
    """
    of_texts = step_of(len(offsets) - 1)
    of_letters, of_instead = step_of(len(letter_offsets) - 1), step_of(len(instead_offsets) - 1)
    is_new = True
    while row < len(valid):
        mark = row * max(of_letters, of_instead) + 1
        at = np.int64(letter_offsets[row * of_letters])
        end = np.int64(letter_offsets[row * of_letters + 1])
        start = np.int64(instead_offsets[row * of_instead])
        stop = np.int64(instead_offsets[row * of_instead + 1])
        while at < end and (is_new or mark > 1):
            found = character_at(letters, at, end)
            at += found >> 32
            code = found & 0xFFFFFFFF
            becomes = np.int64(0x1FFFFF)
            if start < stop:
                found = character_at(instead, start, stop)
                start += found >> 32
                becomes = found & 0xFFFFFFFF
            if marks[code] >> 21 != mark:
                marks[code] = mark << 21 | becomes
        is_new = False
        out = np.int64(ends[row])
        at = np.int64(offsets[row * of_texts])
        end = np.int64(offsets[row * of_texts + 1])
        while valid[row] and at < end:
            if out + 4 > len(made):
                return row
            found = character_at(content, at, end)
            at += found >> 32
            code = found & 0xFFFFFFFF
            if code < len(marks) and marks[code] >> 21 == mark:
                code = marks[code] & 0x1FFFFF
            if code != 0x1FFFFF:
                out = put_character(code, made, out)
        row += 1
        ends[row] = out
    return row


@kernel(interpretable=True)
def _pad(
    row: int,
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    lengths: NDArray[np.int64],
    pad_offsets: NDArray[np.int32],
    pads: NDArray[np.uint8],
    unit: int,
    is_left: bool,
    valid: NDArray[np.bool_],
    ends: NDArray[np.int32],
    made: NDArray[np.uint8],
) -> Any:
    """Write the first characters of a text, and beside them as many of a pad as are missing.

    Shapes: offsets, pad_offsets [1 or n, and 1]; content, pads [bytes]; lengths [1 or n];
        valid [n]; ends [n + 1]; made [room].
    Oracle: tests/oracle/texts.py::padded.
    """
    of_texts, of_pads = step_of(len(offsets) - 1), step_of(len(pad_offsets) - 1)
    of_lengths = step_of(len(lengths))
    while row < len(valid):
        out = np.int64(ends[row])
        start = np.int64(offsets[row * of_texts])
        first = np.int64(pad_offsets[row * of_pads])
        last = np.int64(pad_offsets[row * of_pads + 1])
        missing = lengths[row * of_lengths] if valid[row] else np.int64(0)
        end = behind(content, start, np.int64(offsets[row * of_texts + 1]), missing, unit)
        for at in range(start, end):
            missing -= content[at] & unit != 0x80
        size, count = last - first, np.int64(0)
        for at in range(first, last):
            count += pads[at] & unit != 0x80
        padding = np.int64(0)
        if missing > 0 and count > 0:
            padding = missing // count * size
            padding += behind(pads, first, last, missing % count, unit) - first
        if out + (end - start) + padding > len(made):
            return row
        if not is_left:
            out = copy_bytes(content, start, end, made, out)
        done = copy_bytes(pads, first, first + min(size, padding), made, out) - out
        while done < padding:  # each time twice as much
            some = out + min(done, padding - done)
            done = copy_bytes(made, out, some, made, out + done) - out
        out += padding
        if is_left:
            out = copy_bytes(content, start, end, made, out)
        row += 1
        ends[row] = out
    return row


@kernel(interpretable=True)
def _parts_words(content: NDArray[np.uint8], at: int, end: int, table: NDArray[np.uint32]) -> Any:
    """Whether a text has no letter with a case next to a place, but for what is ignored.

    It is read from `at` to `end`, which comes before `at` if it is read backwards.

    Shapes: content [bytes]; table [code points].
    Part of: `_change_cases`.
    """
    while at != end:
        if at < end:
            found = character_at(content, at, end)
            at += found >> 32
        else:
            stop = at
            at -= 1
            while at > end and content[at] & 0xC0 == 0x80:
                at -= 1
            found = character_at(content, at, stop)
        code = found & 0xFFFFFFFF
        place = code if code < 0x1F400 else code - 0xE0000 + 0x1F400
        entry = np.int64(table[place]) if 0 <= place < len(table) else code
        if entry & (1 << 22) == 0:
            return entry & (1 << 21) == 0
    return True


@kernel(interpretable=True)
def _change_cases(
    row: int,
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    firsts: NDArray[np.uint32],
    others: NDArray[np.uint32],
    several: NDArray[np.uint32],
    valid: NDArray[np.bool_],
    ends: NDArray[np.int32],
    made: NDArray[np.uint8],
) -> Any:
    """Write what each character becomes at its place in a word.

    Shapes: offsets [n + 1]; content [bytes]; firsts, others [code points]; several [3 k];
        valid [n]; ends [n + 1]; made [room].
    Oracle: tests/oracle/texts.py::cased.
    """
    while row < len(valid):
        out = np.int64(ends[row])
        begin = np.int64(offsets[row])
        at = begin
        end = np.int64(offsets[row + 1])
        is_first = True
        while valid[row] and at < end:
            if out + 12 > len(made):
                return row
            found = character_at(content, at, end)
            code = found & 0xFFFFFFFF
            after = at + (found >> 32)
            entry = code
            if code < 0x1F400:
                entry = np.int64(firsts[code]) if is_first else np.int64(others[code])
            is_first = code == 32
            become = entry & 0x1FFFFF
            is_sigma = entry & (1 << 24) != 0
            if is_sigma and not _parts_words(content, at, begin, others):
                become -= np.int64(_parts_words(content, after, end, others))
            if entry & (1 << 23) == 0:
                out = put_character(become, made, out)
            else:
                for i in range(3 * become, 3 * become + 3):
                    if several[i] != 0:
                        out = put_character(np.int64(several[i]), made, out)
            at = after
        row += 1
        ends[row] = out
    return row


@kernel(interpretable=True)
def _write_base64(
    row: int,
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    letters: NDArray[np.uint8],
    valid: NDArray[np.bool_],
    ends: NDArray[np.int32],
    made: NDArray[np.uint8],
) -> Any:
    """Write four letters for three bytes, and a line's end before letters that pass 76.

    Shapes: offsets [n + 1]; content [bytes]; letters [64]; valid [n]; ends [n + 1]; made [room].
    Oracle: tests/oracle/texts.py::in_base64.
    """
    while row < len(valid):
        out = np.int64(ends[row])
        start = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - start if valid[row] else np.int64(0)
        if out + (size + 2) // 3 * 4 + size // 57 * 2 > len(made):
            return row
        for at in range(0, size, 3):
            if at > 0 and at % 57 == 0:
                made[out], made[out + 1] = 13, 10
                out += 2
            word = np.int64(content[start + at]) << 16
            if at + 1 < size:
                word |= np.int64(content[start + at + 1]) << 8
            if at + 2 < size:
                word |= np.int64(content[start + at + 2])
            for i in range(4):
                is_there = at + i <= size
                made[out + i] = letters[word >> (18 - 6 * i) & 63] if is_there else 61
            out += 4
        row += 1
        ends[row] = out
    return row


@kernel(interpretable=True)
def _unhex(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    is_hex: NDArray[np.bool_],
    ends: NDArray[np.int32],
    made: NDArray[np.uint8],
) -> None:
    """Write a byte for two digits, of which the first may be one; other characters have none.

    Shapes: offsets [n + 1]; content [bytes]; is_hex [n]; ends [n + 1]; made [room].
    Oracle: tests/oracle/texts.py::from_hex.
    """
    out = np.int64(0)
    for row in range(len(is_hex)):
        start, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        place, byte = out, np.int64(0)
        for at in range(start, end):
            digit = np.int64(content[at])
            value = np.int64(16)
            if 48 <= digit <= 57:
                value = digit - 48
            elif 65 <= digit <= 70:
                value = digit - 55
            elif 97 <= digit <= 102:
                value = digit - 87
            if value == 16:
                is_hex[row] = False
            byte = (byte << 4 | value & 15) & 255
            if (end - at) % 2 == 1:
                made[place] = byte
                place += 1
        out = place if is_hex[row] else out
        ends[row + 1] = out

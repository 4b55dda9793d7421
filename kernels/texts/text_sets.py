"""Texts replaced and split at the characters of a set, or at runs of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.texts.text_bytes import checked_texts, read_only
from projseg.kernels.texts.text_changes import Written, copy_bytes, written_texts
from projseg.kernels.texts.text_parts import Spans, Texts
from projseg.kernels.texts.text_words import character_at
from projseg.memory.memory_pool import empty, zeros

CharacterSet: TypeAlias = tuple[NDArray[np.bool_], NDArray[np.int32]]
"""A set of characters: which of ASCII are members, and where membership changes; ascending."""


def replaced_runs(
    texts: Texts,
    members: CharacterSet,
    instead: NDArray[np.uint8],
    valid: NDArray[np.bool_],
    *,
    is_run: bool,
    most: int,
) -> Written:
    """Return each text with bytes in place of each member of a set, or of each run of members."""
    texts = checked_texts(*texts)
    rest = (*members, read_only(instead), is_run, read_only(valid))

    def write(row: int, ends: NDArray[np.int32], made: NDArray[np.uint8]) -> Any:
        return _replace_runs(row, *texts, *rest, ends, made)

    return written_texts(write, len(valid), texts, most)


def split_runs(
    texts: Texts, members: CharacterSet, limit: int, *, is_run: bool
) -> tuple[NDArray[np.int32], Spans]:
    """Return how many parts each text and those before it have, int32[n + 1], and the parts.

    They lie between members of a set, or between runs of them; below 1, `limit`, the most parts of
    a text, sets none.
    """
    texts = checked_texts(*texts)
    ends = zeros(len(texts[0]), np.int32)
    none = np.zeros(0, np.int64)
    _split_runs(*texts, *members, is_run, limit, ends, none, none.copy())
    spans = empty(int(ends[-1]), np.int64), empty(int(ends[-1]), np.int64)
    _split_runs(*texts, *members, is_run, limit, ends, *spans)
    return ends, spans


def character_set(bounds: Sequence[int]) -> CharacterSet:
    """Return the set of the code points from the first of these up to the second, and so on."""
    changes = np.array(bounds, np.int32)
    places = np.searchsorted(changes, np.arange(0x80), side="right")
    return read_only(places % 2 == 1), read_only(changes)


@kernel(interpretable=True)
def _is_member(code: np.int64, bounds: NDArray[np.int32]) -> bool:
    """Whether a set has a code point: an odd number of its bounds is at most as great.

    Shapes: bounds [bounds].
    Part of: `_replace_runs`.
    """
    low, high = 0, len(bounds)
    while low < high:
        middle = (low + high) >> 1
        if bounds[middle] <= code:
            low = middle + 1
        else:
            high = middle
    return low & 1 == 1


@kernel(interpretable=True)
def _replace_runs(
    row: int,
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    ascii_members: NDArray[np.bool_],
    bounds: NDArray[np.int32],
    instead: NDArray[np.uint8],
    is_run: bool,
    valid: NDArray[np.bool_],
    ends: NDArray[np.int32],
    made: NDArray[np.uint8],
) -> Any:
    """Copy the characters that are no members, and what stands instead of the members.

    Shapes: offsets [n + 1]; content, instead [bytes]; ascii_members [128]; bounds [bounds];
        valid [n]; ends [n + 1]; made [room].
    Oracle: tests/oracle/texts.py::replaced_runs.
    """
    while row < len(valid):
        out = np.int64(ends[row])
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        end = end if valid[row] else at
        begin, is_within = at, False
        while at < end:
            after = at + 1
            if content[at] < 0x80:
                is_member = ascii_members[content[at]]
            else:
                found = character_at(content, at, end)
                after = at + (found >> 32)
                is_member = _is_member(found & 0xFFFFFFFF, bounds)
            if is_member and is_within:
                begin = after
            elif is_member:
                if out + (at - begin) + len(instead) > len(made):
                    return row
                out = copy_bytes(content, begin, at, made, out)
                out = copy_bytes(instead, 0, len(instead), made, out)
                begin = after
            is_within = is_member and is_run
            at = after
        if out + (end - begin) > len(made):
            return row
        out = copy_bytes(content, begin, end, made, out)
        row += 1
        ends[row] = out
    return row


@kernel(interpretable=True)
def _split_runs(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    ascii_members: NDArray[np.bool_],
    bounds: NDArray[np.int32],
    is_run: bool,
    limit: int,
    ends: NDArray[np.int32],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> None:
    """Count the parts between members, and write them where there is room for any.

    Shapes: offsets, ends [n + 1]; content [bytes]; ascii_members [128]; bounds [bounds];
        starts, sizes [parts, or 0].
    Oracle: tests/oracle/texts.py::split_runs.
    """
    count = np.int64(0)
    for row in range(len(ends) - 1):
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        begin, left, is_within = at, np.int64(limit), False
        while at < end and (left != 1 or is_within):
            after = at + 1
            if content[at] < 0x80:
                is_member = ascii_members[content[at]]
            else:
                found = character_at(content, at, end)
                after = at + (found >> 32)
                is_member = _is_member(found & 0xFFFFFFFF, bounds)
            if is_member and is_within:
                begin = after
            elif is_member:
                if len(starts) > 0:
                    starts[count], sizes[count] = begin, at - begin
                count += 1
                left -= 1
                begin = after
            is_within = is_member and is_run
            at = after
        if len(starts) > 0:
            starts[count], sizes[count] = begin, end - begin
        count += 1
        ends[row + 1] = count

"""Texts of floats as Java writes them, from the same digits as C and Arrow write them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.texts.text_bytes import checked_texts, read_only
from projseg.memory.memory_pool import empty

_MORE_BYTES: Final = 8  # that a text may take than the other: of `inf`, `1e+20` or `1234567`
_WORDS: Final = read_only(np.frombuffer(b"NaNInfinity0.0", np.uint8))


def java_texts(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], valid: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]] | None:
    """Return (offsets int32[n + 1], bytes) of floats: plain from 1e-3 up to 1e7, else with an E.

    The input is their shortest digits, perhaps with a point and an exponent, or `nan`, `inf`,
    `-inf`. Rows that are not valid are empty; None if the texts may pass 32-bit offsets.
    """
    offsets, content = checked_texts(offsets, content)
    if len(valid) != len(offsets) - 1:
        raise InvalidInputError("PROJSEG_INTERNAL", "texts and their validity do not fit")
    most = int(offsets[-1]) - int(offsets[0]) + _MORE_BYTES * len(valid)
    if most > np.iinfo(np.int32).max:
        return None
    ends, found = np.zeros(len(offsets), np.int32), empty(most, np.dtype(np.uint8))
    digits = np.zeros(most, np.uint8)
    _java_texts(offsets, content, read_only(valid), _WORDS, digits, ends, found)
    return ends, found[: ends[-1]]


@kernel
def _java_texts(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    valid: NDArray[np.bool_],
    words: NDArray[np.uint8],
    digits: NDArray[np.uint8],
    ends: NDArray[np.int32],
    found: NDArray[np.uint8],
) -> None:
    """Write row by row.

    Shapes: offsets, ends [n + 1]; content [bytes]; valid [n]; words [14]; digits [found bytes];
    found [found bytes].
    Oracle: tests/oracle/decimals.py::java_double.
    """
    end: Any = np.int64(0)
    for row in range(len(valid)):
        start, stop = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if valid[row] and start < stop:
            if content[start] == 45:
                found[end] = 45
                end += 1
                start += 1
            count, power = _digits(content, start, stop, digits)
            if count < 0:
                end = _copied(words, 0, 3, found, end)
                if content[start] == 105:
                    end = _copied(words, 3, 11, found, end - 3)
            elif count == 0:
                end = _copied(words, 11, 14, found, end)
            elif -2 <= power <= 7:
                end = _plain(digits, count, power, found, end)
            else:
                end = _with_exponent(digits, count, power, found, end)
        ends[row + 1] = end


@kernel
def _digits(content: NDArray[np.uint8], at: int, stop: int, digits: NDArray[np.uint8]) -> Any:
    """Return (how many digits, p) of a number that is 0.d1d2d3... times 10**p; -1 of a word.

    Shapes: content [bytes]; digits [found bytes].
    Part of: `_java_texts`.
    """
    count, last, power = 0, 0, 0
    exponent: Any = np.int64(0)
    is_behind, is_negative = False, False
    if content[at] > 57:
        return -1, 0
    while at < stop and content[at] != 101:
        if content[at] == 46:
            is_behind = True
        elif count > 0 or content[at] != 48:
            digits[count] = content[at]
            count += 1
            last = count if content[at] != 48 else last
            power += 0 if is_behind else 1
        elif is_behind:
            power -= 1
        at += 1
    at += 1
    while at < stop:
        is_negative = is_negative or content[at] == 45
        if content[at] >= 48:
            exponent = exponent * 10 + np.int64(content[at]) - 48
        at += 1
    return last, power - exponent if is_negative else power + exponent


@kernel
def _plain(
    digits: NDArray[np.uint8], count: int, power: int, found: NDArray[np.uint8], end: int
) -> Any:
    """Write a number without an exponent, and return where it ends.

    Shapes: digits, found [found bytes].
    Part of: `_java_texts`.
    """
    for place in range(min(power - 1, 0), max(count, power + 1)):
        if place == power:
            found[end] = 46
            end += 1
        found[end] = digits[place] if 0 <= place < count else np.uint8(48)
        end += 1
    return end


@kernel
def _with_exponent(
    digits: NDArray[np.uint8], count: int, power: int, found: NDArray[np.uint8], end: int
) -> Any:
    """Write a number with an exponent, and return where it ends.

    Shapes: digits, found [found bytes].
    Part of: `_java_texts`.
    """
    found[end] = digits[0]
    found[end + 1] = 46
    found[end + 2] = 48
    end += 3
    if count > 1:
        end = _copied(digits, 1, count, found, end - 1)
    found[end] = 69
    end += 1
    exponent = power - 1
    if exponent < 0:
        found[end] = 45
        end += 1
        exponent = -exponent
    divisor = 100 if exponent >= 100 else 10 if exponent >= 10 else 1
    while divisor > 0:
        found[end] = exponent // divisor % 10 + 48
        end += 1
        divisor //= 10
    return end


@kernel
def _copied(
    source: NDArray[np.uint8], start: int, stop: int, found: NDArray[np.uint8], end: int
) -> Any:
    """Copy bytes, and return where they end.

    Shapes: source [source bytes]; found [found bytes].
    Part of: `_java_texts`.
    """
    for at in range(start, stop):
        found[end] = source[at]
        end += 1
    return end

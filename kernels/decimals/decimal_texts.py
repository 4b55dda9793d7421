"""Decimals of up to 38 digits from their texts, and the texts of decimals."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.decimals.wide_arithmetic import (
    POWERS,
    Rounding,
    Size,
    divided_by_word,
    sign_and_size,
    times_word,
    with_sign,
)
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.texts.text_bytes import checked_texts, read_only
from projseg.memory.memory_pool import empty

DIGITS_MAX: Final = 38
_SCALE_MAX: Final = 1 << 20
_U = np.uint64


class DecimalReading(IntEnum):
    """What a text was read as."""

    NUMBER = 0
    OVERFLOW = 1  # a number of too many digits
    NO_NUMBER = 2


def read_decimals(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    valid: NDArray[np.bool_],
    precision: int,
    scale: int,
    rounding: Rounding = Rounding.HALF_UP,
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return (unscaled decimals int64[n, 2], a `DecimalReading` of each text uint8[n]).

    A text is digits with a point or without one, perhaps a sign before and an exponent after, and
    blanks around all. As in Java, an exponent passes 32 bits in no text of a number. Rows that are
    not valid become 0.
    """
    offsets, content = checked_texts(offsets, content)
    if len(valid) != len(offsets) - 1:
        raise InvalidInputError("PROJSEG_INTERNAL", "texts and their validity do not fit")
    if not 1 <= precision <= DIGITS_MAX or abs(scale) > _SCALE_MAX:
        raise InvalidInputError("PROJSEG_INTERNAL", f"decimal({precision},{scale}) is no type")
    values, readings = np.zeros((len(valid), 2), np.uint64), np.zeros(len(valid), np.uint8)
    is_half_even = rounding == Rounding.HALF_EVEN
    _read(
        offsets, content, read_only(valid), precision, scale, is_half_even, POWERS, values, readings
    )
    return values.view(np.int64), readings


def decimal_texts(
    values: NDArray[np.int64], scale: int, valid: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]] | None:
    """Return (offsets int32[n + 1], bytes) of unscaled decimals int64[n, 2], without exponents.

    Rows that are not valid are empty; None if the texts pass 32-bit offsets.
    """
    if values.shape != (len(valid), 2) or not 0 <= scale <= DIGITS_MAX:
        raise InvalidInputError("PROJSEG_INTERNAL", "decimals and their validity do not fit")
    words, valid = read_only(np.ascontiguousarray(values).view(np.uint64)), read_only(valid)
    offsets = np.zeros(len(valid) + 1, np.int32)
    size = int(_measure(words, scale, valid, POWERS, offsets))
    if size > np.iinfo(np.int32).max:
        return None
    content = empty(size, np.dtype(np.uint8))
    _write(words, scale, valid, POWERS, offsets, content)
    return offsets, content


@kernel
def _read(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    valid: NDArray[np.bool_],
    precision: int,
    scale: int,
    is_half_even: bool,
    powers: NDArray[np.uint64],
    values: NDArray[np.uint64],
    readings: NDArray[np.uint8],
) -> None:
    """Read row by row; what is no number, or does not fit, stays 0.

    Shapes: offsets [n + 1]; content [bytes]; valid, readings [n]; powers [20]; values [n, 2].
    Oracle: tests/oracle/decimals.py::read.
    """
    word_digits = min(precision, 19)
    _, limit = times_word(
        (powers[word_digits], _U(0), _U(0), _U(0)), powers[precision - word_digits]
    )
    for row in range(len(valid)):
        if not valid[row]:
            continue
        start, end = _without_blanks(content, np.int64(offsets[row]), np.int64(offsets[row + 1]))
        first, point, stop, exponent = _parts(content, start, end)
        if stop < 0:
            readings[row] = 2
            continue
        # So many digits, from the first that is not 0 on, make the decimal.
        wanted = point - first + exponent + scale + np.int64(first > point)
        if first == stop or wanted < 0:
            continue
        if wanted > precision:
            readings[row] = 1
            continue
        size = _digits(content, first, stop, wanted, is_half_even, powers)
        if size[1] == limit[1] and size[0] == limit[0]:  # nines that were rounded up
            readings[row] = 1
            continue
        values[row, 0], values[row, 1] = with_sign(content[start] == 45, size)


@kernel
def _without_blanks(content: NDArray[np.uint8], start: int, end: int) -> tuple[int, int]:
    """Return where a text begins and ends without the blanks around it.

    Shapes: content [bytes].
    Part of: `_read`.
    """
    while start < end and (content[start] <= 32 or content[start] == 127):
        start += 1
    while start < end and (content[end - 1] <= 32 or content[end - 1] == 127):
        end -= 1
    return start, end


@kernel
def _parts(content: NDArray[np.uint8], start: int, end: int) -> Any:
    """Return where the first digit above 0 is, the point, the end of the digits; and the exponent.

    All digits may be 0: the first place is the last one then. The end is -1 of what is no number.

    Shapes: content [bytes].
    Part of: `_read`.
    """
    at = start + np.int64(start < end and (content[start] == 43 or content[start] == 45))
    point: Any = np.int64(-1)
    first: Any = np.int64(-1)
    digits = 0
    while at < end:
        byte = content[at]
        if 48 <= byte <= 57:
            digits += 1
            if first < 0 and byte != 48:
                first = at
        elif byte == 46 and point < 0:
            point = at
        else:
            break
        at += 1
    stop = at
    point = stop if point < 0 else point
    first = stop if first < 0 else first
    exponent = _exponent(content, at, end) if at < end else np.int64(0)
    after = max(stop - point - 1, 0) - exponent
    if digits == 0 or not -0x80000000 <= after <= 0x7FFFFFFF:
        stop = np.int64(-1)
    return first, point, stop, exponent


@kernel
def _exponent(content: NDArray[np.uint8], at: int, end: int) -> Any:
    """Return an exponent with its letter, a number too large of what is none.

    Shapes: content [bytes].
    Part of: `_parts`.
    """
    if content[at] != 69 and content[at] != 101:
        return 1 << 40
    at += 1
    is_negative = at < end and content[at] == 45
    if at < end and (content[at] == 43 or content[at] == 45):
        at += 1
    exponent: Any = np.int64(0 if at < end else 1 << 40)
    while at < end:
        digit = np.int64(content[at]) - 48
        is_digit = 0 <= digit <= 9
        exponent = min(exponent * 10 + digit, 1 << 40) if is_digit else np.int64(1 << 40)
        at += 1
    return -exponent if is_negative else exponent


@kernel
def _digits(
    content: NDArray[np.uint8],
    first: int,
    stop: int,
    wanted: int,
    is_half_even: bool,
    powers: NDArray[np.uint64],
) -> Size:
    """Return the number of the first `wanted` digits, rounded; missing digits are 0.

    Shapes: content [bytes]; powers [20].
    Part of: `_read`.
    """
    at: Any = np.int64(first)
    upper, lower, count = _U(0), _U(0), 0
    while at < stop and count < wanted:
        if content[at] != 46:
            if wanted - count > 19:
                upper = upper * _U(10) + (_U(content[at]) - _U(48))
            else:
                lower = lower * _U(10) + (_U(content[at]) - _U(48))
            count += 1
        at += 1
    if wanted - count > 19:
        upper *= powers[wanted - count - 19]
    else:
        lower *= powers[wanted - count]
    _, (low, high, _, _) = times_word((upper, _U(0), _U(0), _U(0)), powers[19])
    low += lower
    high += _U(low < lower)
    at += np.int64(at < stop and content[at] == 46)
    if at < stop and content[at] >= 53:
        is_up = content[at] > 53 or not is_half_even or low & _U(1) == 1
        while not is_up and at + 1 < stop:
            at += 1
            is_up = content[at] != 48 and content[at] != 46
        low += _U(is_up)
        high += _U(is_up and low == 0)
    return low, high, _U(0), _U(0)


@kernel
def _measure(
    values: NDArray[np.uint64],
    scale: int,
    valid: NDArray[np.bool_],
    powers: NDArray[np.uint64],
    offsets: NDArray[np.int32],
) -> Any:
    """Write where each text ends, and return how many bytes all take, or the first are too many.

    Shapes: values [n, 2]; valid [n]; powers [20]; offsets [n + 1].
    Oracle: tests/oracle/decimals.py::text.
    """
    end: Any = np.int64(0)
    for row in range(len(values)):
        if valid[row]:
            is_negative, size = sign_and_size(values[row, 0], values[row, 1])
            upper, word = divided_by_word(size, powers[19])
            digits = 19 + _digit_count(upper[0], powers)
            if upper[0] == 0:
                digits = _digit_count(word, powers)
            end += max(digits, scale + 1) + np.int64(is_negative) + np.int64(scale > 0)
        if end > 0x7FFFFFFF:
            return end
        offsets[row + 1] = end
    return end


@kernel
def _digit_count(word: np.uint64, powers: NDArray[np.uint64]) -> int:
    """Return how many digits a word has, one at least.

    Shapes: powers [20].
    Part of: `_measure`.
    """
    count = 1
    while count < 20 and word >= powers[count]:
        count += 1
    return count


@kernel
def _write(
    values: NDArray[np.uint64],
    scale: int,
    valid: NDArray[np.bool_],
    powers: NDArray[np.uint64],
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
) -> None:
    """Write each text from its last digit to its first.

    Shapes: values [n, 2]; valid [n]; powers [20]; offsets [n + 1]; content [bytes].
    Oracle: tests/oracle/decimals.py::text.
    """
    for row in range(len(values)):
        if not valid[row]:
            continue
        is_negative, size = sign_and_size(values[row, 0], values[row, 1])
        upper, word = divided_by_word(size, powers[19])
        start, at = np.int64(offsets[row]), np.int64(offsets[row + 1]) - 1
        point = at - scale if scale > 0 else np.int64(-1)
        if is_negative:
            content[start] = 45
            start += 1
        count = 0
        while at >= start:
            if at == point:
                content[at] = 46
            else:
                if count == 19:
                    word = upper[0]
                content[at] = word % _U(10) + _U(48)
                word //= _U(10)
                count += 1
            at -= 1

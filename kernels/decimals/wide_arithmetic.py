"""Arithmetic and rounding of decimals of up to 38 digits, exact, in up to 256 bits.

A decimal is two's complement in two words of 64 bits, the lower one first, as in Arrow. Inside, it
is its sign and its size in four words, the lowest first, of which most are 0 and cost nothing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import Intrinsic, kernel
from projseg.kernels.texts.text_bytes import read_only

_U: TypeAlias = np.uint64
_LOW_HALF: Final = _U(0xFFFFFFFF)
_MOST: Final = _U(0xFFFFFFFFFFFFFFFF)
_WORD_DIGITS: Final = 19  # ten to the power of so many fits a word
_POWER_MAX: Final = 100
POWERS: Final = read_only(np.array([10**n for n in range(_WORD_DIGITS + 1)], np.uint64))
"""Powers of ten that fit a word."""

Size: TypeAlias = tuple[np.uint64, np.uint64, np.uint64, np.uint64]
"""A number without its sign."""


class DecimalOperation(IntEnum):
    """An operation on two decimals."""

    ADD = 0
    SUBTRACT = 1
    MULTIPLY = 2
    DIVIDE = 3
    WHOLE_DIVIDE = 4  # without its fraction
    REMAINDER = 5  # with the sign of the left one
    POSITIVE_REMAINDER = 6  # with the right one added if it is negative


class Rounding(IntEnum):
    """The rounding of digits that a decimal is to lose."""

    TOWARDS_ZERO = 0
    HALF_UP = 1  # away from zero
    HALF_EVEN = 2
    FLOOR = 3
    CEILING = 4


class DecimalFailure(IntEnum):
    """Why a row has no value."""

    NONE = 0
    OVERFLOW = 1
    ZERO = 2  # it divides by zero


def operate(
    operation: DecimalOperation,
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    powers: tuple[int, int, int],
    limit: int,
    valid: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Compute unscaled decimals: return (int64[n, 2], a `DecimalFailure` of each row uint8[n]).

    The operands are multiplied by the first two powers of ten, of which one is 0 at least; the
    result is divided by the third, rounded half up. Sizes from `limit`, at most 2^127, on do not
    fit; rows that are not valid become 0.
    """
    _check(left, right, valid, powers)
    result, failures = np.zeros((len(left), 2), np.uint64), np.zeros(len(left), np.uint8)
    _operate(
        int(operation),
        _words(left),
        _words(right),
        *powers,
        *_limit(limit),
        POWERS,
        read_only(valid),
        result,
        failures,
    )
    return result.view(np.int64), failures


def rescale(
    values: NDArray[np.int64],
    rounding: Rounding,
    powers: tuple[int, int],
    limit: int,
    valid: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Divide decimals int64[n, 2] by one power of ten, round, and multiply them by another.

    Return (values int64[n, 2], a `DecimalFailure` of each row uint8[n]). Sizes from `limit`, at
    most 2^127, on do not fit; rows that are not valid become 0.
    """
    _check(values, values, valid, powers)
    result, failures = np.zeros((len(values), 2), np.uint64), np.zeros(len(values), np.uint8)
    _rescale(
        _words(values),
        int(rounding),
        *powers,
        *_limit(limit),
        POWERS,
        read_only(valid),
        result,
        failures,
    )
    return result.view(np.int64), failures


def _check(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    valid: NDArray[np.bool_],
    powers: tuple[int, ...],
) -> None:
    is_sound = left.shape == right.shape == (len(valid), 2)
    if not is_sound or not all(0 <= power <= _POWER_MAX for power in powers):
        raise InvalidInputError("PROJSEG_INTERNAL", "decimals do not fit each other")


def _words(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    return read_only(np.ascontiguousarray(values).view(np.uint64))


def _limit(limit: int) -> tuple[np.uint64, np.uint64]:
    return _U(limit & int(_MOST)), _U(limit >> 64)


def _high_of_product(x: Any, y: Any) -> Any:
    return _U(int(x) * int(y) >> 64)


def _emit_high_of_product(typing_context: Any, x: Any, y: Any) -> Any:
    # Imported here, because this runs only where Numba compiles.
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        x, y = (builder.zext(one, wide) for one in arguments)
        high = builder.lshr(builder.mul(x, y), ir.Constant(wide, 64))
        return builder.trunc(high, ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


def _bits_above(x: Any) -> Any:
    return _U(64 - int(x).bit_length())


def _emit_bits_above(typing_context: Any, x: Any) -> Any:
    # Imported here, because this runs only where Numba compiles.
    from llvmlite import ir
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


_high_word: Final = Intrinsic(_high_of_product, _emit_high_of_product)
_zeros_above: Final = Intrinsic(_bits_above, _emit_bits_above)


@kernel
def _operate(
    operation: int,
    left: NDArray[np.uint64],
    right: NDArray[np.uint64],
    left_power: int,
    right_power: int,
    result_power: int,
    limit_low: np.uint64,
    limit_high: np.uint64,
    powers: NDArray[np.uint64],
    valid: NDArray[np.bool_],
    result: NDArray[np.uint64],
    failures: NDArray[np.uint8],
) -> None:
    """Compute row by row; what does not fit stays 0.

    A divisor's power of ten divides the quotient instead, which is as exact.

    Shapes: left, right, result [n, 2]; powers [20]; valid, failures [n].
    Oracle: tests/oracle/decimals.py::operate.
    """
    is_quotient = 3 <= operation <= 4
    rounding = 0 if operation == 4 else 1
    divided_by = right_power if is_quotient else result_power
    for row in range(len(left)):
        if not valid[row]:
            continue
        is_negative, a = sign_and_size(left[row, 0], left[row, 1])
        is_other_negative, b = sign_and_size(right[row, 0], right[row, 1])
        if operation >= 3 and _is_zero(b):
            failures[row] = 2
            continue
        fits, a = _times_power(a, left_power, powers)
        if operation == 2:
            is_negative = is_negative != is_other_negative
            a = _product(a, b)
        elif is_quotient:
            is_negative = is_negative != is_other_negative
            a = _quotient(a, b, operation == 3 and right_power == 0)
        else:
            _, b = _times_power(b, right_power, powers)
            is_other_negative = is_other_negative != (operation == 1)
            if operation >= 5:
                a = _rest(a, b)
            is_moved = is_negative and not is_other_negative and not _is_zero(a)
            if operation <= 1 or (operation == 6 and is_moved):
                is_negative, a = _signed_sum(is_negative, a, is_other_negative, b)
        a = _rounded(is_negative, a, rounding, divided_by, powers)
        if fits and _is_below(a, limit_low, limit_high):
            result[row, 0], result[row, 1] = with_sign(is_negative, a)
        else:
            failures[row] = 1


@kernel
def _rescale(
    values: NDArray[np.uint64],
    rounding: int,
    divided_by: int,
    multiplied_by: int,
    limit_low: np.uint64,
    limit_high: np.uint64,
    powers: NDArray[np.uint64],
    valid: NDArray[np.bool_],
    result: NDArray[np.uint64],
    failures: NDArray[np.uint8],
) -> None:
    """Divide by a power of ten, round, and multiply by another.

    Shapes: values, result [n, 2]; powers [20]; valid, failures [n].
    Oracle: tests/oracle/decimals.py::rescale.
    """
    for row in range(len(values)):
        if not valid[row]:
            continue
        is_negative, a = sign_and_size(values[row, 0], values[row, 1])
        a = _rounded(is_negative, a, rounding, divided_by, powers)
        fits, a = _times_power(a, multiplied_by, powers)
        if fits and _is_below(a, limit_low, limit_high):
            result[row, 0], result[row, 1] = with_sign(is_negative, a)
        else:
            failures[row] = 1


@kernel
def sign_and_size(low: np.uint64, high: np.uint64) -> tuple[bool, Size]:
    """Return whether a number of 128 bits is negative, and its size.

    Part of: `_rescale`.
    """
    if high >> _U(63) == 0:
        return False, (low, high, _U(0), _U(0))
    return True, (~low + _U(1), ~high + _U(low == 0), _U(0), _U(0))


@kernel
def with_sign(is_negative: bool, a: Size) -> tuple[np.uint64, np.uint64]:
    """Return a number of 128 bits of a sign and a size.

    Part of: `_rescale`.
    """
    if is_negative:
        return ~a[0] + _U(1), ~a[1] + _U(a[0] == 0)
    return a[0], a[1]


@kernel
def _is_zero(a: Size) -> bool:
    """Whether a size is 0.

    Part of: `_operate`.
    """
    return bool(a[0] | a[1] | a[2] | a[3] == 0)


@kernel
def _is_below(a: Size, low: np.uint64, high: np.uint64) -> bool:
    """Whether a size is less than a limit of 128 bits.

    Part of: `_rescale`.
    """
    return bool(a[2] | a[3] == 0 and (a[1] < high or (a[1] == high and a[0] < low)))


@kernel
def _rounded(
    is_negative: bool, a: Size, rounding: int, power: int, powers: NDArray[np.uint64]
) -> Any:
    """Divide by a power of ten: what rounds up is added before, so that a division rounds down.

    Shapes: powers [20].
    Part of: `_rescale`.
    """
    is_half = 1 <= rounding <= 2
    if power > 0 and (is_half or rounding == (3 if is_negative else 4)):
        one = (_U(5 if is_half else 1), _U(0), _U(0), _U(0))
        fits, added = _times_power(one, power - 1 if is_half else power, powers)
        if not is_half:
            added = _difference(added, one)
        if not fits:  # ten to a power above any number
            return _U(not is_half and not _is_zero(a)), _U(0), _U(0), _U(0)
        a = _sum(a, added)
    is_tie = rounding == 2 and power > 0
    while power > 0:
        step = min(power, 19)
        a, rest = divided_by_word(a, powers[step])
        is_tie = is_tie and rest == 0
        power -= step
    if is_tie:
        return a[0] & ~_U(1), a[1], a[2], a[3]
    return a


@kernel
def _times_power(a: Size, power: int, powers: NDArray[np.uint64]) -> tuple[bool, Size]:
    """Multiply by a power of ten, and say whether 256 bits hold the product.

    Shapes: powers [20].
    Part of: `_rescale`.
    """
    fits = True
    while power > 0:
        step = min(power, 19)
        fits_so_far, a = times_word(a, powers[step])
        fits = fits and fits_so_far
        power -= step
    return fits, a


@kernel
def times_word(a: Size, factor: np.uint64) -> tuple[bool, Size]:
    """Multiply by a word, and say whether 256 bits hold the product.

    Part of: `_times_power`.
    """
    carry = _high_word(a[0], factor)
    if a[1] | a[2] | a[3] == 0:
        return True, (a[0] * factor, carry, _U(0), _U(0))
    b1 = a[1] * factor + carry
    carry = _high_word(a[1], factor) + _U(b1 < carry)
    b2 = a[2] * factor + carry
    carry = _high_word(a[2], factor) + _U(b2 < carry)
    b3 = a[3] * factor + carry
    is_inside = _high_word(a[3], factor) + _U(b3 < carry) == 0
    return is_inside, (a[0] * factor, b1, b2, b3)


@kernel
def _product(a: Size, b: Size) -> Any:
    """Multiply numbers of 128 bits.

    Part of: `_operate`.
    """
    _, low = times_word(a, b[0])
    if b[1] == 0:
        return low
    _, high = times_word(a, b[1])
    return _sum(low, (_U(0), high[0], high[1], high[2]))


@kernel
def _sum(a: Size, b: Size) -> Size:
    """Add numbers whose sum fits 256 bits.

    Part of: `_rounded`.
    """
    c0 = a[0] + b[0]
    carry = _U(c0 < a[0])
    c1 = a[1] + carry
    carry = _U(c1 < carry)
    c1 += b[1]
    carry += _U(c1 < b[1])
    c2 = a[2] + carry
    carry = _U(c2 < carry)
    c2 += b[2]
    carry += _U(c2 < b[2])
    return c0, c1, c2, a[3] + b[3] + carry


@kernel
def _difference(a: Size, b: Size) -> Size:
    """Subtract a number that is not greater.

    Part of: `_rounded`.
    """
    borrow = _U(a[0] < b[0])
    c1 = a[1] - borrow
    borrow = _U(a[1] < borrow) + _U(c1 < b[1])
    c2 = a[2] - borrow
    last = _U(a[2] < borrow) + _U(c2 < b[2])
    return a[0] - b[0], c1 - b[1], c2 - b[2], a[3] - b[3] - last


@kernel
def _signed_sum(is_negative: bool, a: Size, is_other_negative: bool, b: Size) -> tuple[bool, Size]:
    """Add numbers with signs: the sum's sign and its size.

    Part of: `_operate`.
    """
    if is_negative == is_other_negative:
        return is_negative, _sum(a, b)
    if _is_less(a, b):
        return is_other_negative, _difference(b, a)
    return is_negative, _difference(a, b)


@kernel
def _is_less(a: Size, b: Size) -> bool:
    """Whether the first number is less.

    Part of: `_signed_sum`.
    """
    for place in range(3, 0, -1):
        if a[place] != b[place]:
            return bool(a[place] < b[place])
    return bool(a[0] < b[0])


@kernel
def _quotient(a: Size, b: Size, is_half_up: bool) -> Any:
    """Divide by a number of 128 bits, rounded half up or towards zero.

    Part of: `_operate`.
    """
    a, rest = _divided(a, b)
    # What is missing to the divisor is no more than what is left; twice that might overflow.
    if is_half_up and not _is_less(rest, _difference(b, rest)):
        return _sum(a, (_U(1), _U(0), _U(0), _U(0)))
    return a


@kernel
def _rest(a: Size, b: Size) -> Any:
    """Return the remainder of a division; only one of both numbers passes 128 bits.

    Part of: `_operate`.
    """
    if b[2] | b[3] != 0:
        return a
    _, rest = _divided(a, b)
    return rest


@kernel
def _divided(a: Size, b: Size) -> tuple[Size, Size]:
    """Divide by a number of 128 bits that is not 0: the quotient and the rest.

    After: Knuth, "The Art of Computer Programming" 4.3.1, algorithm D.

    Part of: `_quotient`.
    """
    if b[1] == 0:
        a, word = divided_by_word(a, b[0])
        return a, (word, _U(0), _U(0), _U(0))
    a0, a1, a2, a3 = a
    b0, b1 = b[0], b[1]
    left = _zeros_above(b1)
    top = _U(0)
    if left != 0:  # shifted so that the divisor's highest bit is set
        right = _U(64) - left
        b1 = b1 << left | b0 >> right
        b0 = b0 << left
        top = a3 >> right
        a3 = a3 << left | a2 >> right
        a2 = a2 << left | a1 >> right
        a1 = a1 << left | a0 >> right
        a0 = a0 << left
    q2, q1 = _U(0), _U(0)
    if top | a3 != 0:
        q2, a2, a3 = _digit(top, a3, a2, b0, b1)
    if a3 | a2 != 0:
        q1, a1, a2 = _digit(a3, a2, a1, b0, b1)
    q0, a0, a1 = _digit(a2, a1, a0, b0, b1)
    if left != 0:
        a0 = a0 >> left | a1 << (_U(64) - left)
        a1 = a1 >> left
    return (q0, q1, q2, _U(0)), (a0, a1, _U(0), _U(0))


@kernel
def _digit(
    n2: np.uint64, n1: np.uint64, n0: np.uint64, b0: np.uint64, b1: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Divide three words by two whose highest bit is set: a word of quotient, two of the rest.

    Part of: `_divided`.
    """
    is_wide: Any = False  # whether the rest of the first words passes a word
    if n2 >= b1:
        quotient, rest = _MOST, n1 + b1
        is_wide = rest < b1
    else:
        quotient, rest = _word_of_quotient(n2, n1, b1)
    while not is_wide:
        high, low = _high_word(quotient, b0), quotient * b0
        if high < rest or (high == rest and low <= n0):
            break
        quotient -= _U(1)
        rest += b1
        is_wide = rest < b1
    high, low = _high_word(quotient, b0), quotient * b0
    return quotient, n0 - low, rest - high - _U(n0 < low)


@kernel
def divided_by_word(a: Size, divisor: np.uint64) -> tuple[Size, np.uint64]:
    """Divide by a word: the quotient and the rest.

    Part of: `_rounded`.
    """
    a0, a1, a2, a3 = a
    rest = _U(0)
    if a3 != 0:
        a3, rest = _word_of_quotient(rest, a3, divisor)
    if a2 | rest != 0:
        a2, rest = _word_of_quotient(rest, a2, divisor)
    if a1 | rest != 0:
        a1, rest = _word_of_quotient(rest, a1, divisor)
    a0, rest = _word_of_quotient(rest, a0, divisor)
    return (a0, a1, a2, a3), rest


@kernel
def _word_of_quotient(
    high: np.uint64, low: np.uint64, divisor: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Divide two words by one that is above the upper one: the quotient and the rest.

    After: Warren, "Hacker's Delight", 9-4.

    Part of: `divided_by_word`.
    """
    if high == 0:
        return low // divisor, low % divisor
    left = _zeros_above(divisor)
    divisor = divisor << left
    if left != 0:
        high = high << left | low >> (_U(64) - left)
        low = low << left
    upper, lower = divisor >> _U(32), divisor & _LOW_HALF
    first, rest = high // upper, high % upper
    while first > _LOW_HALF or first * lower > (rest << _U(32) | low >> _U(32)):
        first -= _U(1)
        rest += upper
        if rest > _LOW_HALF:
            break
    high = (high << _U(32) | low >> _U(32)) - first * divisor
    second, rest = high // upper, high % upper
    while second > _LOW_HALF or second * lower > (rest << _U(32) | low & _LOW_HALF):
        second -= _U(1)
        rest += upper
        if rest > _LOW_HALF:
            break
    rest = ((high << _U(32) | low & _LOW_HALF) - second * divisor) >> left
    return (first << _U(32)) + second, rest

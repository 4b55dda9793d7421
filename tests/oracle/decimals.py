"""Slow, obvious twins of the arithmetic of decimals, of their rounding and of their texts."""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

import numpy as np

from projseg.kernels.decimals.decimal_texts import DecimalReading
from projseg.kernels.decimals.wide_arithmetic import DecimalOperation, Rounding

EXACT = Context(prec=900)
BLANKS = "".join(map(chr, range(33))) + "\x7f"
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def rounded(exact, rounding):
    """Return a fraction as a whole number."""
    whole = exact.numerator // exact.denominator
    rest = exact - whole
    if rounding == Rounding.FLOOR or rest == 0:
        return whole
    if rounding == Rounding.CEILING:
        return whole + 1
    if rounding == Rounding.TOWARDS_ZERO:
        return whole + (exact < 0)
    half = Fraction(1, 2)
    if rest == half:
        return whole + (whole % 2 if rounding == Rounding.HALF_EVEN else exact > 0)
    return whole + (rest > half)


def rescale(value, rounding, powers, limit):
    """Return a value of `rescale`, None if it does not fit."""
    divided, multiplied = powers
    found = rounded(Fraction(value, 10**divided), rounding) * 10**multiplied
    return found if abs(found) < limit else None


def operate(operation, left, right, powers, limit):
    """Return a result of `operate`, None if it does not fit or divides by zero."""
    left_power, right_power, result_power = powers
    left, right = Fraction(left) * 10**left_power, Fraction(right) * 10**right_power
    if operation >= DecimalOperation.DIVIDE and right == 0:
        return None
    if operation in (DecimalOperation.DIVIDE, DecimalOperation.WHOLE_DIVIDE):
        up = Rounding.HALF_UP if operation == DecimalOperation.DIVIDE else Rounding.TOWARDS_ZERO
        found = rounded(left / right, up)
    else:
        found = rounded(_value(operation, left, right) / 10**result_power, Rounding.HALF_UP)
    return found if abs(found) < limit else None


def _value(operation, left, right):
    if operation == DecimalOperation.ADD:
        return left + right
    if operation == DecimalOperation.SUBTRACT:
        return left - right
    if operation == DecimalOperation.MULTIPLY:
        return left * right
    rest = _remainder(left, right)
    if operation == DecimalOperation.REMAINDER or rest >= 0:
        return rest
    return _remainder(rest + right, right)


def _remainder(left, right):
    size = abs(left) % abs(right)
    return -size if left < 0 else size


def read(text, precision, scale, rounding=Rounding.HALF_UP):
    """Return (value, `DecimalReading`) of a text."""
    text = text.strip(BLANKS)
    if not NUMBER.fullmatch(text):
        return 0, DecimalReading.NO_NUMBER
    mantissa, _, exponent = text.lower().partition("e")
    after = len(mantissa.partition(".")[2]) - int(exponent or 0)
    if not -(2**31) <= after < 2**31:
        return 0, DecimalReading.NO_NUMBER
    number = Decimal(mantissa)
    if not number:
        return 0, DecimalReading.NUMBER
    places = number.adjusted() + int(exponent or 0) + scale
    if places > precision:
        return 0, DecimalReading.OVERFLOW
    if places < -1:
        return 0, DecimalReading.NUMBER
    way = ROUND_HALF_EVEN if rounding == Rounding.HALF_EVEN else ROUND_HALF_UP
    moved = number.scaleb(int(exponent or 0) + scale, EXACT)
    found = int(moved.quantize(Decimal(1), way, EXACT))
    return (
        (0, DecimalReading.OVERFLOW)
        if abs(found) >= 10**precision
        else (found, DecimalReading.NUMBER)
    )


def text(value, scale):
    """Return the text of an unscaled decimal."""
    return format(Decimal(value).scaleb(-scale, EXACT), "f")


def rounded_double(value, digits, rounding, shortest=repr):
    """Return a double rounded by its shortest digits, as Java's BigDecimal does."""
    if not math.isfinite(value):
        return value
    way = ROUND_HALF_EVEN if rounding == Rounding.HALF_EVEN else ROUND_HALF_UP
    unit = Decimal(1).scaleb(-max(min(digits, 400), -400))
    return float(Decimal(shortest(value)).quantize(unit, way, EXACT)) + 0.0


def double_to_decimal(value, precision, scale):
    """Return a double as an unscaled decimal by its shortest digits; None if it does not fit."""
    found = int(
        Decimal(repr(value)).scaleb(scale, EXACT).quantize(Decimal(1), ROUND_HALF_UP, EXACT)
    )
    return found if abs(found) < 10**precision else None


def java_double(value):
    """Return Java's `Double.toString`: the shortest digits that read back, with E from 1e7 on."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if np.signbit(value) else "0.0"
    if 1e-3 <= abs(value) < 1e7:
        return str(np.format_float_positional(value, unique=True, trim="0"))
    text = np.format_float_scientific(value, unique=True, trim="0", exp_digits=1)
    mantissa, exponent = text.split("e")
    if len(mantissa.lstrip("-")) == 3 and mantissa.endswith(".0"):
        nearest = f"{float(value):.1e}"
        if type(value)(nearest) == value:  # the nearest of the two digits that read back
            mantissa, exponent = nearest.split("e")
    return f"{mantissa}E{int(exponent)}"

"""What the steps of a block program compute: numbers in registers, and what is known of them."""

from __future__ import annotations

from typing import Final

import msgspec
import pyarrow as pa

from projseg.algebra.expressions.coercion import is_datetime, is_decimal, is_integral

LONG_LEAST: Final = -(1 << 63)
LONG_GREATEST: Final = (1 << 63) - 1
_WIDE_EDGE: Final = 1 << 127


class NotInBlocksError(Exception):
    """An expression, or its columns' values, ask for more than block programs do."""


class Value(msgspec.Struct, frozen=True):
    """The value of an expression in each row.

    Parameters
    ----------
    register : int
        64-bit numbers in the form that `vectors.Numbers` describes; doubles as their bits. What a
        null row holds means nothing.
    low, high : int
        Bounds of the values that are not null; they mean nothing for doubles.
    validity : int or None
        The register that holds 1 where there is a value and 0 where it is null; None: no null.
    upper : int or None
        Of numbers whose bounds pass 64 bits, the register of the upper 64 of 128 bits; `register`
        has the lower ones. None of other numbers.
    zeros : int
        All values that are not null end with so many decimal zeros at least.
    """

    register: int
    low: int = 0
    high: int = 0
    validity: int | None = None
    upper: int | None = None
    zeros: int = 0


def is_exact(arrow_type: pa.DataType) -> bool:
    """Whether values are integers in some form: of numbers, decimals, times or truth."""
    is_number = is_integral(arrow_type) or is_decimal(arrow_type)
    return is_number or is_datetime(arrow_type) or bool(pa.types.is_boolean(arrow_type))


def is_long(low: int, high: int) -> bool:
    """Whether 64 bits hold all numbers from `low` to `high`."""
    return low >= LONG_LEAST and high <= LONG_GREATEST


def require_long(low: int, high: int) -> None:
    """Refuse bounds that pass 64 bits.

    Raises
    ------
    NotInBlocksError
        If they do.
    """
    if not is_long(low, high):
        raise NotInBlocksError("values may pass 64 bits")


def require_narrow(value: Value) -> None:
    """Refuse numbers of 128 bits, for steps that read 64.

    Raises
    ------
    NotInBlocksError
        If it is one.
    """
    if value.upper is not None:
        raise NotInBlocksError("a step over values that may pass 64 bits")


def is_wide(low: int, high: int) -> bool:
    """Whether 128 bits hold all numbers from `low` to `high`."""
    return low >= -_WIDE_EDGE and high < _WIDE_EDGE


def require_wide(low: int, high: int) -> None:
    """Refuse bounds that pass 128 bits.

    Raises
    ------
    NotInBlocksError
        If they do.
    """
    if not is_wide(low, high):
        raise NotInBlocksError("values may pass 128 bits")

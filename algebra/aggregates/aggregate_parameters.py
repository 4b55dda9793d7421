"""The constants behind an aggregate's arguments: sizes of sketches, percentages, accuracies."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import pyarrow as pa
from sqlglot import exp

from projseg.algebra.aggregates.aggregate_functions import AggregateFunction, Size
from projseg.algebra.expressions.bind import bind_tree
from projseg.algebra.expressions.expression_limits import misplaced
from projseg.algebra.expressions.tree import Literal
from projseg.errors import InvalidInputError

_NO_COLUMNS: Final = pa.schema([])
_ERROR_MIN: Final = 0.0173  # for which Spark takes 2^12 registers, as the sketch has
_ERROR_MAX: Final = 0.39  # Spark's


def split_parameters(
    function: str, known: AggregateFunction, given: list[exp.Expression]
) -> tuple[list[exp.Expression], tuple[object, ...]]:
    """Return the arguments of a call, and the constants behind them.

    These are (size,) of a sketch; (percentage or tuple of percentages,) of a percentile, and then
    an accuracy; (relative standard error,) of a number of distinct values; (separator,) of texts.
    """
    if function == "median":
        return given, ()
    if known.takes_error or known.takes_shares or known.size is not None or function == "mode":
        _refuse_parameters(function, given[1:])
    if function == "mode" and len(given) > 1:
        _check_deterministic(given[1:])
        return given[:1], ()
    if known.takes_separator:
        return given[:1], (_separator(function, given[1:]),)
    if known.takes_error and len(given) > 1:
        return given[:1], (_error(function, given[1:]),)
    shares: tuple[object, ...] = ()
    rest = given[1:]
    if known.takes_shares:
        shares, rest = (_shares(function, rest[:1]),), rest[1:]
    if known.size is not None:
        return given[:1], (*shares, _whole(function, known.size, rest))
    return ([*given[:1], *rest], shares) if shares else (given, ())


def _refuse_parameters(function: str, constants: list[exp.Expression]) -> None:
    for tree in constants:
        if (parameter := tree.find(exp.Placeholder)) is not None:
            raise misplaced(f":{parameter.this}", f"stands for a constant of {function}")


def parameter_text(parameter: object) -> str:
    """Return a parameter as SQL that `split_parameters` reads."""
    if isinstance(parameter, tuple):
        return f"array({', '.join(map(str, parameter))})"
    return str(parameter)


def _separator(function: str, given: list[exp.Expression]) -> str:
    bound = [None if tree.find(exp.Column) else bind_tree(tree, _NO_COLUMNS) for tree in given]
    values = [one.value for one in bound if isinstance(one, Literal)]
    if len(given) > 1 or len(values) < len(given):
        raise InvalidInputError(
            "PROJSEG_BAD_AGGREGATE",
            f"{function} takes a value and a constant text; found "
            + ", ".join(tree.sql(dialect="spark") for tree in given),
        )
    return "" if not values or values[0] is None else str(values[0])


def _whole(function: str, size: Size, given: list[exp.Expression]) -> int:
    if not given:
        return size.default
    text = given[0].sql().lstrip("0")
    is_whole = text.isascii() and text.isdecimal() and len(text) <= len(str(size.high))
    if len(given) > 1 or not is_whole or not size.low <= int(text) <= size.high:
        raise InvalidInputError(
            "PROJSEG_BAD_AGGREGATE",
            f"{function} takes a column and {size.name}, a whole number from {size.low} to "
            f"{size.high}; found {', '.join(tree.sql() for tree in given)}",
        )
    return int(text)


def _shares(function: str, given: list[exp.Expression]) -> float | tuple[float, ...]:
    tree = given[0] if given else None
    is_array = isinstance(tree, exp.Anonymous) and str(tree.name).casefold() == "array"
    parts = tree.expressions if tree is not None and is_array else given
    shares = tuple(share for share in map(_share, parts) if share is not None)
    if not parts or len(shares) != len(parts):
        found = "none" if tree is None else tree.sql(dialect="spark")
        if tree is not None and tree.find(exp.Column) is not None:
            found += ", which is no constant; write one number behind the column, such as 0.5"
        raise InvalidInputError(
            "PROJSEG_BAD_AGGREGATE",
            f"{function} takes a percentage from 0 to 1, or an array of them; found {found}",
        )
    return shares if is_array else shares[0]


def _share(tree: exp.Expression) -> float | None:
    """Return a constant from 0 to 1; None if it is none."""
    value = _constant(tree)
    return value if value is not None and 0 <= value <= 1 else None


def _check_deterministic(given: list[exp.Expression]) -> None:
    """Check Spark's `deterministic` of mode; the least of several values is returned either way."""
    if len(given) > 1 or not isinstance(given[0], exp.Boolean):
        raise InvalidInputError(
            "PROJSEG_BAD_AGGREGATE",
            "mode takes a column, and then true or false; found "
            + ", ".join(tree.sql(dialect="spark") for tree in given),
        )


def _error(function: str, given: list[exp.Expression]) -> float:
    value = _constant(given[0])
    if len(given) > 1 or value is None or not _ERROR_MIN <= value <= _ERROR_MAX:
        raise InvalidInputError(
            "PROJSEG_BAD_AGGREGATE",
            f"{function} takes a column and a relative standard error from {_ERROR_MIN} to "
            f"{_ERROR_MAX}; found {', '.join(tree.sql() for tree in given)}",
        )
    return value


def _constant(tree: exp.Expression) -> float | None:
    if tree.find(exp.Column) is not None:
        return None
    bound = bind_tree(tree, _NO_COLUMNS)
    value = bound.value if isinstance(bound, Literal) else None
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]

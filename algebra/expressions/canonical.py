"""The canonical form: expressions that mean the same, in the ways known here, become one tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from projseg.algebra.expressions.canonical_comparison import (
    canonical_comparison,
    canonical_in,
    merged_alternatives,
    merged_exclusions,
)
from projseg.algebra.expressions.coercion import is_integral, is_lossless, is_numeric
from projseg.algebra.expressions.evaluate import evaluate, may_fail
from projseg.algebra.expressions.functions.comparison import OPPOSITE
from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.functions.scalar_function import Nulls
from projseg.algebra.expressions.functions.time.time_floor import granularity_of
from projseg.algebra.expressions.joined_values import JOIN_FUNCTIONS
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_parameters import Argument
from projseg.algebra.expressions.tree import (
    FALSE,
    TRUE,
    UNKNOWN,
    Call,
    Column,
    Expression,
    Literal,
    scalar_literal,
)
from projseg.algebra.time.bucket_order import always_refines
from projseg.algebra.time.duration import DAY, WEEK
from projseg.algebra.time.time_zones import is_fixed, zone_table
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import EvaluationError
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ, is_nested


def _canonical_floor(call: Call) -> Expression:
    """Return a floor merged with a floor below it, and moved inside casts where that is equal."""
    inner, granularity = call.arguments[0], granularity_of(call)
    if granularity.is_none or (call.type == pa.date32() and _keeps_days(granularity)):
        return inner
    if not isinstance(inner, Call):
        return call
    if inner.function == "time_floor":
        return _floor_of_floor(call, inner, granularity)
    if inner.function == "cast":
        return _floor_of_cast(call, inner, granularity)
    return call


def _canonical_cast(call: Call) -> Expression:
    """Return a date as the date of a day's floor, and two lossless casts in a row as one."""
    inner = call.arguments[0]
    if isinstance(inner, Literal):  # a day outside years 1 to 9999, left to raise on its rows
        return call
    if call.type == pa.date32() and inner.type in (TIMESTAMP, TIMESTAMP_NTZ):
        zone = str(call.parameters[0]) if call.parameters else "UTC"
        if (plain := _date_below_cast(inner, zone)) is not None:
            return plain
        day = Granularity(micros=DAY, timezone=zone, by_clock=True)
        if isinstance(inner, Call) and inner.function == "time_floor":
            floored = granularity_of(inner)
            if floored == day or always_refines(day, floored):
                return call
        floor = Call(inner.type, "time_floor", (inner,), (day,))
        return Call(call.type, "cast", (floor,), call.parameters)
    if isinstance(inner, Call) and inner.function == "cast":
        source = inner.arguments[0]
        if is_lossless(source.type, inner.type) and is_lossless(inner.type, call.type):
            return Call(call.type, "cast", (source,), call.parameters)
    return call


def _date_below_cast(inner: Expression, zone: str) -> Expression | None:
    """Return the date of a time that was cast from a date or timestamp_ntz; None for others."""
    if not isinstance(inner, Call) or inner.function != "cast":
        return None
    source = inner.arguments[0]
    if inner.type == TIMESTAMP and inner.parameters != (zone,):
        return None
    if source.type == pa.date32():
        return source if zone_table(zone).has_plain_midnights else None
    if source.type == TIMESTAMP_NTZ and len(zone_table(zone).starts) == 1:
        return Call(pa.date32(), "cast", (source,))
    return None


def _keeps_days(granularity: Granularity) -> bool:
    return granularity.micros > 0 and DAY % granularity.micros == 0 and granularity.origin == 0


def _floor_of_floor(call: Call, inner: Call, granularity: Granularity) -> Expression:
    if always_refines(granularity_of(inner), granularity):
        return Call(call.type, "time_floor", inner.arguments, call.parameters)
    if always_refines(granularity, granularity_of(inner)):
        return inner
    return call


def _floor_of_cast(call: Call, inner: Call, granularity: Granularity) -> Expression:
    """Move a floor inside a cast between date, timestamp and timestamp_ntz, where that is equal."""
    source = inner.arguments[0]
    zone = str(inner.parameters[0]) if inner.parameters else "UTC"
    if call.type == pa.date32() and source.type in (TIMESTAMP, TIMESTAMP_NTZ):
        if not _is_calendar_unit(granularity):
            return call
        clock = zone if source.type == TIMESTAMP else "UTC"
        moved = replace(granularity, timezone=clock, by_clock=True)
    elif source.type == pa.date32() and _same_clock(call, granularity, zone):
        if not _keeps_midnights(granularity):
            return call
        moved = replace(granularity, timezone="UTC")
    elif source.type == TIMESTAMP_NTZ and len(zone_table(zone).starts) == 1:
        if not _same_clock(call, granularity, zone):
            return call
        moved = replace(granularity, timezone="UTC")
    else:
        return call
    floor = Call(source.type, "time_floor", (source,), (moved,))
    return Call(call.type, "cast", (floor,), inner.parameters)


def _is_calendar_unit(granularity: Granularity) -> bool:
    """Whether it is of days, weeks or months with their usual starts, which no clock skips."""
    is_unit = bool(granularity.months) or granularity.micros in (DAY, WEEK)
    return is_unit and granularity.has_default_origin


def _keeps_midnights(granularity: Granularity) -> bool:
    """Whether the floor of the first instant of a day is always the first instant of a day."""
    is_of_days = bool(granularity.months) or granularity.micros % DAY == 0
    if is_fixed(granularity.timezone):
        return is_of_days or _keeps_days(granularity)
    return is_of_days and zone_table(granularity.timezone).has_plain_midnights


def _same_clock(call: Call, granularity: Granularity, zone: str) -> bool:
    return call.type == TIMESTAMP_NTZ or granularity.timezone == zone


def canonical(expression: Expression) -> Expression:
    """Return the canonical form of a typed tree; it is its own canonical form."""
    return _canonical(expression, known=())


def _canonical(expression: Expression, known: Sequence[Expression]) -> Expression:
    """Return the canonical form; the arguments that are `known` have it."""
    if not isinstance(expression, Call):
        return expression
    kept = set(map(id, known))
    arguments = tuple(a if id(a) in kept else canonical(a) for a in expression.arguments)
    return _node(Call(expression.type, expression.function, arguments, expression.parameters))


def _node(call: Call) -> Expression:
    """Return the canonical form of a node whose arguments are canonical."""
    folded = _folded(call)
    if not isinstance(folded, Call):
        return folded
    rewrite = _REWRITES.get(folded.function)
    rewritten = rewrite(folded) if rewrite else folded
    if rewritten == folded or not isinstance(rewritten, Call):
        return rewritten
    return _canonical(rewritten, known=folded.arguments)


def _folded(call: Call) -> Expression:
    """Return the value of a call of constants; a call that fails is left to raise on its rows."""
    literals = [a for a in call.arguments if isinstance(a, Literal)]
    folds_null = FUNCTIONS[call.function].canonical_folds_null
    if folds_null and any(a.value is None for a in literals):
        return Literal(call.type, None)
    is_constant = len(literals) == len(call.arguments) and call.function not in JOIN_FUNCTIONS
    if not is_constant or is_nested(call.type):
        return call
    try:
        value = scalar_literal(evaluate(call, {}, 1)[0])
    except EvaluationError:
        return call
    given = call.arguments[0] if call.function == "cast" else None
    if (
        isinstance(given, Argument)
        and is_integral(given.type)
        and is_lossless(given.type, call.type)
    ):
        return Argument(value.type, value.value, given.parameter)  # so that plans keep its slot
    return value


def _flattened(call: Call) -> list[Expression]:
    found: list[Expression] = []
    for argument in call.arguments:
        is_same = isinstance(argument, Call) and argument.function == call.function
        found += argument.children if is_same else (argument,)
    return found


def _logical(call: Call) -> Expression:
    """Flatten, merge and order AND or OR; operands that may fail come last, in written order."""
    is_and = call.function == "and"
    neutral, deciding = (TRUE, FALSE) if is_and else (FALSE, TRUE)
    operands = [_condition(o) for o in dict.fromkeys(_flattened(call)) if o != neutral]
    if deciding in operands:
        return deciding
    operands = merged_exclusions(operands) if is_and else merged_alternatives(operands)
    if not operands:
        return neutral
    if len(operands) == 1:
        return operands[0]
    safe = sorted((o for o in operands if not may_fail(o)), key=_order)
    ordered = (*safe, *(o for o in operands if may_fail(o)))
    return Call(pa.bool_(), call.function, tuple(dict.fromkeys(ordered)))


def _condition(operand: Expression) -> Expression:
    if isinstance(operand, Column):
        return Call(pa.bool_(), "=", (operand, TRUE))
    return operand


def _order(expression: Expression) -> tuple[bool, str]:
    return isinstance(expression, Literal), to_sql(expression)


def _negated(call: Call) -> Expression:
    inner = call.arguments[0]
    if isinstance(inner, Column):
        return Call(pa.bool_(), "=", (inner, FALSE))
    if not isinstance(inner, Call):
        return call
    if inner.function in OPPOSITE:
        return Call(pa.bool_(), OPPOSITE[inner.function], inner.arguments)
    if inner.function == "not":
        return inner.arguments[0]
    if inner.function in ("and", "or"):
        other = "or" if inner.function == "and" else "and"
        parts = tuple(Call(pa.bool_(), "not", (argument,)) for argument in inner.arguments)
        return Call(pa.bool_(), other, parts)
    return call


def _commutative(call: Call) -> Expression:
    if not is_numeric(call.type):
        return call
    return Call(call.type, call.function, tuple(sorted(call.arguments, key=_order)))


def _case(call: Call) -> Expression:
    *pairs, default = call.arguments
    kept: list[Expression] = []
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        if condition in (FALSE, UNKNOWN):
            continue
        if condition == TRUE:
            default = value
            break
        kept += [_condition(condition), value]
    while kept and kept[-1] == default and not may_fail(kept[-2]):
        del kept[-2:]
    return Call(call.type, "case", (*kept, default)) if kept else default


def _coalesce(call: Call) -> Expression:
    kept: list[Expression] = []
    for argument in dict.fromkeys(_flattened(call)):
        if isinstance(argument, Literal) and argument.value is None:
            continue
        kept.append(argument)
        if isinstance(argument, Literal):
            break
    if not kept:
        return Literal(call.type, None)
    return kept[0] if len(kept) == 1 else Call(call.type, "coalesce", tuple(kept))


def _null_test(call: Call) -> Expression:
    inner = call.arguments[0]
    never_null = isinstance(inner, Call) and FUNCTIONS[inner.function].nulls == Nulls.NEVER
    return FALSE if never_null and not may_fail(inner) else call


def _concatenation(call: Call) -> Expression:
    return Call(call.type, call.function, tuple(_flattened(call)))


def _ordered_comparison(call: Call) -> Expression:
    return canonical_comparison(call, _order)


def _each(
    functions: Iterable[str], rule: Callable[[Call], Expression]
) -> dict[str, Callable[[Call], Expression]]:
    return dict.fromkeys(functions, rule)


_REWRITES: Final[dict[str, Callable[[Call], Expression]]] = {
    **_each(("and", "or"), _logical),
    **_each(("=", "!=", "<", "<=", ">", ">=", "<=>"), _ordered_comparison),
    **_each(("+", "*"), _commutative),
    "not": _negated,
    "in": canonical_in,
    "case": _case,
    "coalesce": _coalesce,
    "is_null": _null_test,
    "concat": _concatenation,
    "cast": _canonical_cast,
    "time_floor": _canonical_floor,
}


def conjuncts(expression: Expression | None) -> tuple[Expression, ...]:
    """Return the conditions whose AND is the expression; None and TRUE have no conditions.

    A boolean column that stands alone becomes `column = TRUE`, which keeps the same rows.
    """
    if expression is None or expression == TRUE:
        return ()
    if isinstance(expression, Call) and expression.function == "and":
        return tuple(_condition(argument) for argument in expression.arguments)
    return (_condition(expression),)


def conjunction(parts: Iterable[Expression]) -> Expression | None:
    """Return the AND of conditions in canonical form; None without conditions."""
    conditions = tuple(parts)
    if not conditions:
        return None
    return canonical(Call(pa.bool_(), "and", conditions)) if len(conditions) > 1 else conditions[0]


def not_null(expression: Expression) -> Expression:
    """Return the condition that an expression is not null."""
    return Call(pa.bool_(), "not", (Call(pa.bool_(), "is_null", (expression,)),))

"""Rewrite an expression over base columns into one over a projection's grouping columns.

A column is also found in a function of it: from `x + 1` it is that less 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pyarrow as pa

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.coercion import cast_to, dates_of, is_integral, is_lossless
from projseg.algebra.expressions.functions.function_table import parts_zeros
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import FALSE, Call, Column, Expression, Literal, order_key
from projseg.algebra.planning.match_facts import SegmentConstant, SegmentView
from projseg.algebra.planning.why_not import ReasonCode
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.proofs.predicate_truth import time_literal
from projseg.algebra.time.bucket_order import is_divided
from projseg.algebra.time.time_zones import MAX_MICROS
from projseg.algebra.time.zoned_buckets import Granularity

_WHOLE: Final = Column(pa.string(), "whole")

_Inverted = tuple[Expression, Expression]
"""A part of a function, and its value as a function of the whole's."""


class NotStored(Exception):
    """An expression cannot be computed from the grouping columns.

    The code is MISSING_GROUPING_COLUMN, GRANULARITY_TOO_COARSE or TIME_ZONE; the base column is the
    one that would be needed.
    """

    def __init__(self, code: ReasonCode, column: str) -> None:
        super().__init__(code, column)
        self.code = code
        self.column = column


class GroupingRewriter:
    """Rewrites for one projection of one segment."""

    def __init__(self, spec: ProjectionSpec, view: SegmentView) -> None:
        self._spec = spec
        self._floors = spec.stored_floors
        self._view = view

    def rewrite(self, expression: Expression) -> Expression:
        """Return an equal expression over `Column` nodes named by the grouping columns.

        Raises NotStored if the grouping columns do not determine the value.
        """
        stored = self._spec.column_by_expression.get(expression)
        if stored is not None:
            return stored
        if expression in self._view.single:
            return SegmentConstant(expression.type, expression)
        if isinstance(expression, Column):
            return self._column(expression)
        if not isinstance(expression, Call):
            return expression
        found = self._from_floor(expression) or self._from_finer(expression)
        if found is not None:
            return found
        found = replace(expression, arguments=tuple(map(self.rewrite, expression.arguments)))
        if parts_zeros(found) and not self._spec.holds_rows:
            raise NotStored(ReasonCode.MISSING_GROUPING_COLUMN, to_sql(expression))
        return found

    def _column(self, column: Column) -> Expression:
        constant = self._view.constant_by_column.get(column.name)
        if constant is not None:
            return constant
        for whole, stored in self._spec.column_by_expression.items():
            found = _argument_from(whole, column, stored)
            if found is not None:
                return found
        raise NotStored(self._missing_code(column), column.name)

    def _missing_code(self, column: Column) -> ReasonCode:
        is_floored = any(floor.moment == column for floor in self._floors)
        is_time = column.name == self._spec.time_column
        if is_floored or (is_time and self._spec.time_grouping is None):
            return ReasonCode.GRANULARITY_TOO_COARSE
        return ReasonCode.MISSING_GROUPING_COLUMN

    def _from_floor(self, call: Call) -> Expression | None:
        """Return a floor or comparison of time computed from a stored finer floor, if there is one.

        None if the call is neither, or does not need a stored floor.
        """
        for floor in self._floors:
            of = floor.moment
            if isinstance(of, Column) and (floor.granularity, call, of.name) in self._view.steady:
                return _replaced(call, of, floor.start)
        if call.function != "time_floor":
            return self._comparison_from_floor(call)
        (moment,), (wanted,) = call.arguments, call.parameters
        assert isinstance(wanted, Granularity)
        floors = [floor for floor in self._floors if floor.moment == moment]
        is_stored = moment in self._spec.column_by_expression
        if not floors or not isinstance(moment, Column) or is_stored:
            return None
        for floor in floors:
            if self._view.refines(floor.granularity, wanted, moment.name):
                is_same = floor.granularity == wanted
                return floor.start if is_same else replace(call, arguments=(floor.start,))
        is_zone = any(_refines_in_one_zone(floor.granularity, wanted) for floor in floors)
        code = ReasonCode.TIME_ZONE if is_zone else ReasonCode.GRANULARITY_TOO_COARSE
        raise NotStored(code, moment.name)

    def _from_finer(self, call: Call) -> Expression | None:
        """Return a call computed from the same function that is stored with a finer constant."""
        of_finer = _OF_FINER.get(call.function)
        if of_finer is None:
            return None
        for whole, stored in self._spec.column_by_expression.items():
            if isinstance(whole, Call) and whole.arguments[:1] == call.arguments[:1]:
                found = of_finer(call, whole, stored)
                if found is not None:
                    return found
        return None

    def _comparison_from_floor(self, call: Call) -> Expression | None:
        """Compare the starts of stored buckets instead of times, if no bucket has both outcomes."""
        if call.function not in ("<", "<=", ">", ">="):
            return None
        left, right = call.arguments  # canonical: a constant stands on the right
        function = call.function
        if not isinstance(right, Literal) or not pa.types.is_timestamp(left.type):
            return None
        micros = order_key(right.value, left.type)
        if micros is None or micros >= MAX_MICROS - 1 or left in self._spec.column_by_expression:
            return None
        is_after = function in ("<=", ">")
        boundary = micros + is_after
        for floor in self._floors:
            if floor.moment == left and is_divided(floor.granularity, boundary):
                limit = time_literal(boundary, right.type)
                return Call(call.type, "<" if function[0] == "<" else ">=", (floor.start, limit))
        return None


def _refines_in_one_zone(stored: Granularity, wanted: Granularity) -> bool:
    """Whether two granularities would refine if they were in the same zone."""
    if stored.timezone == wanted.timezone or wanted.is_none or stored.is_all:
        return False
    if stored.months:
        return bool(wanted.months) and wanted.months % stored.months == 0
    same_clock = not wanted.micros or wanted.micros % stored.micros == 0
    return same_clock and stored.length_micros <= wanted.length_micros


def _argument_from(whole: Expression, column: Column, value: Expression) -> Expression | None:
    """Return a column as a function of `whole`, which is computed from it and has this value.

    None if different values of the column may have one value of `whole`, as far as is known.
    """
    if whole == column:
        return value
    if not isinstance(whole, Call) or whole.function not in _INVERTED:
        return None
    found = _INVERTED[whole.function](whole, value)
    return None if found is None else _argument_from(found[0], column, found[1])


def _of_cast(call: Call, value: Expression) -> _Inverted | None:
    (inner,) = call.arguments
    if (dates := dates_of(call, value)) is not None:
        return inner, dates
    is_text = call.type == pa.string()
    keeps_value = is_integral(inner.type) or inner.type == pa.date32()
    if not (keeps_value if is_text else is_lossless(inner.type, call.type)):
        return None
    return inner, cast_to(value, inner.type, "UTC")


def _of_sum(call: Call, value: Expression) -> _Inverted | None:
    plain, constant = call.arguments  # canonical: a constant stands on the right
    if not is_integral(call.type) or not isinstance(constant, Literal) or constant.value is None:
        return None
    return plain, Call(call.type, "-", (value, constant))


def _of_difference(call: Call, value: Expression) -> _Inverted | None:
    left, right = call.arguments
    if not is_integral(call.type):
        return None
    if isinstance(right, Literal) and right.value is not None:
        return left, Call(call.type, "+", (value, right))
    if isinstance(left, Literal) and left.value is not None:
        return right, Call(call.type, "-", (left, value))
    return None


def _of_negation(call: Call, value: Expression) -> _Inverted | None:
    if not is_integral(call.type):
        return None
    return call.arguments[0], Call(call.type, "negative", (value,))


def _of_concatenation(call: Call, value: Expression) -> _Inverted | None:
    places = [n for n, part in enumerate(call.arguments) if not isinstance(part, Literal)]
    if len(places) != 1 or call.type != pa.string():
        return None
    (place,) = places
    before, after = (
        sum(len(str(part.value)) for part in parts if isinstance(part, Literal))
        for parts in (call.arguments[:place], call.arguments[place + 1 :])
    )
    text = f"substring(whole, {before + 1}, length(whole) - {before + after})"
    bound = bind(text, pa.schema([(_WHOLE.name, _WHOLE.type)]))
    return call.arguments[place], _replaced(bound, _WHOLE, value)


def _of_equality(call: Call, value: Expression) -> _Inverted | None:
    """Invert NOT of a boolean column, whose canonical form is `b = false`."""
    operand, constant = call.arguments
    if constant != FALSE:
        return None
    return operand, Call(call.type, "=", (value, FALSE))


_INVERTED: Final[dict[str, Callable[[Call, Expression], _Inverted | None]]] = {
    "cast": _of_cast,
    "+": _of_sum,
    "-": _of_difference,
    "negative": _of_negation,
    "concat": _of_concatenation,
    "=": _of_equality,
}


def _quotient_of_quotient(call: Call, whole: Call, value: Expression) -> Expression | None:
    """Return `x DIV 20` as `(x DIV 10) DIV 2`, since both cut fractions off."""
    divisors = [one.arguments[1] for one in (call, whole)] if whole.function == "div" else []
    wanted, known = (_whole_number(one) for one in divisors) if divisors else (None, None)
    if not wanted or not known or wanted % known or not is_integral(whole.arguments[0].type):
        return None
    divisor = Literal(call.arguments[1].type, wanted // known)
    return Call(call.type, "div", (cast_to(value, divisor.type, "UTC"), divisor))


def _part_of_prefix(call: Call, whole: Call, value: Expression) -> Expression | None:
    """Return characters of a text as those of a longer prefix of it."""
    known = _prefix_length(whole)
    start, *rest = map(_whole_number, call.arguments[1:])
    if known is None or start is None or start < 0 or not rest or rest[0] is None:
        return None
    is_within = max(start, 1) - 1 + rest[0] <= known
    return replace(call, arguments=(value, *call.arguments[1:])) if is_within else None


def _start_of_prefix(call: Call, whole: Call, value: Expression) -> Expression | None:
    """Return whether a text starts with a few characters as whether a prefix of it does."""
    known, sought = _prefix_length(whole), call.arguments[1]
    if known is None or not isinstance(sought, Literal) or not isinstance(sought.value, str):
        return None
    return replace(call, arguments=(value, sought)) if len(sought.value) <= known else None


def _prefix_length(whole: Call) -> int | None:
    """Return how many first characters of a text a call returns; None if it does something else."""
    if whole.function != "substring" or whole.type != pa.string() or len(whole.arguments) < 3:
        return None
    start, length = map(_whole_number, whole.arguments[1:])
    return length if start in (0, 1) else None


def _whole_number(expression: Expression) -> int | None:
    value = expression.value if isinstance(expression, Literal) else None
    return value if isinstance(value, int) else None


_OF_FINER: Final[dict[str, Callable[[Call, Call, Expression], Expression | None]]] = {
    "div": _quotient_of_quotient,
    "substring": _part_of_prefix,
    "startswith": _start_of_prefix,
}
"""By function, a call of it from another call with the same first argument, and its value."""


def _replaced(expression: Expression, part: Expression, instead: Expression) -> Expression:
    """Return an expression in which one part is replaced by another expression."""
    if expression == part:
        return instead
    if not isinstance(expression, Call):
        return expression
    arguments = tuple(_replaced(argument, part, instead) for argument in expression.arguments)
    return replace(expression, arguments=arguments)

"""Interval constants in sqlglot's trees: INTERVAL, and parameters that are lengths of time."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from projseg.algebra.expressions.parameters.arguments import argument_of, bad_arguments
from projseg.algebra.expressions.text.duration_text import (
    Span,
    parse_interval,
    parse_interval_range,
)
from projseg.algebra.expressions.tree import Literal


def span_of(tree: exp.Expression) -> Span | None:
    """Return the interval constant that the tree is, or None if it is something else."""
    if isinstance(tree, exp.Interval):
        return _interval(tree)
    if isinstance(tree, exp.Placeholder):
        value = argument_of(str(tree.this))
        return value if isinstance(value, Span) else None
    if isinstance(tree, exp.Paren | exp.Neg):
        inner = span_of(tree.this)
        return inner.negated() if inner and isinstance(tree, exp.Neg) else inner
    if isinstance(tree, exp.Add | exp.Sub):
        left, right = span_of(tree.this), span_of(tree.expression)
        if left is not None and right is not None:
            return left.plus(right if isinstance(tree, exp.Add) else right.negated())
    return None


def _interval(tree: exp.Interval) -> Span:
    is_negative = isinstance(tree.this, exp.Neg)
    number = tree.this.this if is_negative else tree.this
    text = "" if number is None else _count(number)
    if is_negative:
        text = f"-{text}"
    unit = tree.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return parse_interval_range(text, unit.this.name, unit.expression.name)
    return parse_interval(f"{text} {unit.name}" if unit is not None else text)


def _count(tree: exp.Expression) -> str:
    if not isinstance(tree, exp.Placeholder):
        return tree.name
    value = argument_of(str(tree.this))
    written = value.value if isinstance(value, Literal) else None
    if isinstance(written, bool) or not isinstance(written, int | str | Decimal):
        raise bad_arguments(f"parameter :{tree.this} of an interval is a whole number or a text")
    return str(written)

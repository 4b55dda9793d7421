"""CASE, IF, COALESCE, NULLIF and NVL: type rules; their evaluation is in `lazy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from projseg.algebra.expressions.coercion import cast_to, unify
from projseg.algebra.expressions.functions.comparison import comparison
from projseg.algebra.expressions.functions.rule import Rule
from projseg.algebra.expressions.tree import Call, Expression, Literal


def case_when(
    branches: Sequence[tuple[Expression, Expression]], default: Expression | None, zone: str
) -> Expression:
    """Return the node of CASE: arguments are condition, value, condition, value, ..., default."""
    otherwise = default if default is not None else Literal(pa.null(), None)
    values = unify([value for _, value in branches] + [otherwise], "CASE", zone)
    arguments: list[Expression] = []
    for (condition, _), value in zip(branches, values, strict=False):
        arguments += [cast_to(condition, pa.bool_(), zone), value]
    return Call(values[-1].type, "case", (*arguments, values[-1]))


def _build_if(arguments: tuple[Expression, ...], zone: str) -> Expression:
    return case_when([(arguments[0], arguments[1])], arguments[2], zone)


def _build_coalesce(arguments: tuple[Expression, ...], zone: str) -> Expression:
    values = unify(arguments, "COALESCE", zone)
    return values[0] if len(values) == 1 else Call(values[0].type, "coalesce", values)


def _build_nullif(arguments: tuple[Expression, ...], zone: str) -> Expression:
    left, right = arguments
    null = Literal(left.type, None)
    return case_when([(comparison("=", left, right, zone), null)], left, zone)


def _build_nvl2(arguments: tuple[Expression, ...], zone: str) -> Expression:
    tested, present, absent = arguments
    is_null = Call(pa.bool_(), "is_null", (tested,))
    return case_when([(is_null, absent)], present, zone)


RULES: Final[dict[str, Rule]] = {
    "if": Rule(_build_if, 3, 3),
    "coalesce": Rule(_build_coalesce, 1, 1000),
    "nvl": Rule(_build_coalesce, 2, 2),
    "ifnull": Rule(_build_coalesce, 2, 2),
    "nullif": Rule(_build_nullif, 2, 2),
    "nvl2": Rule(_build_nvl2, 3, 3),
}

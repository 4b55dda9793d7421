"""The text of a bound query with `?` for each value, so that equal questions have equal texts.

Made of trees, so whatever door a question came by and however it was written. What a function has
as a parameter stays: units, periods, zones. Outputs have no names, since a name may hold a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace as replace_fields
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.parse_aggregate import AggregateCall, call_text
from projseg.algebra.expressions.canonical import conjunction
from projseg.algebra.expressions.joined_values import JoinPath
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_words import hide_literals
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.expressions.tree import Literal as Constant
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.context import STEERING, context_options

ShownLiterals: TypeAlias = Literal["none", "expressions", "all"]

_VALUE: Final = "\x1a"
_PART: Final = "\x1b"
_NAMED: Final = re.compile(r"\s+AS\s+(\w+|`[^`]*`)\s*$", re.IGNORECASE)
_IS_NAME: Final = re.compile(r"\w+|`[^`]*`")
_TEXTS: Final = ("group_by", "aggregators", "columns", "filter", "having", "order_by")
_REFUSING_NULL: Final = frozenset(("=", "!=", "<", "<=", ">", ">=", "in", "like"))
_STEERED: Final = frozenset(one.key for one in STEERING.values() if one.about)


def query_content(query: QuerySpec, shown: ShownLiterals = "none") -> dict[str, Any]:
    """Return a query as `Query.to_json` does, without values, outputs' names and interval.

    Constants may stay: none, those of groups and aggregates ("expressions"), or all.
    """
    in_groups, in_rows = shown != "none", shown == "all"
    parts = {named.name: _text(named.expression, shown=in_groups) for named in query.keys}
    keys = list(parts.values())
    if query.grouping_sets is not None:
        sets = ", ".join(
            f"({', '.join(keys[place] for place in one)})" for one in query.grouping_sets
        )
        keys = [f"GROUPING SETS ({sets})"]
    parts = {
        name: text if _IS_NAME.fullmatch(text) else f"({text})" for name, text in parts.items()
    }
    parts |= {call.name: _call_text(call, shown=in_groups) for call in query.aggregates}
    kept = conjunction(_without_implied(query.conditions)) if query.conditions else None
    condition = None if kept is None else _text(kept, shown=in_rows)
    order = [
        _over_groups(term.expression, parts, shown=in_rows)
        + " DESC" * term.is_descending
        + _nulls(is_first=term.nulls_first, is_descending=term.is_descending)
        for term in query.order_by
    ]
    outputs = [_over_groups(one.expression, parts, shown=in_groups) for one in query.outputs]
    having = query.having
    content = {
        "group_by": keys,
        "aggregators": outputs,
        "columns": [_text(one.expression, shown=in_groups) for one in query.columns],
        "filter": condition,
        "having": None if having is None else _over_groups(having, parts, shown=in_rows),
        "order_by": order,
        "limit": None if query.limit is None else query.limit if in_rows else "?",
        "context": {
            key: value for key, value in context_options(query.context).items() if key in _STEERED
        },
    }
    if query.is_partial:
        content["aggregation"] = "partial"
    return {name: value for name, value in content.items() if value not in (None, [], {})}


def query_line(content: Mapping[str, Any], table: str = "") -> str:
    """Return the query of a record as one line of SQL, without FROM unless a table is given."""
    groups, aggregates, columns, order = (
        [value] if isinstance(value, str) else [str(one) for one in value or ()]
        for value in map(content.get, ("group_by", "aggregators", "columns", "order_by"))
    )
    clauses = {
        "SELECT": ", ".join([*groups, *aggregates] or columns or ["*"]),
        "FROM": table,
        "WHERE": content.get("filter"),
        "GROUP BY": ", ".join(groups),
        "HAVING": content.get("having"),
        "ORDER BY": ", ".join(order),
        "LIMIT": content.get("limit"),
    }
    return " ".join(f"{word} {text}" for word, text in clauses.items() if text not in (None, ""))


def _without_implied(conditions: Sequence[Expression]) -> list[Expression]:
    """Leave out that a column is not null where another condition says so: Spark adds it."""
    compared = {
        node
        for condition in conditions
        if isinstance(condition, Call) and condition.function in _REFUSING_NULL
        for node in condition.arguments
        if isinstance(node, Column)
    }
    return [one for one in conditions if _not_null(one) not in compared]


def _not_null(condition: Expression) -> Expression | None:
    """Return the column that a condition says is not null."""
    if isinstance(condition, Call) and condition.function == "not":
        (inner,) = condition.arguments
        if isinstance(inner, Call) and inner.function == "is_null":
            return inner.arguments[0]
    return None


def hidden_content(texts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the texts of a query that Spark wrote, without their values."""
    found: dict[str, Any] = {}
    for name in _TEXTS:
        value = texts.get(name)
        if isinstance(value, str):
            found[name] = hide_literals(value)
        elif isinstance(value, Sequence) and value:
            found[name] = [hide_literals(_NAMED.sub("", str(text))) for text in value]
    return found


def _nulls(*, is_first: bool, is_descending: bool) -> str:
    if is_first != is_descending:
        return ""
    return " NULLS FIRST" if is_first else " NULLS LAST"


def _text(expression: Expression, *, shown: bool) -> str:
    """Return an expression's canonical text, with or without its constants."""
    if shown:
        return to_sql(expression)
    try:
        return _without_marks(to_sql(_without_values(expression)))
    except Exception:  # noqa: BLE001 - a function may write only constants that it knows
        return hide_literals(to_sql(expression))


def _call_text(call: AggregateCall, *, shown: bool) -> str:
    if shown:
        return call_text(call)
    parameters = tuple("?" if isinstance(one, str) else one for one in call.parameters)
    condition = None if call.filter is None else _without_values(call.filter)
    arguments = tuple(map(_without_values, call.arguments))
    hidden = replace(call, arguments=arguments, filter=condition, parameters=parameters)
    try:
        return _without_marks(call_text(hidden)).replace("'?'", "?")
    except Exception:  # noqa: BLE001 - as in `_text`
        return hide_literals(call_text(call))


def _over_groups(expression: Expression, parts: Mapping[str, str], *, shown: bool) -> str:
    """Return the text of what is computed from keys and aggregates, with their texts in place."""
    numbers = {name: place for place, name in enumerate(parts)}
    marked = _with_parts(expression, numbers)
    text, listed = _text(marked, shown=shown), list(parts.values())
    return re.sub(f"`{_PART}([0-9]+)`", lambda found: listed[int(found[1])], text)


def _with_parts(expression: Expression, numbers: Mapping[str, int]) -> Expression:
    if isinstance(expression, Column):
        place = numbers.get(expression.name)
        return expression if place is None else Column(expression.type, f"{_PART}{place}")
    if isinstance(expression, Call):
        inner = tuple(_with_parts(one, numbers) for one in expression.arguments)
        return replace_fields(expression, arguments=inner)
    return expression


def _without_values(expression: Expression) -> Expression:
    if isinstance(expression, Constant):
        return Column(expression.type, _VALUE)
    if not isinstance(expression, Call):
        return expression
    arguments = expression.arguments
    if expression.function == "add_interval":
        span = Column(pa.null(), _VALUE)
        return Call(expression.type, "+", (_without_values(arguments[0]), span))
    if expression.function == "in" and all(isinstance(one, Constant) for one in arguments[1:]):
        arguments = (arguments[0], Column(pa.null(), _VALUE))
    return replace_fields(
        expression,
        arguments=tuple(map(_without_values, arguments)),
        parameters=tuple(map(_hidden_parameter, expression.parameters)),
    )


def _hidden_parameter(parameter: Any) -> Any:
    """Return what a function has as a parameter; in a join's keys and condition are values."""
    if not isinstance(parameter, JoinPath):
        return parameter
    condition = parameter.condition
    return replace(
        parameter,
        names=tuple(
            name if isinstance(key, Column) else _text(key, shown=False)
            for name, key in zip(parameter.names, parameter.keys, strict=True)
        ),
        condition_text=None if condition is None else _text(condition, shown=False),
    )


def _without_marks(text: str) -> str:
    return text.replace(f"`{_VALUE}`", "?")

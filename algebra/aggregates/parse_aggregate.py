"""Aggregates as users write them: `sum(added) FILTER (WHERE NOT robot) AS added`.

sqlglot reads the text; its tree is taken apart here, and `expressions.bind` binds the pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import pyarrow as pa
from sqlglot import exp

from projseg.algebra.aggregates.aggregate_functions import (
    AGGREGATES,
    ALIASES,
    DISTINCT_OF,
    AggregateFunction,
)
from projseg.algebra.aggregates.aggregate_parameters import parameter_text, split_parameters
from projseg.algebra.expressions.bind import NamedExpression, bind_named_tree
from projseg.algebra.expressions.binder_names import kept_by_text
from projseg.algebra.expressions.canonical import canonical, conjunction
from projseg.algebra.expressions.coercion import cast_to
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.tree import Column, Expression, Literal
from projseg.errors import InvalidInputError, UnsupportedFeatureError, did_you_mean
from projseg.segment_format.logical_types import type_name

_SPARK_NAMES: Final = {"array_agg": "collect_list"}
"""What Spark calls a function in the name of an output, where it is not as it was written."""


class AggregateCall(msgspec.Struct, frozen=True):
    """One aggregate of a query or a projection.

    The function is a key of `functions.AGGREGATES` (aliases resolved; count_if is a filtered
    count). Arguments are none for count(*), and (x, time) for first, last, min_by and max_by;
    parameters are (lgK,) or (k,) for sketches, (percentage or percentages, accuracy) for
    percentiles. The name is the alias, else the text as Spark would name it.
    """

    function: str
    arguments: tuple[Expression, ...]
    filter: Expression | None
    parameters: tuple[object, ...]
    name: str


def result_type(call: AggregateCall) -> pa.DataType:
    """Return the Arrow type of a call's final value, as Spark types it."""
    first = call.arguments[0].type if call.arguments else pa.null()
    result = AGGREGATES[call.function].result(first)
    is_array = bool(call.parameters) and isinstance(call.parameters[0], tuple)
    return pa.list_(result) if is_array else result


@kept_by_text
def bind_aggregate(
    text: str,
    schema: pa.Schema,
    *,
    timezone: str = "UTC",
    time_column: str | None = None,
) -> AggregateCall:
    """Return the aggregate that a text of Spark SQL means over a schema.

    It is `function([DISTINCT] arguments) [FILTER (WHERE condition)] [[AS] alias]`.
    """
    try:
        tree = parse_sql(text)
    except InvalidInputError as error:
        raise InvalidInputError("PROJSEG_BAD_AGGREGATE", f"aggregate {error.message}") from error
    return _bound(_written(tree, text), text, schema, timezone, time_column)


def bind_aggregate_tree(
    tree: exp.Expression, schema: pa.Schema, *, timezone: str, time_column: str | None
) -> AggregateCall:
    """Return the aggregate that a tree of `dialect.parse_sql` means, as `bind_aggregate` does."""
    text = tree.sql(dialect="spark", normalize_functions=False)
    return _bound(_written(tree, text), text, schema, timezone, time_column)


def is_aggregate_tree(tree: exp.Expr) -> bool:
    """Whether a tree made by `dialect.parse_sql` calls an aggregate function, FILTER included."""
    call = tree.this if isinstance(tree, exp.Filter) else tree
    call = call.this if isinstance(call, exp.WithinGroup) else call
    if isinstance(call, exp.Any):
        return True
    name = str(call.name).casefold() if isinstance(call, exp.Anonymous) else ""
    return (name in AGGREGATES and name not in DISTINCT_OF) or name in ALIASES


def calls_aggregate(tree: exp.Expression) -> bool:
    """Whether a tree calls an aggregate function, under whatever name it has one."""
    return any(is_aggregate_tree(node) or _is_named_aggregate(node) for node in tree.walk())


def _is_named_aggregate(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Anonymous) and str(tree.name).casefold() in AGGREGATES


def _bound(
    parts: _Written, text: str, schema: pa.Schema, timezone: str, time_column: str | None
) -> AggregateCall:
    function = _function_name(parts, text)
    _check_not_nested(parts, text)
    known = AGGREGATES[function]
    given, parameters = split_parameters(function, known, parts.arguments)
    is_star = len(given) == 1 and isinstance(given[0], exp.Star)
    if is_star and (function != "count" or parts.is_distinct):
        raise _bad(text, "only count takes *")
    named = [] if is_star else [bind_named_tree(tree, schema, timezone) for tree in given]
    arguments = tuple(argument.expression for argument in named)
    condition = _bind_filter(parts, schema, timezone, text)
    if not is_star:
        _check_arguments(function, known, arguments, text)
    if known.argument_type is not None:
        wanted = known.argument_type
        arguments = tuple(canonical(cast_to(each, wanted, timezone)) for each in arguments)
    name = parts.alias or _default_name(parts, named, parameters, condition)
    if known.goes_by_time:
        arguments = (*arguments, _time(schema, time_column, text))
    filters = [] if condition is None else [condition.expression]
    if function == "count_if":
        function, filters, arguments = "count", [arguments[0], *filters], ()
    elif function == "median":
        function, parameters = "percentile", (0.5,)
    elif function == "count" and all(_is_constant(argument) for argument in arguments):
        arguments = ()
    elif known.tuple_primitives:
        arguments = _distinguishing(arguments)
    # NULL by itself has no type, and no rows are chosen by what has none.
    typed = [canonical(cast_to(condition, pa.bool_(), timezone)) for condition in filters]
    return AggregateCall(function, arguments, _conjunction(typed), parameters, name)


class _Written(msgspec.Struct, frozen=True):
    """The pieces of an aggregate as it was written."""

    function: str
    is_distinct: bool
    arguments: list[exp.Expression]
    filter: exp.Expression | None
    alias: str | None


def _written(tree: exp.Expression, text: str) -> _Written:
    alias = None
    if isinstance(tree, exp.Alias):
        tree, alias = tree.this, tree.alias
    condition = None
    if isinstance(tree, exp.Filter):
        tree, condition = tree.this, tree.expression.this
    function, arguments = _function_and_arguments(tree, text)
    is_distinct = len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
    if is_distinct:
        arguments = arguments[0].expressions
    return _Written(function, is_distinct, arguments, condition, alias)


def _function_and_arguments(tree: exp.Expression, text: str) -> tuple[str, list[exp.Expression]]:
    """Return a call's name in lower case, and its arguments."""
    if isinstance(tree, exp.Anonymous):
        return str(tree.name).lower(), tree.expressions
    if isinstance(tree, exp.Any):  # sqlglot reads it as the quantifier of a comparison
        inner = tree.this
        return "any", inner.expressions if isinstance(inner, exp.Tuple) else [inner.unnest()]
    if isinstance(tree, exp.WithinGroup):
        return _within_group(tree, text)
    if isinstance(tree, exp.Window | exp.IgnoreNulls | exp.RespectNulls):
        raise _bad(text, "it may have FILTER (WHERE ...) and an alias, and nothing else")
    raise _bad(text, "it must be one call of an aggregate function, such as sum(x) AS total")


def _within_group(tree: exp.WithinGroup, text: str) -> tuple[str, list[exp.Expression]]:
    """Return `percentile_cont(p) WITHIN GROUP (ORDER BY x)` as the call of (x, p) that it means."""
    name = str(tree.this.name).lower()
    ordered = tree.expression.expressions
    if name in ("listagg", "string_agg"):
        return name, _listed_in_order(tree, ordered, text)
    if name not in ("percentile_cont", "percentile_disc", "mode") or len(ordered) != 1:
        raise _bad(
            text, "only percentile_cont, percentile_disc and mode go WITHIN GROUP (ORDER BY x)"
        )
    if ordered[0].args.get("desc"):
        instead = "; ask for the percentage 1 - p" if name != "mode" else ", for the least mode"
        raise _bad(text, f"its order must ascend{instead}")
    return name, [ordered[0].this, *tree.this.expressions]


def _listed_in_order(
    tree: exp.WithinGroup, ordered: list[exp.Expression], text: str
) -> list[exp.Expression]:
    """Return the arguments of listagg, whose values ascend with WITHIN GROUP and without."""
    arguments: list[exp.Expression] = tree.this.expressions
    first = arguments[0]
    value = first.expressions[0] if isinstance(first, exp.Distinct) else first
    is_own = len(ordered) == 1 and ordered[0].this == value and not ordered[0].args.get("desc")
    if not is_own:
        raise _bad(text, "its values ascend; WITHIN GROUP may only order by the value itself")
    return arguments


def _function_name(parts: _Written, text: str) -> str:
    function = ALIASES.get(parts.function, parts.function)
    if function not in AGGREGATES or function in DISTINCT_OF:
        names = [*(name for name in AGGREGATES if name not in DISTINCT_OF), *ALIASES]
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_FUNCTION",
            f"'{parts.function}' in '{text}' is not an aggregate function that projseg knows"
            + did_you_mean(parts.function, names),
        )
    if not parts.is_distinct:
        return function
    if not AGGREGATES[function].distinct_form:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_FUNCTION",
            f"DISTINCT in '{text}' is not supported; count, sum, avg, min and max take it",
        )
    return AGGREGATES[function].distinct_form


def _check_not_nested(parts: _Written, text: str) -> None:
    inside = [*parts.arguments, *([] if parts.filter is None else [parts.filter])]
    for node in (node for tree in inside for node in tree.walk()):
        if is_aggregate_tree(node):
            nested = node.sql(dialect="spark", normalize_functions=False)
            raise _bad(
                text,
                f"it is over rows, and has the aggregate '{nested}' inside, which is of groups; "
                "ask for that first, and aggregate the answer",
            )


def _check_arguments(
    function: str, known: AggregateFunction, arguments: tuple[Expression, ...], text: str
) -> None:
    takes_any = function == "count" or bool(known.tuple_primitives)
    wanted = known.arguments * len(arguments) if takes_any else known.arguments
    if len(arguments) != len(wanted) or not arguments:
        raise _bad(text, f"it takes {len(known.arguments)} argument(s), found {len(arguments)}")
    for argument, type_class in zip(arguments, wanted, strict=True):
        if not type_class.accepts(argument.type):
            raise _bad(text, f"it needs {type_class.name}, found {type_name(argument.type)}")


def _bind_filter(
    parts: _Written, schema: pa.Schema, timezone: str, text: str
) -> NamedExpression | None:
    if parts.filter is None:
        return None
    condition = bind_named_tree(parts.filter, schema, timezone)
    if condition.expression.type not in (pa.bool_(), pa.null()):
        found = type_name(condition.expression.type)
        raise _bad(text, f"its FILTER must be a boolean, found {found}")
    return condition


def _default_name(
    parts: _Written,
    named: list[NamedExpression],
    parameters: tuple[object, ...],
    condition: NamedExpression | None,
) -> str:
    inputs = [argument.name for argument in named] or ["1"]
    inputs += map(parameter_text, parameters)
    distinct = "DISTINCT " if parts.is_distinct else ""
    function = _SPARK_NAMES.get(parts.function, parts.function)
    name = f"{function}({distinct}{', '.join(inputs)})"
    return name if condition is None else f"{name} FILTER (WHERE {condition.name})"


def _time(schema: pa.Schema, time_column: str | None, text: str) -> Expression:
    if time_column is None:
        raise _bad(text, "the table has no time column to go by; use min_by(x, t) or max_by(x, t)")
    return Column(schema.field(time_column).type, time_column)


def _is_constant(argument: Expression) -> bool:
    return isinstance(argument, Literal) and argument.value is not None


def _distinguishing(arguments: tuple[Expression, ...]) -> tuple[Expression, ...]:
    """Return the arguments that tell tuples apart, in one order for all ways to write them."""
    telling = {to_sql(each): each for each in arguments if not _is_constant(each)}
    return tuple(telling[text] for text in sorted(telling)) or arguments[:1]


def _conjunction(filters: list[Expression]) -> Expression | None:
    if not filters:
        return None
    condition = conjunction(filters)
    is_true = isinstance(condition, Literal) and condition.value is True
    return None if is_true else condition


def _bad(text: str, problem: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_AGGREGATE", f"aggregate '{text}': {problem}")


def call_text(call: AggregateCall) -> str:
    """Return the canonical text of a call, without its name."""
    name = call.function
    inputs = [to_sql(argument) for argument in call.arguments]
    if AGGREGATES[name].goes_by_time:
        inputs = inputs[:1]
    if name in DISTINCT_OF:
        name = DISTINCT_OF[name]
        inputs[0] = f"DISTINCT {inputs[0]}"
    inputs += map(_parameter_text, call.parameters)
    suffix = "" if call.filter is None else f" FILTER (WHERE {to_sql(call.filter)})"
    return f"{name}({', '.join(inputs) or '*'}){suffix}"


def _parameter_text(parameter: object) -> str:
    is_text = isinstance(parameter, str)
    return to_sql(Literal(pa.string(), parameter)) if is_text else parameter_text(parameter)


def _aggregate_in(tree: exp.Expr) -> str | None:
    """Return the first aggregate in a tree made by `dialect.parse_sql`; None if it has none."""
    for node in tree.walk():
        if is_aggregate_tree(node):
            return node.sql(dialect="spark", normalize_functions=False)
    return None


@contextmanager
def refusing_aggregates(what: str, text: str, instead: str) -> Iterator[None]:
    """Say where an aggregate belongs, if a text ("filter") is not bound because it has one."""
    try:
        yield
    except UnsupportedFeatureError as error:
        found = _aggregate_in(parse_sql(text))
        if found is None:
            raise
        raise InvalidInputError(
            "PROJSEG_BAD_QUERY",
            f"{what} '{text}' has the aggregate '{found}', which is of groups, and needs a value "
            f"of each row; {instead}",
        ) from error

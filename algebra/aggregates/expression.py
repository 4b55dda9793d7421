"""Outputs over groups as users write them: `sum(added) / count(*) AS mean`, most often one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from sqlglot import exp

from projseg.algebra.aggregates.group_by import GroupScope, is_grouping_tree
from projseg.algebra.aggregates.parse_aggregate import (
    AggregateCall,
    bind_aggregate,
    is_aggregate_tree,
)
from projseg.algebra.expressions.bind import NamedExpression
from projseg.algebra.expressions.binder_names import kept_by_text
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.tree import Column, Expression
from projseg.errors import InvalidInputError, ProjsegError


class _AggregateOutput(msgspec.Struct, frozen=True):
    """An output, by its alias or Spark's name for its text, that is computed from aggregates.

    The expression is over `Column` nodes that are named by grouping columns and by the calls, each
    once, by names that no grouping column has; `is_call` says that it is one call and nothing else.
    """

    name: str
    expression: Expression
    calls: tuple[AggregateCall, ...]
    is_call: bool = True


@kept_by_text
def bind_output(
    text: str,
    schema: pa.Schema,
    *,
    keys: tuple[NamedExpression, ...] = (),
    timezone: str = "UTC",
    time_column: str | None = None,
    has_sets: bool = False,
) -> _AggregateOutput:
    """Return the output that `expression [[AS] alias]` over aggregates and grouping columns means.

    Grouping columns are named by their expressions or by their aliases; with `has_sets` they are of
    several grouping sets.
    """
    scope = GroupScope(schema, keys, timezone, time_column, has_sets=has_sets)
    tree = _composed(text)
    if tree is None:
        call = bind_aggregate(text, schema, timezone=timezone, time_column=time_column)
        column = scope.call_column(call)
        return _AggregateOutput(call.name, column, (replace(call, name=column.name),))
    try:
        return _bound(tree, scope)
    except ProjsegError as error:
        raise type(error)(error.code, f"'{text}': {error.message}") from error


@kept_by_text
def bind_group_output(
    text: str,
    schema: pa.Schema,
    *,
    keys: tuple[NamedExpression, ...],
    timezone: str,
    time_column: str | None,
    has_sets: bool,
) -> _AggregateOutput:
    """Return the output of a query that a text means: also one of grouping columns alone."""
    try:
        return bind_output(
            text,
            schema,
            keys=keys,
            timezone=timezone,
            time_column=time_column,
            has_sets=has_sets,
        )
    except ProjsegError as error:
        found = _of_groups(text, GroupScope(schema, keys, timezone, time_column, has_sets=has_sets))
        if found is None:
            raise
        if isinstance(found, ProjsegError):
            raise found from error
        return found


def _of_groups(text: str, scope: GroupScope) -> _AggregateOutput | ProjsegError | None:
    """Return an output without aggregates, or what is wrong with it; None if it has no meaning."""
    try:
        found = _bound(parse_sql(text), scope)
    except ProjsegError as error:
        is_ungrouped = error.code == "PROJSEG_BAD_AGGREGATE"
        return type(error)(error.code, f"'{text}': {error.message}") if is_ungrouped else None
    return None if found.calls else found


def _bound(tree: exp.Expression, scope: GroupScope) -> _AggregateOutput:
    found = scope.bind(_unaliased(tree))
    alias = tree.alias if isinstance(tree, exp.Alias) else None
    is_call = bool(found.calls) and isinstance(found.expression, Column)
    return _AggregateOutput(alias or found.name, found.expression, found.calls, is_call)


def _composed(text: str) -> exp.Expression | None:
    """Return the tree of an expression around aggregates, None if the text is anything else."""
    try:
        tree = parse_sql(text)
    except InvalidInputError:
        return None
    inner = _unaliased(tree)
    if isinstance(inner, exp.Window | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        return None
    has_call = any(is_aggregate_tree(node) or is_grouping_tree(node) for node in inner.walk())
    return tree if has_call and not is_aggregate_tree(inner) else None


def _unaliased(tree: exp.Expression) -> exp.Expression:
    inner: exp.Expression = tree.this if isinstance(tree, exp.Alias) else tree
    return inner


def stored_calls(
    outputs: Sequence[_AggregateOutput], taken: Iterable[str]
) -> tuple[AggregateCall, ...]:
    """Return the calls of outputs, by names that are not taken.

    An output that is one call gives it its name. Those of an expression, which is computed for each
    query, bear their own text, and are left out if another output has them.
    """
    plain = [output for output in outputs if output.is_call]
    names = {*taken, *(output.name for output in plain)}
    known = {replace(call, name="") for output in plain for call in output.calls}
    found: list[AggregateCall] = []
    for output in outputs:
        if output.is_call:
            found += [replace(call, name=output.name) for call in output.calls]
            continue
        for call in output.calls:
            if replace(call, name="") not in known:
                name = _free(call.name, names)
                known.add(replace(call, name=""))
                names.add(name)
                found.append(replace(call, name=name))
    return tuple(found)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name

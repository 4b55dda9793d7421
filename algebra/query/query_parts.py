"""How methods take a query: as a `Query`, by its fields, or as a statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from inspect import Parameter, signature
from typing import Any, TypedDict, TypeVar

from projseg.algebra.expressions.sql_parameters import ArgumentsLike
from projseg.algebra.query.join import Join
from projseg.algebra.query.request import Expressions, IntervalLike, Query
from projseg.errors import InvalidInputError

_Method = TypeVar("_Method", bound=Callable[..., Any])


class QueryParts(TypedDict, total=False):
    """The fields of a `Query` that methods take by name beside its groups, aggregates and filter.

    A method says `**parts: Unpack[QueryParts]`, and `with_query_parts` shows them in its signature.
    """

    interval: IntervalLike | None
    having: str | None
    order_by: Expressions
    limit: int | None
    columns: Expressions | None
    context: Mapping[str, Any] | None
    args: ArgumentsLike | None
    joins: Sequence[Join]


def with_query_parts(method: _Method) -> _Method:
    """Show the parts of a query, which a method takes as `**parts`, in its signature."""
    own = signature(method)
    *named, _ = own.parameters.values()
    parts = [
        Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
        for one in fields(Query)
        if one.name in QueryParts.__annotations__
    ]
    shown = sorted([*named, *parts], key=lambda one: one.kind)
    vars(method)["__signature__"] = own.replace(parameters=shown)
    return method


def query_of(query: Expressions | Query, **parts: Any) -> Query:
    """Return a query that is given as a `Query`, or as its fields, `group_by` first.

    A `Query` without values for its parameters takes them from `args`.
    """
    if not isinstance(query, Query):
        return Query(query, **parts)
    args = parts.pop("args", None)
    _check_alone("Query", parts)
    if args is None:
        return query
    _check_alone("Query", {} if query.args is None else {"args": args})
    return replace(query, args=args)


def _check_alone(whole: str, parts: Mapping[str, Any]) -> None:
    """Refuse parts of a query that are given beside all of it."""
    for name, value in parts.items():
        if value is not None and value != ():
            raise InvalidInputError(
                "PROJSEG_BAD_QUERY",
                f"a query's {name} is given beside a whole {whole}; put it into the {whole}",
            )


def statement_options(
    context: Mapping[str, Any] | None = None, args: ArgumentsLike | None = None, **parts: Any
) -> dict[str, Any]:
    """Return what may be given beside a whole statement, of a query's parts."""
    _check_alone("statement", parts)
    return {"context": context, "args": args}

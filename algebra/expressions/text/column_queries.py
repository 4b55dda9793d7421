"""CarbonData's `TEXT_MATCH('name:n10 -name:*n*')`, as text_match of each column that it names."""

from __future__ import annotations

from functools import reduce

from sqlglot import exp

from projseg.algebra.expressions.patterns.text_query import (
    Every,
    OfColumn,
    Some,
    TextQuery,
    Without,
    read_query_of_columns,
)
from projseg.errors import UnsupportedFeatureError

_NAME = "text_match"


def with_columns(tree: exp.Expression) -> exp.Expression:
    """Return a tree whose calls of text_match have two arguments.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_TEXT_QUERY.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FUNCTION for TEXT_MATCH_WITH_LIMIT.
    """
    return tree.transform(_replaced)


def _replaced(node: exp.Expression) -> exp.Expression:
    name = str(node.this).casefold() if isinstance(node, exp.Anonymous) else ""
    if name == f"{_NAME}_with_limit":
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_FUNCTION",
            f"{name} is not supported; write {_NAME} in WHERE, and LIMIT at the query's end",
        )
    arguments = node.expressions if name == _NAME else []
    if len(arguments) != 1 or not arguments[0].is_string:
        return node
    return exp.Paren(this=_condition(read_query_of_columns(arguments[0].this)))


def _condition(query: TextQuery) -> exp.Expression:
    if isinstance(query, OfColumn):
        column = exp.column(exp.to_identifier(query.column, quoted=True))
        return exp.Anonymous(this=_NAME, expressions=[column, exp.Literal.string(query.query)])
    if isinstance(query, Without):
        return exp.Not(this=exp.Paren(this=_condition(query.part)))
    assert isinstance(query, Every | Some)  # no phrase is outside of a column
    join = exp.And if isinstance(query, Every) else exp.Or
    parts: list[exp.Expression] = [exp.Paren(this=_condition(part)) for part in query.parts]
    return reduce(lambda left, right: join(this=left, expression=right), parts)

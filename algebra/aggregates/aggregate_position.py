"""Aggregates that are written where each row is asked for a value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from projseg.algebra.aggregates.call import is_aggregate_tree
from projseg.algebra.expressions.text.dialect import parse_sql
from projseg.errors import InvalidInputError, UnsupportedFeatureError


def aggregate_in(tree: exp.Expr) -> str | None:
    """Return the first aggregate in a tree made by `dialect.parse_sql`; None if it has none."""
    for node in tree.walk():
        if is_aggregate_tree(node):
            return node.sql(dialect="spark", normalize_functions=False)
    return None


@contextmanager
def refusing_aggregates(what: str, text: str, instead: str) -> Iterator[None]:
    """Say where an aggregate belongs, if a text is not bound because it has one.

    Parameters
    ----------
    what : str
        What the text is: "filter".
    text : str
        The text that is bound within the context.
    instead : str
        Where to put the aggregate.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_QUERY, instead of the error of an unknown function.
    """
    try:
        yield
    except UnsupportedFeatureError as error:
        found = aggregate_in(parse_sql(text))
        if found is None:
            raise
        raise InvalidInputError(
            "PROJSEG_BAD_QUERY",
            f"{what} '{text}' has the aggregate '{found}', which is of groups, and needs a value "
            f"of each row; {instead}",
        ) from error

"""Bind Spark SQL text to a schema: the result is a canonical typed expression."""

from __future__ import annotations

import msgspec
import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.binding.binder import Binder
from projseg.algebra.expressions.canonical import canonical
from projseg.algebra.expressions.expression_limits import check_depth, room_to_recurse
from projseg.algebra.expressions.instant import kept_by_text
from projseg.algebra.expressions.text.dialect import parse_sql, split_list
from projseg.algebra.expressions.text.naming import spark_name
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.time.time_zones import zone_name


class NamedExpression(msgspec.Struct, frozen=True):
    """An expression and the name of its column in an output."""

    name: str
    expression: Expression


@kept_by_text
def bind(text: str, schema: pa.Schema, *, timezone: str = "UTC") -> Expression:
    """Return the canonical expression of a text over the columns of a schema.

    Parameters
    ----------
    text : str
        One Spark SQL expression; an alias is ignored.
    schema : pa.Schema
        Names, looked up without regard to case, and projseg's Arrow types.
    timezone : str
        The session's time zone, for times that are written without one and for parts of times.

    Raises
    ------
    InvalidInputError
        If the text is not an expression, names an unknown column, or mixes types that Spark does
        not mix.
    UnsupportedFeatureError
        If it calls a function that projseg does not know.
    """
    tree = parse_sql(text)
    return bind_tree(tree.this if isinstance(tree, exp.Alias) else tree, schema, timezone)


@kept_by_text
def bind_named(text: str, schema: pa.Schema, timezone: str = "UTC") -> NamedExpression:
    """Return the canonical expression and its name: the alias, else the name Spark gives it.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError, LimitExceededError
        As `bind` does.
    """
    return bind_named_tree(parse_sql(text), schema, timezone)


def bind_named_tree(
    tree: exp.Expression, schema: pa.Schema, timezone: str = "UTC"
) -> NamedExpression:
    """Return the canonical expression of a tree made by `dialect.parse_sql`, and its name.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError, LimitExceededError
        As `bind` does.
    """
    inner = tree.this if isinstance(tree, exp.Alias) else tree
    expression = bind_tree(inner, schema, timezone)
    if isinstance(tree, exp.Alias):
        return NamedExpression(tree.alias, expression)
    if isinstance(expression, Column):
        return NamedExpression(expression.name, expression)
    try:
        with room_to_recurse():
            return NamedExpression(spark_name(inner), expression)
    except RecursionError:  # naming nests, and a chain may have thousands of ANDs
        return NamedExpression(inner.sql(dialect="spark"), expression)


def bind_tree(tree: exp.Expression, schema: pa.Schema, timezone: str = "UTC") -> Expression:
    """Return the canonical expression of a tree made by `dialect.parse_sql`.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError, LimitExceededError
        As `bind` does.
    """
    with room_to_recurse():
        expression = canonical(Binder(schema, zone_name(timezone)).bind(tree))
    check_depth(expression)
    return expression


__all__ = ["NamedExpression", "bind", "bind_named", "bind_named_tree", "bind_tree", "split_list"]

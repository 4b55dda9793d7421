"""Bind Spark SQL text to a schema: a canonical typed expression, and the name of its column.

The name is the one that Spark gives to an output column whose expression has no alias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.binder import Binder
from projseg.algebra.expressions.binder_names import kept_by_text
from projseg.algebra.expressions.canonical import canonical
from projseg.algebra.expressions.dialect import UnsignedRightShift, parse_sql
from projseg.algebra.expressions.expression_limits import check_depth, room_to_recurse
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.time.time_zones import zone_name

_INFIX: Final[dict[type[exp.Expression], str]] = {
    exp.EQ: "=",
    exp.NEQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "<=>",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.And: "AND",
    exp.Or: "OR",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    UnsignedRightShift: ">>>",
}
_DEFAULTS: Final = {
    ("split", 2): ("-1",),
    ("regexp_extract", 2): ("1",),
    ("bround", 1): ("0",),
    ("from_unixtime", 1): ("yyyy-MM-dd HH:mm:ss",),
}
"""From a function and how many arguments are written to those that Spark adds."""
_NEGATED: Final = (exp.NEQ, exp.NullSafeNEQ)


class NamedExpression(msgspec.Struct, frozen=True):
    """An expression and the name of its column in an output."""

    name: str
    expression: Expression


@kept_by_text
def bind(text: str, schema: pa.Schema, *, timezone: str = "UTC") -> Expression:
    """Return the canonical expression of a text over the columns of a schema.

    The text is one Spark SQL expression, whose alias is ignored; names are looked up without regard
    to case; `timezone` is for times that are written without one and for parts of times. Raises
    InvalidInputError if the text is not an expression, names an unknown column, or mixes types that
    Spark does not mix, and UnsupportedFeatureError if it calls a function that projseg does not
    know.
    """
    tree = parse_sql(text)
    return bind_tree(tree.this if isinstance(tree, exp.Alias) else tree, schema, timezone)


@kept_by_text
def bind_named(text: str, schema: pa.Schema, timezone: str = "UTC") -> NamedExpression:
    """Return the canonical expression and its name: the alias, else the name Spark gives it.

    Raises the errors of `bind`.
    """
    return bind_named_tree(parse_sql(text), schema, timezone)


def bind_named_tree(tree: exp.Expression, schema: pa.Schema, timezone: str) -> NamedExpression:
    """Return the canonical expression of a tree made by `dialect.parse_sql`, and its name.

    Raises the errors of `bind`.
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

    Raises the errors of `bind`.
    """
    with room_to_recurse():
        expression = canonical(Binder(schema, zone_name(timezone)).bind(tree))
    check_depth(expression)
    return expression


def spark_name(tree: exp.Expression) -> str:
    """Return the column name of an expression: `year(t)`, `(a + b)`, `date_trunc(HOUR, t)`."""
    if isinstance(tree, exp.Cast) and isinstance(tree.this, exp.Column):
        return str(tree.this.name)
    return str(tree.name) if isinstance(tree, exp.Column) else composed_name(tree)


def composed_name(tree: exp.Expression) -> str:
    """Return the column name of an expression over aggregates, which keeps a cast's type."""
    if type(tree) in _INFIX:
        text = f"({composed_name(tree.this)} {_INFIX[type(tree)]} {composed_name(tree.expression)})"
        return f"(NOT {text})" if isinstance(tree, _NEGATED) else text
    write = _WRITERS.get(type(tree))
    return write(tree) if write else str(tree.sql(dialect="spark"))


def _cast(tree: exp.Cast) -> str:
    """Return the column name of a cast.

    A literal such as `1L`, which sqlglot parses as a cast, is named `1`, as in Spark.
    """
    if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
        return str(tree.this.this)
    function = "TRY_CAST" if tree.args.get("safe") else "CAST"
    return f"{function}({composed_name(tree.this)} AS {tree.to.sql(dialect='spark')})"


def _negative(tree: exp.Neg) -> str:
    name = composed_name(tree.this)
    return f"-{name}" if name[:1].isdigit() else f"(- {name})"


def _dot(tree: exp.Dot) -> str:
    is_window = isinstance(tree.this, exp.Anonymous)
    return f"{str(tree.this.this).lower()}.{tree.expression.name}" if is_window else tree.name


def _call(tree: exp.Anonymous) -> str:
    function = str(tree.this).lower()
    if function == "log":
        base = "" if len(tree.expressions) > 1 else "E(), "
        return f"LOG({base}{_list(tree.expressions)})"
    added = _DEFAULTS.get((function, len(tree.expressions)), ())
    return f"{function}({', '.join([*map(composed_name, tree.expressions), *added])})"


def _rounded(function: str, tree: exp.Expression) -> str:
    if tree.args.get("decimals") is None:
        return f"{function.upper()}({composed_name(tree.this)})"
    return f"{function}({_parts(tree, 'this', 'decimals')})"


def _like(tree: exp.Like) -> str:
    text = f"{composed_name(tree.this)} LIKE {composed_name(tree.expression)}"
    return f"(NOT {text})" if tree.args.get("negate") else text


def _parts(tree: exp.Expression, *names: str) -> str:
    return _list([tree.args[name] for name in names if tree.args.get(name) is not None])


def _case(tree: exp.Case) -> str:
    parts = ["CASE"]
    for branch in tree.args["ifs"]:
        condition = composed_name(branch.this)
        if tree.this is not None:
            condition = f"({composed_name(tree.this)} = {condition})"
        parts.append(f"WHEN {condition} THEN {composed_name(branch.args['true'])}")
    if tree.args.get("default") is not None:
        parts.append(f"ELSE {composed_name(tree.args['default'])}")
    return " ".join([*parts, "END"])


def _list(trees: list[exp.Expression]) -> str:
    return ", ".join(composed_name(tree) for tree in trees)


_WRITERS: Final[dict[type[exp.Expression], Callable[[Any], str]]] = {
    exp.Paren: lambda tree: composed_name(tree.this),
    exp.Literal: lambda tree: str(tree.this),
    exp.Column: lambda tree: ".".join(part.name for part in tree.parts),
    exp.Anonymous: _call,
    exp.Array: lambda tree: f"array({_list(tree.expressions)})",
    exp.Bracket: lambda tree: f"{composed_name(tree.this)}[{_list(tree.expressions)}]",
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Neg: _negative,
    exp.Not: lambda tree: f"(NOT {composed_name(tree.this)})",
    exp.Is: lambda tree: f"({composed_name(tree.this)} IS {composed_name(tree.expression)})",
    exp.In: lambda tree: f"({composed_name(tree.this)} IN ({_list(tree.expressions)}))",
    exp.Between: lambda tree: f"between({_parts(tree, 'this', 'low', 'high')})",
    exp.Boolean: lambda tree: "true" if tree.this else "false",
    exp.Floor: lambda tree: _rounded("floor", tree),
    exp.Ceil: lambda tree: _rounded("ceil", tree),
    exp.Extract: lambda tree: (
        f"extract({tree.this.name.lower()} FROM {composed_name(tree.expression)})"
    ),
    exp.If: lambda tree: f"(IF({_parts(tree, 'this', 'true', 'false')}))",
    exp.Case: _case,
    exp.DPipe: lambda tree: f"concat({_list([tree.this, tree.expression])})",
    exp.Substring: lambda tree: f"substring({_parts(tree, 'this', 'start', 'length')})",
    exp.RegexpLike: lambda tree: f"RLIKE({_parts(tree, 'this', 'expression')})",
    exp.Trim: lambda tree: f"trim({_parts(tree, 'expression', 'this')})",
    exp.Dot: _dot,
    exp.Like: _like,
}

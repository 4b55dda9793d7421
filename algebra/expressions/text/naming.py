"""The name that Spark gives to an output column whose expression has no alias."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlglot import exp

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
}
_DEFAULTS: Final = {
    ("split", 2): ("-1",),
    ("regexp_extract", 2): ("1",),
    ("bround", 1): ("0",),
    ("from_unixtime", 1): ("yyyy-MM-dd HH:mm:ss",),
}
"""From a function and how many arguments are written to those that Spark adds."""
_NEGATED: Final = (exp.NEQ, exp.NullSafeNEQ)


def spark_name(tree: exp.Expression) -> str:
    """Return the column name of an expression: `year(t)`, `(a + b)`, `date_trunc(HOUR, t)`."""
    if isinstance(tree, exp.Cast) and isinstance(tree.this, exp.Column):
        return str(tree.this.name)
    return str(tree.name) if isinstance(tree, exp.Column) else _name(tree)


def composed_name(tree: exp.Expression) -> str:
    """Return the column name of an expression over aggregates, which keeps a cast's type."""
    return _name(tree)


def _name(tree: exp.Expression) -> str:
    if type(tree) in _INFIX:
        text = f"({_name(tree.this)} {_INFIX[type(tree)]} {_name(tree.expression)})"
        return f"(NOT {text})" if isinstance(tree, _NEGATED) else text
    write = _WRITERS.get(type(tree))
    return write(tree) if write else str(tree.sql(dialect="spark"))


def _cast(tree: exp.Cast) -> str:
    """Name a cast; sqlglot reads 1L as a cast of 1, and Spark names it 1."""
    if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
        return str(tree.this.this)
    function = "TRY_CAST" if tree.args.get("safe") else "CAST"
    return f"{function}({_name(tree.this)} AS {tree.to.sql(dialect='spark')})"


def _negative(tree: exp.Neg) -> str:
    name = _name(tree.this)
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
    return f"{function}({', '.join([*map(_name, tree.expressions), *added])})"


def _rounded(function: str, tree: exp.Expression) -> str:
    if tree.args.get("decimals") is None:
        return f"{function.upper()}({_name(tree.this)})"
    return f"{function}({_parts(tree, 'this', 'decimals')})"


def _bracket(tree: exp.Bracket) -> str:
    return f"{_name(tree.this)}[{_list(tree.expressions)}]"


def _like(tree: exp.Like) -> str:
    text = f"{_name(tree.this)} LIKE {_name(tree.expression)}"
    return f"(NOT {text})" if tree.args.get("negate") else text


def _parts(tree: exp.Expression, *names: str) -> str:
    return _list([tree.args[name] for name in names if tree.args.get(name) is not None])


def _case(tree: exp.Case) -> str:
    parts = ["CASE"]
    for branch in tree.args["ifs"]:
        condition = _name(branch.this)
        if tree.this is not None:
            condition = f"({_name(tree.this)} = {condition})"
        parts.append(f"WHEN {condition} THEN {_name(branch.args['true'])}")
    if tree.args.get("default") is not None:
        parts.append(f"ELSE {_name(tree.args['default'])}")
    return " ".join([*parts, "END"])


def _list(trees: list[exp.Expression]) -> str:
    return ", ".join(_name(tree) for tree in trees)


_WRITERS: Final[dict[type[exp.Expression], Callable[[Any], str]]] = {
    exp.Paren: lambda tree: _name(tree.this),
    exp.Literal: lambda tree: str(tree.this),
    exp.RawString: lambda tree: str(tree.this),
    exp.Column: lambda tree: ".".join(part.name for part in tree.parts),
    exp.Anonymous: _call,
    exp.Bracket: _bracket,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Neg: _negative,
    exp.Not: lambda tree: f"(NOT {_name(tree.this)})",
    exp.Is: lambda tree: f"({_name(tree.this)} IS {_name(tree.expression)})",
    exp.In: lambda tree: f"({_name(tree.this)} IN ({_list(tree.expressions)}))",
    exp.Between: lambda tree: f"between({_parts(tree, 'this', 'low', 'high')})",
    exp.Boolean: lambda tree: "true" if tree.this else "false",
    exp.Floor: lambda tree: _rounded("floor", tree),
    exp.Ceil: lambda tree: _rounded("ceil", tree),
    exp.Extract: lambda tree: f"extract({tree.this.name.lower()} FROM {_name(tree.expression)})",
    exp.If: lambda tree: f"(IF({_parts(tree, 'this', 'true', 'false')}))",
    exp.Case: _case,
    exp.DPipe: lambda tree: f"concat({_list([tree.this, tree.expression])})",
    exp.Substring: lambda tree: f"substring({_parts(tree, 'this', 'start', 'length')})",
    exp.RegexpLike: lambda tree: f"RLIKE({_parts(tree, 'this', 'expression')})",
    exp.Trim: lambda tree: f"trim({_parts(tree, 'expression', 'this')})",
    exp.Dot: _dot,
    exp.Like: _like,
}

"""Expressions of DuckDB's SQL that have the same meaning in ours, and our text of each.

`EQUAL_FORMS` and `AGGREGATE_FORMS` are the whole list, from which a page is made. Each form is
proved by drawn statements that both engines answer; what is on no list is DuckDB's own work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.sql_words import backquoted
from projseg.doors.duckdb_scope import (
    FRACTION,
    WHOLE,
    Scope,
    Written,
    argument_family,
    coerced,
    different,
    family_of,
    is_instant,
    only,
    quoted,
    time_text,
)

_UNITS: Final = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_OF_DATES: Final[tuple[str, ...]] = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY")
_FIELDS: Final = (*_OF_DATES, "HOUR", "MINUTE")

Writer: TypeAlias = Callable[["Translation", Any], "Written"]


class EqualForm(NamedTuple):
    """A form of an expression that has one meaning in both engines, and where it has.

    `nodes` has the types of trees that sqlglot reads it as, and what writes our text of each.
    """

    form: str
    over: str
    nodes: Mapping[type[exp.Expression], Writer]


class Translation:
    """Expressions of one SELECT in our SQL; DifferentMeaningError for one that is not listed."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.used_arguments: set[str] = set()

    def value(self, node: exp.Expression) -> Written:
        """Return an expression over rows."""
        return _written(_VALUES, self, node)

    def aggregate(self, node: exp.Expression) -> str:
        """Return an aggregate."""
        if isinstance(node, exp.Filter):
            only(node, "this", "expression")
            condition = self.condition(node.expression.this)
            return f"{self.aggregate(node.this)} FILTER (WHERE {condition})"
        return _written(_AGGREGATES, self, node).text

    def condition(self, node: exp.Expression) -> str:
        """Return an expression that is true, false or null."""
        found = self.value(node)
        if found.family != "boolean":
            raise different(node, "is no condition")
        return found.text

    def stored(self, node: exp.Expression, *families: str) -> Written:
        """Return an expression over columns, of one of some families."""
        found = self.value(node)
        if found.family not in families or found.is_constant:
            raise different(node, f"is not of {' or '.join(families)}")
        return found

    def need_utc(self, node: exp.Expression) -> None:
        """Refuse what depends on the session's time zone, if that is not UTC."""
        if not self.scope.session.is_utc:
            raise different(node, "depends on the session's TimeZone, which is not UTC")

    def alike(self, nodes: Iterable[exp.Expression]) -> tuple[list[str], Written]:
        """Return expressions, of one family, that are compared, and one that has their type."""
        every = list(nodes)
        values = [self.value(node) for node in every]
        typed = [value for value in values if not value.is_constant]
        if not typed:
            raise different(every[0], "is compared with no column")
        first = typed[0]
        for value in typed:
            is_same = value.type == first.type or value.family == first.family == "integer"
            if not is_same or value.family == "other":
                raise different(every[0], "is compared with another type")
        written = {value.family for value in values if value.is_constant} - {"null"}
        if first.family == "instant" and not all(map(is_instant, values)):
            self.need_utc(every[0])
        if len(written) > 1 and first.family in ("double", "decimal"):
            raise different(every[0], "is compared with constants of several types")
        return [coerced(value, first) for value in values], first


def _written(
    writers: Mapping[type[exp.Expression], Writer], translation: Translation, node: Any
) -> Written:
    write = writers.get(type(node))
    if write is None:
        raise different(node, "is not on the list of equal meanings")
    return write(translation, node)


# ---- constants and columns


def _column(translation: Translation, node: exp.Column) -> Written:
    found = translation.scope.resolved(node)
    if found is None:
        raise different(node, "is no column of the table")
    alias, name = found
    kind = translation.scope.schemas[alias].field(name).type
    text = f"{translation.scope.names[alias]}.{backquoted(name)}"
    return Written(text, family_of(kind), kind)


def _constant(_: Translation, node: exp.Literal) -> Written:
    text = str(node.this)
    if node.is_string:
        return Written(text, "text")
    if WHOLE.fullmatch(text):
        return Written(text, "integer")
    if FRACTION.fullmatch(text) and any(map(str.isdigit, text)):
        return Written(text, "double" if "e" in text.lower() else "decimal")
    raise different(node, "is a number of many digits")


def _negative(translation: Translation, node: exp.Neg) -> Written:
    value = translation.value(node.this)
    if not value.is_constant or value.is_parameter or not value.text[:1].isdigit():
        raise different(node, "is no plain number")
    return Written(f"-{value.text}", value.family)


def _parameter(translation: Translation, node: exp.Placeholder) -> Written:
    name = str(node.this)
    if name not in translation.scope.session.arguments:
        raise different(node, "is given no value")
    value = translation.scope.session.arguments[name]
    family = argument_family(value)
    if family is None:
        raise different(node, f"is a {type(value).__name__}")
    translation.used_arguments.add(name)
    return Written(f":{name}", family, is_parameter=True)


def _boolean(_: Translation, node: exp.Boolean) -> Written:
    return Written("TRUE" if node.this else "FALSE", "boolean")


def _null(_: Translation, node: exp.Null) -> Written:
    return Written("NULL", "null")


def _cast(translation: Translation, node: exp.Cast) -> Written:
    only(node, "this", "to", "type")
    target = node.to.sql("duckdb").upper()
    kinds = {
        "DATE": "date",
        "TIMESTAMPTZ": "instant",
        "TIMESTAMP WITH TIME ZONE": "instant",
        "TIMESTAMP": "wall clock",
    }
    kind = kinds.get(target)
    if kind is None:
        raise different(node, "is another cast than to a date or a time")
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        time_text(node.this.name, kind)
        return Written(node.this.name, kind)
    if kind != "date":
        raise different(node, "is a cast of a column to a time")
    value = translation.stored(node.this, "date", "instant")
    if value.family == "instant":
        translation.need_utc(node)
    return Written(f"CAST({value.text} AS DATE)", "date", pa.date32())


# ---- conditions


def _bracketed(translation: Translation, node: exp.Paren) -> Written:
    value = translation.value(node.this)
    return value if value.is_constant else value._replace(text=f"({value.text})")


def _comparison(translation: Translation, node: Any) -> Written:
    only(node, "this", "expression")
    (left, right), _ = translation.alike([node.this, node.expression])
    return _true(f"({left} {_COMPARED[type(node)]} {right})")


def _distinct(translation: Translation, node: exp.NullSafeNEQ) -> Written:
    only(node, "this", "expression")
    (left, right), _ = translation.alike([node.this, node.expression])
    return _true(f"(NOT ({left} <=> {right}))")


def _in_list(translation: Translation, node: exp.In) -> Written:
    only(node, "this", "expressions", "negate")
    (value, *listed), _ = translation.alike([node.this, *node.expressions])
    negated = "NOT " if node.args.get("negate") else ""
    return _true(f"({value} {negated}IN ({', '.join(listed)}))")


def _between(translation: Translation, node: exp.Between) -> Written:
    only(node, "this", "low", "high", "negate")
    bounds = [node.args["low"], node.args["high"]]
    (value, low, high), _ = translation.alike([node.this, *bounds])
    negated = "NOT " if node.args.get("negate") else ""
    return _true(f"({value} {negated}BETWEEN {low} AND {high})")


def _like(translation: Translation, node: exp.Like) -> Written:
    only(node, "this", "expression", "negate")
    value = translation.stored(node.this, "text")
    pattern = translation.value(node.expression)
    if pattern.family != "text" or not pattern.is_constant or pattern.is_parameter:
        raise different(node, "has no pattern between quotes")
    negated = "NOT " if node.args.get("negate") else ""
    return _true(f"({value.text} {negated}LIKE {quoted(pattern.text)})")


def _is(translation: Translation, node: exp.Is) -> Written:
    only(node, "this", "expression", "negate")
    value = translation.value(node.this)
    if value.is_constant:
        raise different(node, "asks of a constant")
    right = node.expression
    if isinstance(right, exp.Boolean) and value.family == "boolean":
        asked = "TRUE" if right.this else "FALSE"
    elif isinstance(right, exp.Null):
        asked = "NULL"
    else:
        raise different(node, "asks for another value")
    negated = "NOT " if node.args.get("negate") else ""
    return _true(f"({value.text} IS {negated}{asked})")


def _connected(translation: Translation, node: Any) -> Written:
    word = "AND" if isinstance(node, exp.And) else "OR"
    # A chain of a thousand is a tree as deep; its links are read in a loop.
    parts: list[exp.Expression] = []
    waiting: list[exp.Expression] = [node]
    while waiting:
        one = waiting.pop()
        if type(one) is type(node):
            waiting += [one.expression, one.this]
        else:
            parts.append(one)
    return _true("(" + f" {word} ".join(map(translation.condition, parts)) + ")")


def _negation(translation: Translation, node: exp.Not) -> Written:
    return _true(f"(NOT {translation.condition(node.this)})")


def _true(text: str) -> Written:
    return Written(text, "boolean", pa.bool_())


# ---- values


def _case(translation: Translation, node: exp.Case) -> Written:
    only(node, "this", "ifs", "default")
    whens = []
    for branch in node.args["ifs"]:
        if node.this is None:
            whens.append(translation.condition(branch.this))
        else:
            (left, right), _ = translation.alike([node.this, branch.this])
            whens.append(f"{left} = {right}")
    otherwise = node.args.get("default") or exp.Null()
    thens = [branch.args["true"] for branch in node.args["ifs"]]
    texts, kind = _chosen(translation, [*thens, otherwise])
    pairs = zip(whens, texts, strict=False)
    written = " ".join(f"WHEN {when} THEN {then}" for when, then in pairs)
    return Written(f"(CASE {written} ELSE {texts[-1]} END)", kind.family, kind.type)


def _coalesce(translation: Translation, node: exp.Coalesce) -> Written:
    only(node, "this", "expressions")
    texts, kind = _chosen(translation, [node.this, *node.expressions])
    return Written(f"coalesce({', '.join(texts)})", kind.family, kind.type)


def _chosen(translation: Translation, nodes: Sequence[exp.Expression]) -> tuple[list[str], Written]:
    """Return the values to choose from, and one that has their common type."""
    values = [translation.value(node) for node in nodes]
    if all(value.family in ("integer", "null") and value.is_constant for value in values):
        if all(abs(int(value.text)) < 2**31 for value in values if value.family == "integer"):
            return [value.text for value in values], Written("", "integer", pa.int32())
        raise different(nodes[0], "is beyond the other constants' type")
    if all(value.family in ("text", "null") and value.is_constant for value in values):
        texts = [value.text if value.family == "null" else quoted(value.text) for value in values]
        return texts, Written("", "text", pa.string())
    texts, kind = translation.alike(nodes)
    types = {value.type for value in values if not value.is_constant}
    # Integers of several types are compared and added up, and are no part of arithmetic.
    return texts, kind if len(types) == 1 else kind._replace(type=pa.int16())


def _arithmetic(translation: Translation, node: Any) -> Written:
    only(node, "this", "expression")
    (left, right), _ = translation.alike([node.this, node.expression])
    values = [translation.value(node.this), translation.value(node.expression)]
    for value in values:
        is_wide = value.type in (pa.int32(), pa.int64())
        is_small = value.is_constant and not value.is_parameter and value.family == "integer"
        if not (is_wide or (is_small and abs(int(value.text)) < 2**31)):
            raise different(node, "is arithmetic of others than INTEGER and BIGINT")
    if isinstance(node, exp.Mod) and not (values[1].is_constant and int(values[1].text) > 0):
        raise different(node, "is a remainder by no positive constant")
    kind = pa.int64() if pa.int64() in (values[0].type, values[1].type) else pa.int32()
    return Written(f"({left} {_ARITHMETIC[type(node)]} {right})", "integer", kind)


def _truncated(translation: Translation, node: exp.Expression) -> Written:
    only(node, "this", "unit")
    unit = node.args["unit"].name.upper()
    if unit not in _UNITS:
        raise different(node, f"is cut to {unit}")
    value = translation.stored(node.this, "instant", "wall clock")
    if value.family == "instant":
        translation.need_utc(node)
    text = f"date_trunc('{unit}', {value.text})"
    if value.family == "wall clock":
        text = f"CAST({text} AS TIMESTAMP_NTZ)"
    return value._replace(text=text)


def _extracted(translation: Translation, node: exp.Extract) -> Written:
    only(node, "this", "expression")
    return _field(translation, node, node.name, node.expression)


def _field_by_name(translation: Translation, node: exp.Expression) -> Written:
    only(node, "this")
    return _field(translation, node, _FIELD_CALLS[type(node)], node.this)


def _called(translation: Translation, node: exp.Anonymous) -> Written:
    arguments, name = node.expressions, node.name.upper()
    if name in _FIELD_NAMES and len(arguments) == 1:
        return _field(translation, node, name, arguments[0])
    is_part = name in ("DATE_PART", "DATEPART") and len(arguments) == 2
    if is_part and isinstance(arguments[0], exp.Literal) and arguments[0].is_string:
        return _field(translation, node, arguments[0].name, arguments[1])
    raise different(node, "is not on the list of equal meanings")


def _field(
    translation: Translation, node: exp.Expression, field: str, operand: exp.Expression
) -> Written:
    value = translation.stored(operand, "instant", "wall clock", "date")
    if value.family == "instant":
        translation.need_utc(node)
    known = _OF_DATES if value.family == "date" else _FIELDS
    if field.upper() not in known:
        raise different(node, f"is field {field} of a {value.family}")
    return Written(f"extract({field.upper()} FROM {value.text})", "integer", pa.int32())


# ---- aggregates


def _count(translation: Translation, node: exp.Count) -> Written:
    only(node, "this", "big_int")
    counted = node.this
    if isinstance(counted, exp.Star):
        return _answer("count(*)")
    if isinstance(counted, exp.Distinct):
        only(counted, "expressions")
        (single, *others) = counted.expressions
        if others:
            raise different(node, "counts several columns")
        value = translation.stored(
            single, "integer", "decimal", "text", "boolean", "date", "instant", "wall clock"
        )
        return _answer(f"count(DISTINCT {value.text})")
    value = translation.value(counted)
    if value.is_constant and not value.is_parameter and value.family == "integer":
        return _answer("count(*)")
    if value.is_constant:
        raise different(node, "counts a constant")
    return _answer(f"count({value.text})")


def _sum(translation: Translation, node: exp.Sum) -> Written:
    only(node, "this")
    value = translation.stored(node.this, "integer", "decimal", "double")
    return _answer(f"sum({value.text})")


def _average(translation: Translation, node: exp.Avg) -> Written:
    only(node, "this")
    return _answer(f"avg({translation.stored(node.this, 'integer', 'double').text})")


def _extremum(translation: Translation, node: exp.Min | exp.Max) -> Written:
    only(node, "this")
    families = ("integer", "decimal", "double", "text", "boolean", "date", "instant", "wall clock")
    value = translation.stored(node.this, *families)
    return _answer(f"{'min' if isinstance(node, exp.Min) else 'max'}({value.text})")


def _every(translation: Translation, node: exp.Expression) -> Written:
    only(node, "this")
    name = "bool_and" if isinstance(node, exp.LogicalAnd) else "bool_or"
    return _answer(f"{name}({translation.condition(node.this)})")


def _answer(text: str) -> Written:
    return Written(text, "other")


_COMPARED: Final[dict[type[exp.Expression], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_ARITHMETIC: Final[dict[type[exp.Expression], str]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Mod: "%",
}
_FIELD_NAMES: Final = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE")
_FIELD_CALLS: Final[dict[type[exp.Expression], str]] = {
    getattr(exp, name.title()): name
    for name in _FIELD_NAMES
    if hasattr(exp, name.title())  # sqlglot 26 reads some as functions that it does not know
}

AGGREGATE_FORMS: Final = (
    EqualForm("count(*), count(x)", "any type", {exp.Count: _count}),
    EqualForm("count(DISTINCT x)", "all but floats and nested types", {}),
    EqualForm("sum(x)", "integers, decimals, DOUBLE", {exp.Sum: _sum}),
    EqualForm("avg(x)", "integers, DOUBLE", {exp.Avg: _average}),
    EqualForm(
        "min(x), max(x)", "all but REAL and nested types", {exp.Min: _extremum, exp.Max: _extremum}
    ),
    EqualForm(
        "bool_and(x), bool_or(x)", "conditions", {exp.LogicalAnd: _every, exp.LogicalOr: _every}
    ),
    EqualForm("... FILTER (WHERE ...)", "all of these", {}),
)
EQUAL_FORMS: Final = (
    EqualForm("x, t.x", "columns of all types", {exp.Column: _column}),
    EqualForm(
        "1, 1.5, 'text', true, NULL, $1, ?, $name",
        "of the type of what they are compared with; numbers beside DOUBLE and DECIMAL of at most "
        "15 digits; texts without backslashes and control characters",
        {
            exp.Literal: _constant,
            exp.Neg: _negative,
            exp.Boolean: _boolean,
            exp.Null: _null,
            exp.Placeholder: _parameter,
            exp.Paren: _bracketed,
        },
    ),
    EqualForm(
        "=, <>, <, <=, >, >=, IS [NOT] DISTINCT FROM",
        "two values of one type, or of two types of integers; DECIMAL of at most 18 digits beside "
        "a constant; not REAL",
        {**dict.fromkeys(_COMPARED, _comparison), exp.NullSafeNEQ: _distinct},
    ),
    EqualForm(
        "[NOT] IN (...), [NOT] BETWEEN", "the same", {exp.In: _in_list, exp.Between: _between}
    ),
    EqualForm("x [NOT] LIKE 'a%'", "texts, without ESCAPE", {exp.Like: _like}),
    EqualForm("IS [NOT] NULL, TRUE, FALSE", "all types; conditions", {exp.Is: _is}),
    EqualForm(
        "AND, OR, NOT", "conditions", {exp.And: _connected, exp.Or: _connected, exp.Not: _negation}
    ),
    EqualForm(
        "CASE, coalesce",
        "types that comparisons take; where all are constants, integers and texts",
        {exp.Case: _case, exp.Coalesce: _coalesce},
    ),
    EqualForm(
        "+, -, *, %",
        "INTEGER, BIGINT and constants; % by a positive constant",
        dict.fromkeys(_ARITHMETIC, _arithmetic),
    ),
    EqualForm(
        "date_trunc('unit', x)",
        f"TIMESTAMPTZ, TIMESTAMP; {', '.join(_UNITS).lower()}",
        {exp.TimestampTrunc: _truncated, exp.DateTrunc: _truncated},
    ),
    EqualForm(
        "extract(field FROM x), date_part('field', x), year(x), quarter(x), month(x), day(x), "
        "hour(x), minute(x)",
        f"TIMESTAMPTZ, TIMESTAMP, DATE; {', '.join(_FIELDS).lower()}",
        {
            exp.Extract: _extracted,
            exp.Anonymous: _called,
            **dict.fromkeys(_FIELD_CALLS, _field_by_name),
        },
    ),
    EqualForm(
        "CAST(x AS DATE), x::DATE, DATE '...', TIMESTAMP '...', TIMESTAMPTZ '...'",
        "TIMESTAMPTZ, DATE, and dates and times between quotes as ISO 8601 writes them",
        {exp.Cast: _cast},
    ),
)
"""All that is answered from projections; everything else stays DuckDB's work."""
_AGGREGATES: Final = {node: write for one in AGGREGATE_FORMS for node, write in one.nodes.items()}
_VALUES: Final = {node: write for one in EQUAL_FORMS for node, write in one.nodes.items()}
AGGREGATE_NODES: Final = (*_AGGREGATES, exp.AggFunc)
"""What sqlglot reads an aggregate as, listed or not."""

"""The key under which plans are cached: equal only for queries with equal answers.

Constants written in a filter become parameters, so that texts that differ in them are one text.
Patterns find them, because parsing is what the key spares; a tree proves each form of text once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.argument_values import ArgumentValue
from projseg.algebra.expressions.binder_names import may_depend_on_instant
from projseg.algebra.expressions.dialect import ParsedText, parse_sql
from projseg.algebra.expressions.sql_parameters import Arguments, parameter_names
from projseg.algebra.expressions.tree import Literal, integer_literal
from projseg.algebra.query.request import Query, arguments_of, output_texts
from projseg.algebra.time.interval import Interval
from projseg.errors import ProjsegError

_Constants: TypeAlias = Sequence[tuple[str, str]]
"""Constants as they are written, and what stands before each."""

_PREFIX: Final = "literal_"
_TEXTS_KEPT: Final = 1024
_CHARACTERS_MAX: Final = 10_000
_DIGITS_MAX: Final = 18
_DIGITS: Final = re.compile("[0-9]+")
_TEXT_OR_DIGITS: Final = re.compile("'[^']*'|[0-9]+")
_QUOTED_NAME: Final = re.compile(r"(?<!`)`[^\W\d]\w*`(?!`)")
# With these a text is more than names, operators and plain constants.
_OTHER: Final = re.compile(rf"[\"`?;]|--|/\*|{_PREFIX}", re.IGNORECASE)
# In samples each text is 'a' and each number 1.
_NUMBER: Final = r"1(?![\w.])"
_WHOLE_NUMBERS: Final = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
}
_CAST: Final = "|".join(
    rf"(?P<{name}>\bcast\s*\(\s*-?1\s+as\s+{name}\s*\))" for name in _WHOLE_NUMBERS
)
_SCAN: Final = re.compile(
    r"(?P<texts>\bin\s*\(\s*'a'(?:\s*,\s*'a')*\s*\))"
    rf"|(?P<numbers>\bin\s*\(\s*-?{_NUMBER}(?:\s*,\s*-?{_NUMBER})*\s*\))"
    r"|(?P<typed>\b(?:timestamp_ntz|timestamp|date)\s*'a')"
    rf"|{_CAST}"
    r"|(?P<text>'a')"
    rf"|(?<![\w.])(?P<number>{_NUMBER})"
    rf"|(?<=[=<>])\s*(?P<negative>-{_NUMBER})"
    r"|\w+'a'|[\w.]+",
    re.IGNORECASE,
)
_CONSTANT: Final = re.compile(r"'a'|1")
_PARAMETER: Final = re.compile(rf":{_PREFIX}([a-z]+)_\d+")
_SAMPLES: Final[dict[str, _Constants]] = {
    "text": [("'a'", "")],
    "typed": [("'a'", "")],
    "number": [("1", "")],
    "negative": [("1", "-")],
    "texts": [("'a'", ""), ("'b'", "")],
    "numbers": [("1", "-"), ("2", "")],
    **{name: [("1", "")] for name in _WHOLE_NUMBERS},
}
_COMPARING: Final = (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between)


class Meaning(NamedTuple):
    """What queries have in common only if they mean the same of any table.

    `outputs` says all but the rows that are asked for, `rows` the filter and the interval.
    """

    outputs: str
    rows: str
    arguments: Arguments | None

    @property
    def byte_count(self) -> int:
        """About how much memory it takes."""
        text_count = len(self.outputs) + len(self.rows)
        return text_count + (0 if self.arguments is None else self.arguments.byte_count)


def meaning_of(query: Query) -> Meaning:
    """Return what tells a query from others.

    A query that may depend on the present time means something else each time it runs.
    """
    interval: Any = query.interval
    if interval is not None and not isinstance(interval, str | Interval):
        # Datetimes have zones of any kind, and the table's time column says whose clock counts.
        zones = ("UTC", query.query_context.zone)
        interval = [Interval.parse(interval, zone) for zone in zones]
    rows = repr((query.filter, interval))
    return Meaning(repr(_output_parts(query)), rows, arguments_of(query))


def meaning_of_outputs(query: Query) -> Meaning:
    """Return what tells a query, whose parameters all have names, from others but for its rows.

    Queries that differ in filter, interval and the values in the filter have it in common.
    """
    given = arguments_of(query)
    if given is not None:
        names = frozenset[str]().union(*map(parameter_names, output_texts(query)))
        given = given.only(names)
    return Meaning(repr(_output_parts(query)), "", given)


def depends_on_instant(query: Query) -> bool:
    """Whether a query may call `now()` or the like."""
    texts = (*output_texts(query), query.filter)
    return any(may_depend_on_instant(text) for text in texts if text is not None)


def _output_parts(query: Query) -> tuple[object, ...]:
    lists = (query.group_by, query.aggregators, query.order_by, query.columns)
    others = (query.having, query.limit, query.granularity, query.aggregation, query.context)
    return (*lists, *others, *((join, join.version) for join in query.joins))


class Lifted(NamedTuple):
    """A filter with parameters for some of its constants, and their values by name.

    `tree` has parameters for all of them, and `written` those that are none.
    """

    text: str
    values: dict[str, ArgumentValue]
    tree: exp.Expression
    written: dict[str, _Constants]

    def parsed(self) -> ParsedText:
        """Return the filter with its tree."""
        return ParsedText(self.text, _filled(self.tree, self.written))


class _Place(NamedTuple):
    """A constant, or a list of them, that may be a parameter.

    `pieces` are written around its constants; `first` is the first of these among all of the text.
    """

    name: str
    parameter: str
    pieces: tuple[str, ...]
    first: int

    @property
    def kind(self) -> str:
        return self.name.split("_")[1]


class _Shape(NamedTuple):
    """A text without its constants: their places, and the texts before, between and after them."""

    places: tuple[_Place, ...]
    between: tuple[tuple[str, ...], ...]


def lifted_literals(text: str, written: frozenset[str] = frozenset()) -> Lifted | None:
    """Return a filter whose constants that stand beside a column are parameters.

    The text means the same with these values. None if there are no such constants, or the text has
    comments, escapes or names in quotes that need them.
    """
    if len(text) > _CHARACTERS_MAX or "\\" in text:
        return None
    quoted = text.split("'")
    outside = "''".join(quoted[::2])
    if len(quoted) % 2 == 0 or _OTHER.search(_QUOTED_NAME.sub("a", outside)) is not None:
        return None
    shape = _shape(tuple(_DIGITS.split(outside)))
    if not shape.places:
        return None
    constants = (_TEXT_OR_DIGITS if len(quoted) > 1 else _DIGITS).findall(text)
    found = _written(shape, constants, None)
    parsed = _beside_columns(found)
    kept = frozenset[str]() if parsed is None else parsed[0] - written
    values = _values_of(shape, constants, kept)
    if parsed is None or not values:
        return None
    others: dict[str, _Constants] = {
        place.name: list(zip(constants[place.first :], place.pieces[:-1], strict=False))
        for place in shape.places
        if place.name not in kept
    }
    if others:
        found = _written(shape, constants, kept)
    return Lifted(found, values, parsed[1], others)


def _written(shape: _Shape, constants: list[str], kept: frozenset[str] | None) -> str:
    """Return the text with parameters at some places, or at all."""
    parts: list[str] = []
    done = 0
    for place, before in zip((*shape.places, None), shape.between, strict=True):
        done = _with_constants(parts, before, constants, done)
        if place is None:
            break
        if kept is None or place.name in kept:
            parts.append(place.parameter)
            done += len(place.pieces) - 1
        else:
            done = _with_constants(parts, place.pieces, constants, done)
    return "".join(parts)


def _with_constants(
    parts: list[str], pieces: tuple[str, ...], constants: list[str], done: int
) -> int:
    parts.append(pieces[0])
    for piece in pieces[1:]:
        parts += (constants[done], piece)
        done += 1
    return done


def _values_of(
    shape: _Shape, constants: list[str], kept: frozenset[str]
) -> dict[str, ArgumentValue] | None:
    """Return the values of places by name; None if one has no value of its type."""
    values: dict[str, ArgumentValue] = {}
    for place in shape.places:
        if place.name not in kept:
            continue
        own = constants[place.first : place.first + len(place.pieces) - 1]
        is_long = any(one[0] != "'" and len(one) > _DIGITS_MAX for one in own)
        value = None if is_long else _value(place, own)
        if value is None:
            return None
        values[place.name] = value
    return values


def _value(place: _Place, own: list[str]) -> ArgumentValue | None:
    """Return the value of a place; None for a number that is not of the type it is cast to."""
    if (kind := _WHOLE_NUMBERS.get(place.kind)) is not None:
        number = -int(own[0]) if place.pieces[0].endswith("-") else int(own[0])
        most = 1 << (kind.bit_width - 1)
        return Literal(kind, number) if -most <= number < most else None
    if place.kind == "negative":
        return integer_literal(-int(own[0]))
    if place.kind not in ("texts", "numbers"):
        return _constant(own[0], "")
    return tuple(map(_constant, own, place.pieces))


def _constant(written: str, before: str) -> Literal:
    if written[0] == "'":
        return Literal(pa.string(), written[1:-1])
    return integer_literal(-int(written) if before.endswith("-") else int(written))


@lru_cache(maxsize=_TEXTS_KEPT)
def _shape(outside: tuple[str, ...]) -> _Shape:
    """Return where a text has constants, given the pieces between its numbers; `''` is a text."""
    sample = "1".join(outside).replace("''", "'a'")
    places: list[_Place] = []
    between: list[tuple[str, ...]] = []
    done = count = 0
    for match in _SCAN.finditer(sample):
        kind = match.lastgroup
        if kind is None:
            continue
        start, end = match.span(kind)
        before = tuple(_CONSTANT.split(sample[done:start]))
        count += len(before) - 1
        name = f"{_PREFIX}{kind}_{len(places)}"
        pieces = tuple(_CONSTANT.split(match[kind]))
        parameter = f"IN (:{name})" if kind in ("texts", "numbers") else f":{name}"
        if kind == "typed":
            parameter = f"CAST(:{name} AS {pieces[0].strip()})"
        places.append(_Place(name, parameter, pieces, count))
        between.append(before)
        count += len(pieces) - 1
        done = end
    between.append(tuple(_CONSTANT.split(sample[done:])))
    return _Shape(tuple(places), tuple(between))


@lru_cache(maxsize=_TEXTS_KEPT)
def _beside_columns(text: str) -> tuple[frozenset[str], exp.Expression] | None:
    """Return the parameters that are compared with a column, and the tree.

    The text with parameters must have the tree of the text with constants: a constant may belong
    to the one beside it, or be no constant at all. None if it has another.
    """
    try:
        tree = parse_sql(text)
        written = parse_sql(_PARAMETER.sub(_sample_of, text))
    except ProjsegError:
        return None
    own = [one for one in tree.find_all(exp.Placeholder) if one.name.startswith(_PREFIX)]
    samples = {one.name: _SAMPLES[one.name.split("_")[1]] for one in own}
    if _filled(tree, samples) != written:
        return None
    return frozenset(one.name for one in own if _is_beside_column(one)), tree


def _sample_of(parameter: re.Match[str]) -> str:
    kind = parameter[1]
    text = ", ".join(before + constant for constant, before in _SAMPLES[kind])
    return f"CAST({text} AS {kind})" if kind in _WHOLE_NUMBERS else text


def _filled(tree: exp.Expression, constants: Mapping[str, _Constants]) -> exp.Expression:
    """Return a tree with constants for some of its parameters."""
    if not constants:
        return tree
    found = exp.Paren(this=tree.copy())
    for parameter in list(found.find_all(exp.Placeholder)):
        kind = parameter.name.split("_")[-2:][0]
        nodes = [_node(kind, *one) for one in constants.get(parameter.name, ())]
        if len(nodes) > 1 and parameter.parent is not None:
            parameter.parent.set("expressions", nodes)
        elif nodes:
            parameter.replace(nodes[0])
    inner: exp.Expression = found.this
    inner.parent = None
    return inner


def _node(kind: str, written: str, before: str) -> exp.Expression:
    """Return the tree of a constant."""
    if written[0] == "'":
        return exp.Literal.string(written[1:-1])
    number: exp.Expression = exp.Literal.number(written)
    number = exp.Neg(this=number) if before.endswith("-") else number
    if kind not in _WHOLE_NUMBERS:
        return number
    found = parse_sql(f"CAST(1 AS {kind})").copy()
    found.set("this", number)
    return found


def _is_beside_column(parameter: exp.Placeholder) -> bool:
    inner: Any = parameter
    if isinstance(inner.parent, exp.Cast):
        inner = inner.parent
    comparison: Any = inner.parent
    if not isinstance(comparison, _COMPARING) or comparison.args.get("symmetric"):
        return False
    other = comparison.this if inner is not comparison.this else comparison.expression
    return isinstance(other, exp.Column)

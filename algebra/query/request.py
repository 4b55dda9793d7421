"""`Query`: a query as a value, which every entry point accepts and JSON can hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from projseg.algebra.expressions.argument_texts import (
    arguments_from_json,
    arguments_to_json,
)
from projseg.algebra.expressions.dialect import split_list
from projseg.algebra.expressions.sql_parameters import (
    Arguments,
    ArgumentsLike,
    check_arguments,
    parameters,
)
from projseg.algebra.query.context import QueryContext, context_options, parse_context
from projseg.algebra.query.join import Join, join_content, join_of_content, with_texts
from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError, did_you_mean

Expressions: TypeAlias = str | Sequence[str]
IntervalLike: TypeAlias = str | Interval | Sequence[datetime | date | str]

_VERSION_KEY: Final = "projseg_query"
_VERSION: Final = 1


@dataclass(frozen=True)
class Query:
    """A query, before it is bound to a table.

    A list may be given as one SQL text separated by commas; it is kept as a tuple.

    Parameters
    ----------
    group_by : str or sequence of str
        Spark SQL expressions, `expression [AS name]`; `ROLLUP(a, b)`, `CUBE(a, b)` and
        `GROUPING SETS ((a, b), (a), ())`, which are multiplied with what stands beside them.
    aggregators : str or sequence of str
        Aggregates, `sum(added) FILTER (WHERE ...) AS added`, and expressions over aggregates and
        grouping columns, `sum(added) / count(*) AS mean`. Without these and without `group_by` and
        `granularity` the query is a row scan of `columns`.
    filter : str or None
        Condition on rows; only those where it is true count.
    interval : str, Interval, pair of datetimes or None
        Half-open range of the time column.
    having : str or None
        Condition on groups, over the output's columns and over aggregates.
    order_by : str or sequence of str
        Order, over the output's columns and aggregates: `expression [ASC|DESC]
        [NULLS FIRST|LAST]`.
    limit : int or None
        The most rows to return.
    columns : str or sequence of str, or None
        Expressions that a row scan returns; None means all columns.
    context : mapping or None
        As in `Table.query`.
    args : mapping of str to value, sequence of values, or None
        What `:name` or `?` in the texts stands for, as in `Table.query`. Positions are counted
        through the texts in this order: `group_by`, `aggregators`, `columns`, `filter`, `having`,
        `order_by`, `joins`.
    granularity : str or None
        A Druid name or ISO period: adds the floored time as the first grouping column.
    joins : sequence of Join
        Dimensions, whose columns all texts may name as `name.column`.
    aggregation : str
        `final`: one row for each group; `partial`: the states of groups, to be merged.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_QUERY, PROJSEG_UNKNOWN_CONTEXT_KEY, PROJSEG_BAD_CONTEXT_VALUE or
        PROJSEG_BAD_ARGUMENT. Texts are bound to the table, and checked, only when the query is run.
    """

    group_by: Expressions = ()
    aggregators: Expressions = ()
    filter: str | None = None
    interval: IntervalLike | None = None
    having: str | None = None
    order_by: Expressions = ()
    limit: int | None = None
    columns: Expressions | None = None
    context: Mapping[str, Any] | None = None
    args: ArgumentsLike | None = None
    granularity: str | None = field(default=None, kw_only=True)
    joins: Sequence[Join] = field(default=(), kw_only=True)
    aggregation: str = field(default="final", kw_only=True)

    def __post_init__(self) -> None:
        for name in ("group_by", "aggregators", "order_by", "columns"):
            object.__setattr__(self, name, _texts(name, getattr(self, name)))
        for name in ("filter", "having", "granularity"):
            require_text(name, getattr(self, name))
        if isinstance(self.interval, list):
            object.__setattr__(self, "interval", tuple(self.interval))
        object.__setattr__(self, "context", context_options(parse_context(self.context)))
        object.__setattr__(self, "args", Arguments.of(self.args))
        object.__setattr__(self, "joins", _joins(self.joins))
        if self.aggregation not in ("final", "partial"):
            raise _bad(f"aggregation is {self.aggregation!r}; it is 'final' or 'partial'")

    @property
    def is_row_scan(self) -> bool:
        """Whether base rows themselves are asked for."""
        return not (self.group_by or self.aggregators or self.granularity)

    @property
    def is_partial(self) -> bool:
        """Whether states are asked for instead of final values."""
        return self.aggregation == "partial"

    @property
    def query_context(self) -> QueryContext:
        """The parsed context."""
        return parse_context(self.context)

    def __hash__(self) -> int:
        return hash(self.to_json())

    def in_zone(self, zone: str) -> Query:
        """Return the same query in a time zone.

        Parameters
        ----------
        zone : str
            An offset or a region's name.

        Returns
        -------
        Query
            A query whose context has `timezone`.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TIME_ZONE.
        """
        return replace(self, context={**(self.context or {}), "timezone": zone})

    def __str__(self) -> str:
        """Return the query as one line that reads like SQL."""
        outputs = [*self.group_by, *self.aggregators] or self.columns or ["*"]
        clauses = {
            "SELECT": ", ".join(outputs),
            "FROM it": " ".join(map(str, self.joins)),
            "WHERE": self.filter,
            "DURING": _interval_text(self.interval),
            "EACH": self.granularity,
            "GROUP BY": ", ".join(self.group_by),
            "HAVING": self.having,
            "ORDER BY": ", ".join(self.order_by),
            "LIMIT": self.limit,
        }
        return " ".join(
            f"{word} {text}" for word, text in clauses.items() if text not in (None, "")
        )

    def to_json(self) -> str:
        """Return the query as JSON text, without fields that were left out.

        Returns
        -------
        str
            An object: `projseg_query`, the version of the form, then the fields of this class.
        """
        content: dict[str, Any] = {_VERSION_KEY: _VERSION}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name == "interval":
                value = _interval_text(self.interval)
            elif isinstance(value, Arguments):
                value = arguments_to_json(value)
            elif one.name == "joins":
                value = tuple(join_content(join) for join in self.joins)
            if value not in (None, {}) and value != one.default:
                content[one.name] = value
        return json.dumps(content, ensure_ascii=False)

    @staticmethod
    def from_json(text: str | bytes) -> Query:
        """Return the query that a JSON text holds.

        Parameters
        ----------
        text : str or bytes
            JSON as `to_json` makes it; fields that are absent have their defaults.

        Returns
        -------
        Query
            A query equal to the one that was written.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_QUERY if the text is not such an object, has unknown fields or a value of
            the wrong type; else as `Query` does.
        """
        try:
            content = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise _bad(f"text is not JSON: {error}; write it as Query.to_json does") from error
        version = content.pop(_VERSION_KEY, None) if isinstance(content, dict) else None
        if version is True or version != _VERSION:
            raise _bad(f"JSON must be an object with '{_VERSION_KEY}': {_VERSION}")
        for name in content:
            if name not in _FIELD_TYPES:
                known = did_you_mean(name, _FIELD_TYPES)
                raise _bad(f"JSON has an unknown field '{name}'{known}")
            _check_type(name, content[name])
        if content.get("args") is not None:
            content["args"] = arguments_from_json(content["args"])
        if content.get("joins") is not None:
            content["joins"] = tuple(map(join_of_content, content["joins"]))
        return Query(**content)


def arguments_of(query: Query) -> Arguments | None:
    """Return the values of a query's parameters."""
    return Arguments.of(query.args)


def texts_of(query: Query) -> tuple[str | None, ...]:
    """Return the SQL texts of a query, in the order in which `?` is counted."""
    outputs = (*query.group_by, *query.aggregators, *(query.columns or ()))
    return (*outputs, query.filter, query.having, *query.order_by, *_join_texts(query))


def _join_texts(query: Query) -> tuple[str | None, ...]:
    """Return the SQL texts of a query's joins."""
    return tuple(text for join in query.joins for text in (join.on, join.where))


def output_texts(query: Query) -> tuple[str | None, ...]:
    """Return the SQL texts of a query but for its filter."""
    outputs = (*query.group_by, *query.aggregators, *(query.columns or ()))
    return (*outputs, query.having, *query.order_by, *_join_texts(query))


def with_named_parameters(query: Query) -> Query:
    """Return the same query, in whose texts a number stands for each `?`."""
    found = parameters(texts_of(query))
    check_arguments(found, arguments_of(query))
    if not found.positions:
        return query
    rest = iter(found.texts)
    numbered: dict[str, Any] = {
        name: None if texts is None else tuple(islice(rest, len(texts)))
        for name in ("group_by", "aggregators", "columns")
        for texts in [getattr(query, name)]
    }
    numbered |= {"filter": next(rest), "having": next(rest)}
    numbered["order_by"] = tuple(islice(rest, len(query.order_by)))
    numbered["joins"] = tuple(
        with_texts(join, next(rest) or "", next(rest)) for join in query.joins
    )
    return replace(query, **numbered)


_FIELD_TYPES: Final[dict[str, Any]] = {
    "group_by": list[str] | str,
    "aggregators": list[str] | str,
    "filter": str | None,
    "interval": str | None,
    "having": str | None,
    "order_by": list[str] | str,
    "limit": int | None,
    "columns": list[str] | str | None,
    "context": dict[str, Any] | None,
    "args": dict[str, Any] | list[Any] | None,
    "granularity": str | None,
    "aggregation": str,
    "joins": list[dict[str, Any]] | None,
}


def _interval_text(interval: IntervalLike | None) -> str | None:
    """Return an interval as text that means the same."""
    if interval is None or isinstance(interval, str | Interval):
        return None if interval is None else str(interval)
    return "/".join(part if isinstance(part, str) else part.isoformat() for part in interval)


def _check_type(name: str, value: object) -> None:
    try:
        msgspec.convert(value, _FIELD_TYPES[name])
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise _bad(f"{name} is {value!r}: {error}") from error


def require_text(name: str, text: object) -> None:
    """Refuse a part of a query that is given and is not a text."""
    if text is not None and not isinstance(text, str):
        raise _bad(f"{name} takes a text, found {text!r}")


def _texts(name: str, value: Expressions | None) -> tuple[str, ...] | None:
    if value is None:
        return None if name == "columns" else ()
    if isinstance(value, str):
        return tuple(split_list(value))
    texts = tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(text, str) for text in texts):
        raise _bad(f"{name} takes SQL texts, found {value!r}")
    return texts


def _joins(value: object) -> tuple[Join, ...]:
    joins = tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(join, Join) for join in joins):
        raise _bad(f"joins takes a projseg.Join or several, found {value!r}")
    return joins


def _bad(problem: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_QUERY", f"a query's {problem}")

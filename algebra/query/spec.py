"""A query bound to a table: its keys, aggregates, filters and order as typed expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.call import AggregateCall, bind_aggregate, result_type
from projseg.algebra.aggregates.decompose import decompose
from projseg.algebra.aggregates.mergeable import MergeableAggregate, mergeable
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.bind import NamedExpression, bind, bind_named
from projseg.algebra.expressions.functions.time_floor import time_floor
from projseg.algebra.expressions.predicates import conjunction, conjuncts
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.query.context import QueryContext
from projseg.algebra.query.output_references import Outputs
from projseg.algebra.query.request import IntervalLike, Query
from projseg.algebra.query.result_order import OrderTerm, bind_order, check_limit, is_ordinal
from projseg.algebra.query.time_bounds import interval_conditions, split_time_bounds
from projseg.algebra.time.granularity import Granularity
from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError
from projseg.memory.lazy import cached_property
from projseg.segment_format.types import is_nested, type_name


class QuerySpec(msgspec.Struct, frozen=True, dict=True):
    """A bound query. With neither keys nor aggregates it is a row scan of `columns`.

    Parameters
    ----------
    keys : tuple of NamedExpression
        Expressions to group by, over base columns; the first output columns.
    aggregates : tuple of AggregateCall
        Aggregates to compute for each group; the output columns after the keys.
    filter : Expression or None
        Rows where it is not true are left out; bounds on time are in `interval`.
    interval : Interval or None
        Rows whose time is outside, or null, are left out.
    having : Expression or None
        Groups where it is not true are left out; over output columns.
    order_by : tuple of OrderTerm
        Order of the result, over output columns.
    limit : int or None
        The most rows to return.
    columns : tuple of NamedExpression
        Outputs of a row scan.
    time_column : str or None
        The table's time column.
    time_type : pa.DataType or None
        Its type.
    context : QueryContext
        How it is to be run.
    is_partial : bool
        Whether states of the groups are asked for instead of final values.
    """

    keys: tuple[NamedExpression, ...] = ()
    aggregates: tuple[AggregateCall, ...] = ()
    filter: Expression | None = None
    interval: Interval | None = None
    having: Expression | None = None
    order_by: tuple[OrderTerm, ...] = ()
    limit: int | None = None
    columns: tuple[NamedExpression, ...] = ()
    time_column: str | None = None
    time_type: pa.DataType | None = None
    context: QueryContext = msgspec.field(default_factory=QueryContext)
    is_partial: bool = False

    @property
    def is_row_scan(self) -> bool:
        """Whether base rows themselves are asked for."""
        return not self.keys and not self.aggregates

    @property
    def is_divisible(self) -> bool:
        """Whether the answer is the rows of several tasks, each over some of the segments."""
        if self.is_row_scan:
            return self.limit is None and not self.order_by
        return self.is_partial

    @cached_property
    def primitives(self) -> tuple[Primitive, ...]:
        """The primitives of the aggregates, each once, in order."""
        found = {p.text: p for call in self.aggregates for p in decompose(call)}
        return tuple(found.values())

    @cached_property
    def conditions(self) -> tuple[Expression, ...]:
        """The conjuncts of the filter."""
        return conjuncts(self.filter)

    @cached_property
    def expressions(self) -> tuple[Expression, ...]:
        """Every expression over base columns."""
        found = [named.expression for named in (*self.keys, *self.columns)]
        found += [argument for primitive in self.primitives for argument in primitive.arguments]
        found += [c for primitive in self.primitives for c in conjuncts(primitive.filter)]
        return (*found, *self.conditions)

    @cached_property
    def columns_read(self) -> tuple[Column, ...]:
        """Base columns that the answer depends on, apart from the interval's."""
        found = (node for expression in self.expressions for node in expression.walk())
        return tuple(dict.fromkeys(node for node in found if isinstance(node, Column)))

    @cached_property
    def bounds(self) -> tuple[Expression, ...]:
        """The interval as conditions on the time column."""
        if self.interval is None or self.time_type is None or self.time_column is None:
            return ()
        return interval_conditions(self.interval, Column(self.time_type, self.time_column))

    @cached_property
    def mergeable(self) -> tuple[MergeableAggregate, ...]:
        """For a partial answer, each aggregate's states and how they are merged.

        Raises
        ------
        UnsupportedFeatureError
            PROJSEG_NOT_MERGEABLE if states cannot be merged exactly outside projseg.
        """
        return tuple(map(mergeable, self.aggregates))

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Names and types of the result's columns."""
        outputs = [(named.name, named.expression.type) for named in (*self.keys, *self.columns)]
        if self.is_partial:
            outputs += [(s.name, s.type) for one in self.mergeable for s in one.states]
        else:
            outputs += [(call.name, result_type(call)) for call in self.aggregates]
        return _checked_schema(outputs)


def bind_query(schema: pa.Schema, time_column: str | None, query: Query) -> QuerySpec:
    """Return a query bound to the columns of a table.

    Parameters
    ----------
    schema : pa.Schema
        The base table's columns.
    time_column : str or None
        Its time column, to which `interval` and `granularity` apply.
    query : Query
        The query to bind.

    Raises
    ------
    InvalidInputError
        If a text cannot be bound, or two outputs have the same name.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FUNCTION; PROJSEG_NOT_MERGEABLE for a partial query.
    """
    context = query.query_context
    zone = context.zone
    _check_no_ordinals(query.group_by)
    keys = tuple(bind_named(text, schema, timezone=zone) for text in query.group_by)
    keys = _time_key(schema, time_column, query.granularity, zone) + keys
    aggregates = tuple(
        bind_aggregate(text, schema, timezone=zone, time_column=time_column)
        for text in query.aggregators
    )
    is_row_scan = not keys and not aggregates
    scanned = _scanned(schema, query.columns, zone, is_row_scan=is_row_scan)
    _check_keys(keys)
    bound = QuerySpec(
        keys=keys,
        aggregates=aggregates,
        columns=scanned,
        limit=check_limit(query.limit),
        time_column=time_column,
        time_type=None if time_column is None else schema.field(time_column).type,
        context=context,
        is_partial=query.is_partial,
    )
    if query.is_partial:
        _check_partial(query, is_row_scan=is_row_scan)
    outputs = Outputs(bound.output_schema, (*keys, *scanned), aggregates, schema, time_column, zone)
    bounds, rest = split_time_bounds(_filter(query.filter, schema, zone), time_column, schema)
    within = _interval(query.interval, time_column, zone if _is_instant(bound.time_type) else "UTC")
    return replace(
        bound,
        filter=conjunction(rest),
        interval=_intersect(within, bounds),
        having=_having(query.having, outputs, is_row_scan=is_row_scan),
        order_by=bind_order(query.order_by, outputs),
    )


def _refuse(problem: str) -> NoReturn:
    raise InvalidInputError("PROJSEG_BAD_QUERY", problem)


def _check_partial(query: Query, *, is_row_scan: bool) -> None:
    if is_row_scan:
        _refuse("aggregation is 'partial' and nothing is aggregated; leave it out to read rows")
    for name in ("having", "order_by", "limit"):
        if getattr(query, name) not in (None, ()):
            _refuse(f"{name} needs final values, and aggregation is 'partial'; leave one out")


def _check_no_ordinals(texts: Sequence[str]) -> None:
    for text in texts:
        if is_ordinal(text):
            _refuse(
                f"group_by has '{text.strip()}', which is a position in SQL and names nothing "
                "here; give the expression to group by"
            )


def _is_instant(type_: pa.DataType | None) -> bool:
    """Whether values of a type are instants, which clocks show differently in each zone.

    A date or a timestamp_ntz is a clock's reading, whatever the zone.
    """
    return type_ is not None and pa.types.is_timestamp(type_) and type_.tz is not None


def _time_key(
    schema: pa.Schema, time_column: str | None, granularity: str | None, zone: str
) -> tuple[NamedExpression, ...]:
    if granularity is None:
        return ()
    parsed = Granularity.parse(granularity, zone)
    if parsed.is_all:
        return ()
    if time_column is None:
        _refuse(f"granularity '{granularity}' needs a time column, and the table has none")
    column = Column(schema.field(time_column).type, time_column)
    if parsed.is_none:
        return (NamedExpression(time_column, column),)
    if not _is_instant(column.type):
        parsed = Granularity.parse(granularity)
    return (NamedExpression(time_column, time_floor(column, parsed)),)


def _scanned(
    schema: pa.Schema, columns: Sequence[str] | None, zone: str, *, is_row_scan: bool
) -> tuple[NamedExpression, ...]:
    if not is_row_scan:
        if columns:
            _refuse("columns is for row scans; with group_by or aggregators the outputs are theirs")
        return ()
    if columns is not None and tuple(columns) != ("*",):
        if not columns:
            _refuse("columns is empty; leave it out to read all columns")
        return tuple(bind_named(text, schema, timezone=zone) for text in columns)
    return tuple(NamedExpression(name, Column(type_, name)) for name, type_ in _fields(schema))


def _fields(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(one.name, one.type) for one in schema]


def _check_keys(keys: tuple[NamedExpression, ...]) -> None:
    for named in keys:
        if is_nested(named.expression.type):
            _refuse(
                f"cannot group by '{named.name}': its type is {type_name(named.expression.type)}"
            )


def _checked_schema(outputs: Sequence[tuple[str, pa.DataType]]) -> pa.Schema:
    names = [name for name, _ in outputs]
    for name in names:
        if names.count(name) > 1:
            _refuse(f"two outputs are named '{name}'; give one another alias with AS")
    return pa.schema(outputs)


def _filter(text: str | None, schema: pa.Schema, zone: str) -> Expression | None:
    if text is None or not text.strip():
        return None
    return _boolean("filter", text, bind(text, schema, timezone=zone))


def _having(text: str | None, outputs: Outputs, *, is_row_scan: bool) -> Expression | None:
    if text is None or not text.strip():
        return None
    if is_row_scan:
        _refuse("having is for groups; use filter for a row scan")
    return _boolean("having", text, outputs.bind(text))


def _boolean(what: str, text: str, condition: Expression) -> Expression:
    if not pa.types.is_boolean(condition.type):
        _refuse(f"{what} '{text}' is of type {type_name(condition.type)}; it must be boolean")
    return condition


def _interval(interval: IntervalLike | None, time_column: str | None, zone: str) -> Interval | None:
    if interval is None:
        return None
    if time_column is None:
        _refuse(f"interval {interval} needs a time column, and the table has none")
    return interval if isinstance(interval, Interval) else Interval.parse(interval, zone)


def _intersect(one: Interval | None, other: Interval | None) -> Interval | None:
    if one is None or other is None:
        return one or other
    return one.intersect(other) or Interval(one.start_us, one.start_us)

"""From a query's texts over a table's columns to the bound query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import NoReturn

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.aggregate_rewrites import with_filter
from projseg.algebra.aggregates.expression import bind_group_output
from projseg.algebra.aggregates.group_by import has_grouping_sets, parse_grouping
from projseg.algebra.aggregates.parse_aggregate import refusing_aggregates
from projseg.algebra.expressions.bind import NamedExpression, bind, bind_named
from projseg.algebra.expressions.binder_names import fixed_instant
from projseg.algebra.expressions.canonical import conjunction
from projseg.algebra.expressions.functions.time.time_floor import time_floor
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_parameters import bound_to, refuse_alone
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.proofs.predicate_truth import intersection, split_time_bounds
from projseg.algebra.query.bound_query import (
    Outputs,
    QuerySpec,
    bind_order,
    check_limit,
    is_ordinal,
)
from projseg.algebra.query.request import (
    IntervalLike,
    Query,
    arguments_of,
    with_named_parameters,
)
from projseg.algebra.time.interval import Interval
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import InvalidInputError
from projseg.segment_format.logical_types import is_nested, type_name


def bind_query(
    schema: pa.Schema, time_column: str | None, query: Query, *, has_instant: bool = True
) -> QuerySpec:
    """Return a query bound to the columns of a table.

    Without `has_instant`, its texts may not call `now()`: a query that is bound several times, as
    the condition of a change is, would mean something else each time.
    """
    query = with_named_parameters(query)
    with fixed_instant() if has_instant else nullcontext():
        bound = bind_outputs(schema, time_column, query)
        return bind_rows(bound, schema, query)


def bind_outputs(schema: pa.Schema, time_column: str | None, query: Query) -> QuerySpec:
    """Return a query bound but for its filter and interval, as if it asked for all rows."""
    with bound_to(arguments_of(query)):
        return _outputs(schema, time_column, query)


def bind_rows(bound: QuerySpec, schema: pa.Schema, query: Query) -> QuerySpec:
    """Return what `bind_outputs` made of a query, among the rows that the query asks for."""
    zone, time_column = bound.context.zone, bound.time_column
    with bound_to(arguments_of(query)):
        condition = _filter(query.filter, schema, zone)
    return rows_where(bound, condition, schema, bind_interval(query, schema, time_column))


def rows_where(
    bound: QuerySpec, condition: Expression | None, schema: pa.Schema, within: Interval | None
) -> QuerySpec:
    """Return a query of the rows, of an interval or all times, for which a condition is true."""
    bounds, rest = split_time_bounds(condition, bound.time_column, schema)
    return bound.among(conjunction(rest), intersection(within, bounds))


def bind_interval(query: Query, schema: pa.Schema, time_column: str | None) -> Interval | None:
    """Return the interval of a query, of the time column as a table stores it; None: all times."""
    time_type = None if time_column is None else schema.field(time_column).type
    zone = query.query_context.zone if _is_instant(time_type) else "UTC"
    return _interval(query.interval, time_column, zone)


def _outputs(schema: pa.Schema, time_column: str | None, query: Query) -> QuerySpec:
    context = query.query_context
    zone = context.zone
    time_key = _time_key(schema, time_column, query.granularity, zone)
    keys, sets = _grouped_by(query.group_by, time_key, schema, zone)
    found = [
        bind_group_output(
            text,
            schema,
            keys=keys,
            timezone=zone,
            time_column=time_column,
            has_sets=sets is not None,
        )
        for text in query.aggregators
    ]
    calls = {call.name: call for output in found for call in output.calls}
    is_row_scan = not keys and not found
    scanned = _scanned(schema, query.columns, zone, is_row_scan=is_row_scan)
    _check_keys(keys)
    bound = QuerySpec(
        keys=keys,
        grouping_sets=sets,
        aggregates=tuple(map(with_filter, calls.values())),
        outputs=tuple(NamedExpression(output.name, output.expression) for output in found),
        columns=scanned,
        limit=check_limit(query.limit),
        time_column=time_column,
        time_type=None if time_column is None else schema.field(time_column).type,
        context=context,
        is_partial=query.is_partial,
    )
    if query.is_partial:
        _check_partial(query, is_row_scan=is_row_scan)
    _check_names(bound.output_schema.names)
    outputs = Outputs(
        (*keys, *scanned),
        bound.outputs,
        calls,
        base=schema,
        time_column=time_column,
        timezone=zone,
        is_row_scan=is_row_scan,
        has_sets=sets is not None,
    )
    having = _having(query.having, outputs, is_row_scan=is_row_scan)
    order_by = bind_order(query.order_by, outputs)
    if found and not keys and not outputs.calls:
        _refuse(
            f"'{query.aggregators[0]}' groups nothing and has no aggregate; put it into columns"
        )
    return replace(
        bound,
        aggregates=tuple(map(with_filter, outputs.calls.values())),
        having=having,
        order_by=order_by,
    )


def _refuse(problem: str) -> NoReturn:
    raise InvalidInputError("PROJSEG_BAD_QUERY", problem)


def _check_partial(query: Query, *, is_row_scan: bool) -> None:
    if is_row_scan:
        _refuse("aggregation is 'partial' and nothing is aggregated; leave it out to read rows")
    if has_grouping_sets(query.group_by):
        _refuse("aggregation is 'partial', and grouping sets need final values; ask for one set")
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


def _grouped_by(
    texts: Sequence[str], time_key: tuple[NamedExpression, ...], schema: pa.Schema, zone: str
) -> tuple[tuple[NamedExpression, ...], tuple[tuple[int, ...], ...] | None]:
    """Return the keys, and the grouping sets if they are of several; each has the time."""
    grouping = parse_grouping(texts)
    _check_no_ordinals(grouping.texts)
    named = (*time_key, *(_grouping_column(text, schema, zone) for text in grouping.texts))
    if grouping.sets is None:
        return named, None
    keys = {key.expression: key for key in reversed(named)}
    keys = {key.expression: keys[key.expression] for key in named}
    position = {expression: number for number, expression in enumerate(keys)}
    times = tuple(range(len(time_key)))
    written = [position[key.expression] for key in named[len(time_key) :]]
    sets = [dict.fromkeys((*times, *(written[one] for one in chosen))) for chosen in grouping.sets]
    return tuple(keys.values()), tuple(map(tuple, sets))


def _grouping_column(text: str, schema: pa.Schema, zone: str) -> NamedExpression:
    refuse_alone(text, "group_by")
    with refusing_aggregates("group_by", text, "put it into aggregators"):
        return bind_named(text, schema, timezone=zone)


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
        return tuple(bind_of_rows(text, schema, zone) for text in columns)
    return tuple(NamedExpression(name, Column(type_, name)) for name, type_ in _fields(schema))


def _fields(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(one.name, one.type) for one in schema]


def _check_keys(keys: tuple[NamedExpression, ...]) -> None:
    for named in keys:
        if is_nested(named.expression.type):
            found = type_name(named.expression.type)
            _refuse(
                f"cannot group by '{to_sql(named.expression)}': its type is {found}; group by a "
                "plain value, such as an item or a field of it"
            )


def bind_of_rows(text: str, schema: pa.Schema, zone: str, what: str = "column") -> NamedExpression:
    """Return an expression over rows; an aggregate in it is refused with what to do."""
    instead = "group by the other columns (GROUP BY in SQL), and ask for the aggregate of groups"
    with refusing_aggregates(what, text, instead):
        return bind_named(text, schema, timezone=zone)


def _check_names(names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            _refuse(f"two outputs are named '{name}'; give one another alias with AS")


def _filter(text: str | None, schema: pa.Schema, zone: str) -> Expression | None:
    if text is None or not text.strip():
        return None
    with refusing_aggregates(
        "filter", text, "conditions of groups are the having of a query (HAVING in SQL)"
    ):
        condition = bind(text, schema, timezone=zone)
    return _boolean("filter", text, condition)


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

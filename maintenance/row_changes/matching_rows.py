"""Which rows of a segment match a condition, and the rows of a segment as batches to be written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import structs
from numpy.typing import NDArray

from projseg.algebra.expressions.bind import NamedExpression
from projseg.algebra.expressions.functions.datum import TextsTooLargeError
from projseg.algebra.expressions.sql_parameters import (
    Arguments,
    ArgumentsLike,
    check_arguments,
    parameters,
)
from projseg.algebra.expressions.sql_words import backquoted, hide_literals
from projseg.algebra.expressions.tree import Column
from projseg.algebra.planning.source_plan import SourcePlan, columns_read
from projseg.algebra.proofs.index_keys import KeyTree
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.declared_columns import DeclaredColumns, bind_declared
from projseg.algebra.query.request import IntervalLike, Query, require_text, texts_of
from projseg.algebra.time.interval import Interval
from projseg.errors import EvaluationError, InvalidInputError
from projseg.evaluation.rows import RowIds, RowRange, Rows
from projseg.reader.declared_values import declared_columns_named
from projseg.reader.open_sources import cut, open_source, rows_at_a_time, rows_to_read
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan, plan_query
from projseg.reader.row_scan import Part, batches_of
from projseg.reader.segment_source import SegmentSource
from projseg.reader.selection import select_rows
from projseg.segment_format.format_limits import PAGE_ROWS_MAX
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.storage.storage_contract import Storage

_BATCH_ROWS: Final = 2 * PAGE_ROWS_MAX


class Condition(msgspec.Struct, frozen=True):
    """Which rows match: those in a half-open interval of the time column where a filter is true.

    The filter is Spark SQL and not empty, since a text that is empty by mistake would match all
    rows. `args` also has the parameters of expressions beside it; `declared` has the columns that
    the texts name, None for the table's.
    """

    filter: str | None = None
    interval: IntervalLike | None = None
    timezone: str = "UTC"
    args: Arguments | None = None
    declared: DeclaredColumns | None = None

    def __post_init__(self) -> None:
        require_text("filter", self.filter)
        if self.filter is not None and not self.filter.strip():
            raise InvalidInputError(
                "PROJSEG_BAD_QUERY",
                "the filter of a change is an empty text; leave it out to change all rows",
            )

    @property
    def parameters(self) -> dict[str, str | None]:
        """The condition as the table's history keeps it: without the values in the filter."""
        hidden = None if self.filter is None else hide_literals(self.filter)
        return {"filter": hidden, "interval": self._interval_text}

    def __str__(self) -> str:
        texts = (text for text in (self.filter, self._interval_text) if text is not None)
        return " and ".join(texts)

    @property
    def _interval_text(self) -> str | None:
        interval = self.interval
        if interval is not None and not isinstance(interval, Interval):
            interval = Interval.parse(interval, self.timezone)
        return None if interval is None else str(interval)


def condition_of(
    filter: str | None,
    interval: IntervalLike | None = None,
    timezone: str = "UTC",
    args: ArgumentsLike | None = None,
    declared: DeclaredColumns | None = None,
) -> Condition:
    """Return the condition of a change, with the values of its parameters."""
    return update_of({}, filter, interval, timezone, args, declared)[1]


def update_of(
    values: Mapping[str, str],
    filter: str | None,
    interval: IntervalLike | None = None,
    timezone: str = "UTC",
    args: ArgumentsLike | None = None,
    declared: DeclaredColumns | None = None,
) -> tuple[dict[str, str], Condition]:
    """Return the expressions and the condition of an update, whose parameters all have names."""
    require_text("filter", filter)
    if not isinstance(values, Mapping):
        raise InvalidInputError(
            "PROJSEG_BAD_QUERY",
            f"values of an update are a mapping of columns to expressions, not {values!r}"[:200],
        )
    for name, text in values.items():
        if not isinstance(text, str):
            raise InvalidInputError(
                "PROJSEG_BAD_QUERY",
                f"the new value of {name!r} is SQL as a text, such as '1' or 'NULL', not {text!r}"[
                    :200
                ],
            )
    found, arguments = parameters((*values.values(), filter)), Arguments.of(args)
    check_arguments(found, arguments)
    *texts, condition = found.texts
    assigned = {name: text or "" for name, text in zip(values, texts, strict=True)}
    return assigned, Condition(condition, interval, timezone, arguments, declared)


def planned(snapshot: Snapshot, condition: Condition, keys: KeyTree | None = None) -> QueryPlan:
    """Return the plan of a scan of all columns: the segments that may hold a matching row.

    Each of these rows has one of `keys`, so indexes may exclude segments.
    """
    return plan_query(snapshot, scanned(snapshot.properties, condition), keys=keys)


def scanned(
    properties: TableProperties, condition: Condition, values: Mapping[str, str] | None = None
) -> QuerySpec:
    """Return a scan of all columns."""
    given = values or {}
    schema, declared = properties.schema, condition.declared
    names = schema.names if declared is None else list(given)
    query = Query(
        columns=[f"{given.get(name, backquoted(name))} AS {backquoted(name)}" for name in names]
        or None,
        filter=condition.filter,
        interval=condition.interval,
        # Rows are known by their numbers among the base rows.
        context={"timezone": condition.timezone, "noProjections": True},
    )
    if condition.args is not None:
        names = parameters(texts_of(query)).names
        query = replace(query, args=condition.args.only(names))
    if declared is None:
        return bind_query(schema, properties.time_column, query, has_instant=False)
    spec = bind_declared(declared, schema, properties.time_column, query, has_instant=False)
    set_ones = {named.name: named for named in spec.columns} if given else {}
    own = (NamedExpression(field.name, Column(field.type, field.name)) for field in schema)
    return structs.replace(spec, columns=tuple(set_ones.get(one.name, one) for one in own))


def is_whole(segment: SegmentPlan) -> bool:
    """Whether metadata prove that every row of the segment matches."""
    plans = segment.choice.plans
    return len(plans) == 1 and plans[0].filter is None and plans[0].interval is None


def matched_rows(plan: QueryPlan, storage: Storage, segment: SegmentPlan) -> NDArray[np.bool_]:
    """Return which of a segment's rows match, bool[rows]; none that is deleted."""
    mask = np.zeros(segment.entry.row_count, np.bool_)
    for _, row_ids in matching_rows_of(plan, storage, segment):
        mask[row_ids] = True
    return mask


def matching_rows_of(
    plan: QueryPlan, storage: Storage, segment: SegmentPlan
) -> Iterator[tuple[SegmentSource, NDArray[np.uint32]]]:
    """Yield the matching base rows of a segment, with their source, without deleted rows."""
    for source_plan in segment.choice.plans:
        for row_range in _ranges(plan, storage, segment, source_plan):
            source = open_source(storage, segment.entry, source_plan, plan.schema)
            with declared_columns_named(storage, plan.query):
                rows = select_rows(
                    source,
                    row_range,
                    condition=source_plan.filter,
                    interval=source_plan.interval,
                    time_column=source_plan.time_column,
                    uses_postings=plan.query.context.uses_postings,
                ).compact()
            yield source, row_ids_of(rows)


def row_ids_of(rows: Rows) -> NDArray[np.uint32]:
    """Return the row ids of some rows of a segment, uint32[len(rows)]."""
    if isinstance(rows.selection, RowIds):
        return rows.selection.ids
    return np.arange(rows.selection.start, rows.selection.end, dtype=np.uint32)


def _ranges(
    plan: QueryPlan, storage: Storage, segment: SegmentPlan, source_plan: SourcePlan
) -> Iterator[RowRange]:
    source = open_source(storage, segment.entry, source_plan, plan.schema)
    rows = rows_to_read(segment.entry, source_plan)
    names, _ = columns_read(plan.query, source_plan)
    rows_max = rows_at_a_time(source, names)
    if rows_max is None:
        yield rows
    else:
        yield from cut(rows, rows_max, source, names)


def rows_as_batches(
    plan: QueryPlan, source: SegmentSource, row_ids: NDArray[np.uint32]
) -> Iterator[pa.RecordBatch]:
    """Yield a plan's columns of some rows of a segment, uint32[n] ascending, in their order."""
    rows_max = min(rows_at_a_time(source, plan.schema.names) or _BATCH_ROWS, _BATCH_ROWS)
    outputs = tuple(named.expression for named in plan.query.columns)
    for start in range(0, len(row_ids), rows_max):
        part = row_ids[start : start + rows_max]
        rows = Rows(source, RowIds(part))
        try:
            # A row of a table without rows would make one empty batch.
            yield from batches_of(plan, Part(rows, outputs))
        except EvaluationError as error:
            raise _named_error(plan, rows, error) from error


def _named_error(plan: QueryPlan, rows: Rows, error: EvaluationError) -> EvaluationError:
    """Return the error of a value that cannot be computed, with its column."""
    for named in plan.query.columns:
        try:
            Part(rows, (named.expression,)).vectors()
        except TextsTooLargeError:
            continue
        except EvaluationError as found:
            return EvaluationError(found.code, f"column '{named.name}': {found.message}")
    return error

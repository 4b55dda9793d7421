"""About how many groups a plan makes: whether grouping before a join leaves fewer rows to join."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.reader.plan.query_plan import QueryPlan
from projseg.reader.plan_figures import planned_reads
from projseg.table_layer.metadata.segment_entry import ColumnZone

GROUPS_SHARE_MAX: Final = 0.5
"""Groups before a join pay if they are at most this share of the rows of their segments."""


def is_reducing(plan: QueryPlan) -> bool:
    """Return whether a plan's groups are few enough, against the rows that they stand for."""
    return _estimated_groups(plan) <= GROUPS_SHARE_MAX * plan.row_count


def _estimated_groups(plan: QueryPlan) -> int:
    """Return about how many groups the sources of a plan give, each by itself.

    A source gives at most as many as it has rows, and as its key columns have different values
    between their bounds. Conditions that name values of a column (`=` and `IN`) keep as many of
    those rows as they name of its possible values, if values are about equally frequent.
    """
    zones = {segment.entry.file: plan.schema.zones(segment.entry) for segment in plan.segments}
    named = _values_named(plan.query.conditions)
    keys = {column for key in plan.query.keys for column in key.expression.columns}
    types = {field.name: field.type for field in plan.schema}
    total = 0
    for read in planned_reads(plan):
        spans = {
            name: _span(zones[read.segment].get(name), types[name]) for name in keys | set(named)
        }
        kept = {name: min(count, spans[name]) for name, count in named.items()}
        shares = (count / spans[name] for name, count in kept.items() if spans[name] < math.inf)
        rows = read.row_count * math.prod(shares)
        values = math.prod(kept.get(name, spans[name]) for name in keys)
        total += math.ceil(min(rows, values))
    return total


def _span(zone: ColumnZone | None, type_: pa.DataType) -> float:
    """Return how many values, null among them, a column of a segment has at most."""
    if zone is None:  # a column added later: null in all rows
        return 1.0
    is_whole = pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_boolean(type_)
    if is_whole and isinstance(zone.min, int) and isinstance(zone.max, int):
        return float(zone.max - zone.min + 1 + bool(zone.null_count))
    return math.inf


def _values_named(conditions: Iterable[Expression]) -> Mapping[str, int]:
    """Return how many values each column may have by conditions that list them."""
    named: dict[str, int] = {}
    for condition in conditions:
        if not isinstance(condition, Call) or condition.function not in ("=", "in"):
            continue
        column, *values = condition.arguments
        if isinstance(column, Column) and all(isinstance(one, Literal) for one in values):
            named[column.name] = min(len(values), named.get(column.name, len(values)))
    return named

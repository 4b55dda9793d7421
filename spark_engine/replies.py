"""Replies of the engine process: what all are made of; and those about queries and their plans.

A query's reply is an answer, or what tasks have to read and why.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_words import backquoted
from projseg.algebra.expressions.tree import Expression
from projseg.algebra.planning.call_work import saved_by_spark
from projseg.algebra.planning.source_cost import is_looked_up
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.request import Query
from projseg.errors import InvalidInputError, ProjsegError, UnsupportedFeatureError
from projseg.reader.answer import answer_without_views, segments_instead
from projseg.reader.plan.query_plan import QueryPlan, WiderSources, plan_asked, plan_query
from projseg.reader.plan_figures import (
    GROUPS_SHARE_MAX,
    is_reducing,
    plan_figures,
    planned_reads,
    returned_bytes,
)
from projseg.segment_format.logical_types import type_name
from projseg.spark_datasource.task_split import work_of_scan
from projseg.table import Table
from projseg.table_layer.commits.open_version import open_as_of
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.storage_contract import Storage

Reply = tuple[dict[str, Any], bytes]
"""JSON, and the bytes of an Arrow stream of rows, or none."""


_REFUSALS_SHOWN: Final = 8
_TASKS_START_NANOS: Final = 200_000_000
"""What starting tasks takes Spark, so that it must save more."""
_LITTLE_WORK_MAX: Final = 25_000_000
"""Nanoseconds of a scan that is not worth a task: starting one, in Python, takes as long."""
_PLANTED_VALUES_MAX: Final = 400_000
"""Values that the driver unpacks in the time that tasks, which share the work, take to start."""
_ROW_SENT_NANOS: Final = 1000
"""What sending a row to Spark takes, where its expressions are left to it."""


def arrow_stream(found: pa.Table) -> bytes:
    """Return rows as an Arrow stream, without metadata of the schema."""
    sink = pa.BufferOutputStream()
    plain = found.replace_schema_metadata(None)
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return bytes(sink.getvalue())


def rows(found: list[dict[str, Any]], schema: pa.Schema) -> Reply:
    """Return the reply of rows of a schema; what a row does not say is null."""
    return {}, arrow_stream(pa.Table.from_pylist(found, schema))


def columns_reply(found: pa.Table, names: Sequence[str]) -> Reply:
    """Return the reply of some columns of a metadata table, whose lists are shown as text."""
    columns = [found[name] for name in names]
    texts = [
        pc.fill_null(pc.binary_join(one, ", "), "") if pa.types.is_list(one.type) else one
        for one in columns
    ]
    return {}, arrow_stream(pa.table(texts, names=list(names)))


def properties_of(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return a row's values that are not null, as rows of `PROPERTIES`."""
    found = [(key, value) for key, value in row.items() if value is not None]
    return [{"property": key, "value": str(value)} for key, value in found]


def table_of(request: Mapping[str, Any]) -> Table:
    """Return the newest version of the table that a request names."""
    return Table(request["location"], storage_options=request.get("storage_options"))


def stored_types(snapshot: Snapshot) -> dict[str, str]:
    """Return the types of a table's columns, as their texts have them, by name."""
    return {field.name: type_name(field.type) for field in snapshot.properties.schema}


def with_rows(summary: dict[str, Any], rows: pa.Table | None, request: Mapping[str, Any]) -> Reply:
    """Return a summary, and rows if the driver should hold them: they may be more than was read."""
    is_small = (
        rows is not None
        and len(rows) <= request["max_rows"]
        and rows.nbytes <= request["max_bytes"]
    )
    content = arrow_stream(rows) if rows is not None and is_small else b""
    return {**summary, "answered": is_small}, content


def snapshot_of(request: Mapping[str, Any]) -> Snapshot:
    """Return the version of a table that a request names, or the newest."""
    return open_as_of(storage_of(request), request.get("version"))


def storage_of(request: Mapping[str, Any]) -> Storage:
    """Return the storage of the table that a request names, with its `storage_options` if any."""
    return open_storage(request["location"], request.get("storage_options"))


def query_of(request: Mapping[str, Any]) -> Query:
    """Return the query of a request."""
    query = Query.from_json(json.dumps(request["query"]))
    if query.query_context.timezone is None:
        raise InvalidInputError("PROJSEG_BAD_QUERY", "a query of the engine must name its timezone")
    return query


def bound_alone(snapshot: Snapshot, query: Query) -> QuerySpec:
    """Return a query of one table, bound to a version's columns."""
    properties = snapshot.properties
    return bind_query(properties.schema, properties.time_column, query)


def answered_rows(snapshot: Snapshot, plan: QueryPlan, summary: dict[str, Any]) -> pa.Table:
    """Return a plan's rows, of segments where a view cannot be read; note how long that took."""
    started = time.perf_counter()
    rows = answer_without_views(snapshot.storage, plan, partial(segments_instead, snapshot, plan))
    summary["milliseconds"] = (time.perf_counter() - started) * 1000
    return rows


def answered_groups(
    request: Mapping[str, Any],
    snapshot: Snapshot,
    query: Query,
    bound_of: Callable[[Query], QuerySpec],
) -> Reply:
    """Answer a query of groups if it is small enough, and else say how tasks share it."""
    wider = views_of(snapshot)
    plan = (
        plan_query(snapshot, bound_of(query), wider=wider)
        if query.joins
        else plan_asked(snapshot, query, wider=wider)
    )
    _leave_to_spark(plan)
    summary = _summary(snapshot, plan)
    summary["types"] = [type_name(field.type) for field in plan.query.output_schema]
    rows = (
        answered_rows(snapshot, plan, summary) if summary["bytes"] <= request["max_bytes"] else None
    )
    reply, content = with_rows(summary, rows, request)
    if not reply["answered"]:
        reply["merging"] = _merging(query, plan.query, bound_of)
    return reply, content


def _leave_to_spark(plan: QueryPlan) -> None:
    """Raise PROJSEG_EXPRESSION_COSTS if Spark's tasks compute expressions faster over base rows."""
    of_rows = [one for one in plan.query.expressions if not is_looked_up(one)]
    saved, dearest = saved_by_spark(of_rows)
    if dearest is None:
        return
    row_count = sum(read.row_count for read in planned_reads(plan) if read.source is None)
    if (saved - _ROW_SENT_NANOS) * row_count > _TASKS_START_NANOS:
        raise UnsupportedFeatureError(
            "PROJSEG_EXPRESSION_COSTS",
            f"{to_sql(dearest)} takes {saved:,.0f} ns a row more here than in Spark, "
            f"for {row_count:,} rows",
        )


def states_to_join(request: Mapping[str, Any]) -> Reply:
    """Give the states of groups that Spark is to join, if these are few against their rows.

    The request is as in `answered`; the query is partial. The reply has `reducing`, and if that is
    true: what is read (`_summary`), `types` of the columns, `states`, the names of those after the
    keys, `merging` as in `answered`, and `answered`, whether the rows come with it.
    """
    snapshot = snapshot_of(request)
    plan = plan_asked(snapshot, query_of(request), wider=views_of(snapshot))
    bound = plan.query
    merging = [{"name": one.name, "value": one.value} for one in bound.mergeable]
    if not is_reducing(plan):
        return {"reducing": False}, b""
    summary = {"reducing": True, **_summary(snapshot, plan)}
    summary["types"] = [type_name(field.type) for field in bound.output_schema]
    summary["states"] = bound.output_schema.names[len(bound.keys) :]
    summary["merging"] = merging
    rows = (
        answered_rows(snapshot, plan, summary) if summary["bytes"] <= request["max_bytes"] else None
    )
    if rows is not None and len(rows) > GROUPS_SHARE_MAX * plan.row_count:
        return {"reducing": False}, b""
    return with_rows(summary, rows, request)


def scanned(request: Mapping[str, Any]) -> Reply:
    """Return how rows are scanned: which conditions are applied, and what is read.

    The request has `location`, `version`, a `query` without filter and columns, names of `columns`,
    and `conditions`: each a `text` and the `columns` that it needs if it is not applied;
    `max_bytes` and `max_rows` as in `answered`. The reply is what is read (`_summary`),
    `returned_bytes`, the stored ones of the columns without those of conditions, `accepted`
    conditions by position, the `query`, and `answered`: if the query has a limit and all conditions
    are applied, a small answer comes with it; and so do few rows that are little work, if the
    request `plants`.
    """
    snapshot = snapshot_of(request)
    query = query_of(request)
    conditions = request["conditions"]
    known = [_condition_of(condition["text"], snapshot, query) for condition in conditions]
    dear = [one for one in known if one is not None and _is_dear(one)]
    accepted = [place for place, one in enumerate(known) if one is not None and one not in dear]
    needed = set(request["columns"])
    for position, condition in enumerate(conditions):
        needed |= set() if position in accepted else set(condition["columns"])
    fields = [field.name for field in snapshot.properties.schema]
    columns = [name for name in fields if name in needed] or fields[:1]
    query = replace(
        query,
        filter=" AND ".join(conditions[position]["text"] for position in accepted) or None,
        columns=[backquoted(name) for name in columns],
    )
    plan = plan_asked(snapshot, query)
    summary = _summary(snapshot, plan)
    summary |= {"accepted": accepted, "query": json.loads(query.to_json())}
    summary["returned_bytes"] = returned_bytes(plan)
    if dear:
        summary["plan"] += f"; not {', '.join(map(to_sql, dear))}: EXPRESSION_COSTS"
        summary["refused"] |= {"conditions": "EXPRESSION_COSTS"}
    is_whole = len(accepted) == len(conditions)
    # The first rows in stored order are found without reading the rest.
    is_cheap = not (conditions or query.order_by) or summary["bytes"] <= request["max_bytes"]
    if query.limit is None:
        most = min(request["max_rows"], _PLANTED_VALUES_MAX // len(columns))
        request = {**request, "max_rows": most}
        is_small = request.get("plants", False) and summary["bytes"] <= request["max_bytes"]
        is_answered = is_small and _is_little(plan) and (accepted or summary["rows"] <= most)
    else:
        is_answered = is_whole and is_cheap
    return with_rows(
        summary, answered_rows(snapshot, plan, summary) if is_answered else None, request
    )


def _is_little(plan: QueryPlan) -> bool:
    """Whether reading rows, and sending them, takes less than a task of Spark in any case."""
    return sum(work_of_scan(one).nanoseconds for one in plan.segments) <= _LITTLE_WORK_MAX


def views_of(snapshot: Snapshot) -> WiderSources | None:
    """Return a table's views, which answer groups."""
    if not snapshot.properties.has_views:
        return None
    # Imported here: most tables have no views.
    from projseg.views.choose_view import sources_of

    return sources_of(snapshot)


def _condition_of(text: str, snapshot: Snapshot, query: Query) -> Expression | None:
    """Return the condition that a text is over a table's columns; None if it is none."""
    try:
        bound = bind(text, snapshot.properties.schema, timezone=query.query_context.zone)
    except ProjsegError:
        return None
    return bound if pa.types.is_boolean(bound.type) else None


def _is_dear(condition: Expression) -> bool:
    """Whether rows are rather sent to Spark than tested here."""
    return not is_looked_up(condition) and saved_by_spark([condition])[0] > _ROW_SENT_NANOS


def _merging(
    query: Query, bound: QuerySpec, bound_of: Callable[[Query], QuerySpec]
) -> list[dict[str, Any]] | None:
    try:
        found = bound.mergeable
        bound_of(replace(query, aggregation="partial"))
    except (UnsupportedFeatureError, InvalidInputError):
        return None
    return [{"name": one.name, "value": one.value} for one in found]


def _summary(snapshot: Snapshot, plan: QueryPlan) -> dict[str, Any]:
    """Return what a plan reads: in a line, and as figures; and the table's columns.

    It is computed once for each plan, which a repeated query has again.
    """
    found: dict[str, Any] | None = vars(plan).get("_summary")
    if found is None:
        found = vars(plan)["_summary"] = _summary_of_reads(plan)
    return {**found, "columns": stored_types(snapshot)}


def _summary_of_reads(plan: QueryPlan) -> dict[str, Any]:
    """Return the summary of the sources that a plan reads.

    The line may hold literals of the query; `sources`, reads by name, and `refused`, codes of
    reasons by projections, never do.
    """
    reads = list(planned_reads(plan))
    figures = plan_figures(plan, reads)
    sources = Counter(read.source or "base rows" for read in reads)
    used = {f"view:{one.name}": one for one in plan.wider if one.reason is None}
    reasons = {
        name: reason
        for read in reads
        if read.source is None
        for name, reason in read.rejected.items()
    }
    views = [
        f"view {one.name}: {one.parts} parts for {one.segments:,} segments" for one in used.values()
    ]
    others = [f"{count} x {name}" for name, count in sources.items() if name not in used]
    line = ", ".join([*views, *others]) or "no segment"
    against = reasons | {one.name: one.reason for one in plan.wider if one.reason is not None}
    refusals = [f"not {name}: {reason}" for name, reason in list(against.items())[:_REFUSALS_SHOWN]]
    return {
        "plan": "; ".join([line, _pruned(plan), *refusals]),
        "sources": dict(sources),
        "refused": {name: str(reason.code) for name, reason in against.items()},
        "rows": figures.rows,
        "bytes": figures.bytes,
    }


def _pruned(plan: QueryPlan) -> str:
    """Return how many segments a plan leaves out, and how many of them by indexes."""
    names = dict.fromkeys(use.index for use in plan.indexes if use.used)
    if not plan.index_pruned_count:
        return f"{plan.pruned_count} pruned"
    plural = "es" * (len(names) > 1)
    by = f"{plan.index_pruned_count} by index{plural} {', '.join(names)}"
    return f"{plan.pruned_count} pruned ({by})"

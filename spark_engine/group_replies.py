"""Replies about groups: of a table or a star, of now or an earlier state, or stored results."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from projseg.algebra.expressions.sql_words import backquoted
from projseg.algebra.query.request import Query
from projseg.algebra.query.select_table import SelectedTable, WrittenJoin
from projseg.errors import LimitExceededError, ProjectionNotUsableError, ProjsegError
from projseg.reader.dimensions import bound_star
from projseg.reader.plan.query_plan import QueryPlan, plan_asked
from projseg.reader.plan_figures import plan_figures, planned_reads
from projseg.segment_format.logical_types import type_name
from projseg.spark_engine.replies import (
    Reply,
    answered_groups,
    answered_rows,
    bound_alone,
    query_of,
    snapshot_of,
    stored_types,
    with_rows,
)
from projseg.table.earlier_answers import Versions, earlier_answer
from projseg.table.star_statements import oriented
from projseg.table.version_reader import VersionReader
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.paths import result_folder
from projseg.table_layer.storage.storage_contract import ViewsFolder
from projseg.views.definitions.result_definition import ResultDefinition, place_of
from projseg.views.stored_results import AskedSelect, answering_results, nominations
from projseg.views.view_store import no_store, open_store

_SHARED_ROWS_MAX: Final = 5_000_000
"""Rows of all dimensions that each of Spark's tasks may have to read."""

LOGGER: Final = logging.getLogger("projseg.views")


def answered(request: Mapping[str, Any]) -> Reply:
    """Answer a query if it is small enough, and else say how tasks share it.

    The request has `location`, `version`, `query`, and at most `max_bytes` to read and to return,
    and `max_rows` to return. The reply is what is read (`_summary`) with `types` of the answer's
    columns, and an Arrow stream; or without rows `merging`: for each aggregate its states and the
    SQL of its value, or null if Spark cannot merge one of them.
    """
    snapshot = snapshot_of(request)
    query = query_of(request)
    if query.query_context.max_staleness is not None:
        found = _earlier_answered(request, [snapshot], 0, lambda versions: (versions[0], query))
        if found is not None:
            return found
    return answered_groups(request, snapshot, query, partial(bound_alone, snapshot))


def star_answered(request: Mapping[str, Any]) -> Reply:
    """Answer groups of joined tables, or say how tasks share it.

    The request has `tables`, each with location, version and storage_options, whose columns texts
    name as `t0.c` and on; `joins` of all but the first, each with its kind and texts in `on`;
    `where`; `keys` and `calls`; a `query` with nothing but its context; and the fields that
    `answered` reads.
    """
    versions = [VersionReader(snapshot_of(one)) for one in request["tables"]]
    query = query_of(request)
    try:
        joins, number = _star_query(request, versions, query)
    except ProjsegError as error:
        return _refused(versions, error)
    fact = versions[number].snapshot
    found = None
    if query.query_context.max_staleness is not None:

        def query_over(tables: Sequence[Snapshot]) -> tuple[Snapshot, Query]:
            asked = [VersionReader(one) for one in tables]
            star, place = _star_query(request, asked, query)
            return tables[place], star

        snapshots = [one.snapshot for one in versions]
        found = _earlier_answered(request, snapshots, number, query_over)
    reply, content = found or answered_groups(
        request, fact, joins, lambda one: bound_star(fact, one)
    )
    if not reply["answered"]:
        _check_shared([one for place, one in enumerate(versions) if place != number])
    reply |= {"fact": number, "location": fact.storage.location, "version": fact.number}
    reply |= {"tables": [stored_types(one.snapshot) for one in versions]}
    return reply | {"star": json.loads(joins.to_json())}, content


def _star_query(
    request: Mapping[str, Any], versions: Sequence[VersionReader], query: Query
) -> tuple[Query, int]:
    """Return the query over the rows of the fact, and the fact's number."""
    # Errors name the tables as their folders are called.
    names = [one.location.rstrip("/").rpartition("/")[2] for one in versions]
    selected = [SelectedTable((f"t{place}",)) for place in range(len(names))]
    joins = [
        WrittenJoin(join["kind"], table, tuple(join["on"]))
        for join, table in zip(request["joins"], selected[1:], strict=True)
    ]
    star = oriented(selected, versions, joins, request["where"], query.query_context, titles=names)
    over = star.scope.over_rows
    groups = [f"{over(text)} AS g{place}" for place, text in enumerate(request["keys"])]
    calls = [f"{over(text)} AS a{place}" for place, text in enumerate(request["calls"])]
    where = " AND ".join(f"({text})" for text in star.where) or None
    asked = replace(query, group_by=groups, aggregators=calls, filter=where, joins=star.joins)
    return asked, star.scope.fact


def _refused(versions: Sequence[VersionReader], error: ProjsegError) -> Reply:
    """Return the reply of joins that are no star, with the reason against each view of them."""
    # Imported here: most tables have no views.
    from projseg.views.choose_view import reasons_of_views

    found = reasons_of_views((one.snapshot for one in versions), error)
    reasons = {name: str(reason) for name, reason in found.items()}
    return json.loads(error.to_json()) | {"views": reasons}, b""


def _check_shared(dimensions: Sequence[VersionReader]) -> None:
    row_count = sum(one.snapshot.row_count for one in dimensions)
    if row_count > _SHARED_ROWS_MAX:
        raise LimitExceededError(
            "PROJSEG_JOIN_TOO_LARGE",
            f"each task would read {row_count:,} rows of dimensions, and {_SHARED_ROWS_MAX:,} are "
            "the most; Spark joins them",
        )


def _earlier_answered(
    request: Mapping[str, Any],
    tables: Sequence[Snapshot],
    fact: int,
    query_over: Callable[[Sequence[Snapshot]], tuple[Snapshot, Query]],
) -> Reply | None:
    """Return the answer of an earlier state, as `maxStaleness` of a query allows it."""
    # Spark's extension pinned the versions, and no user chose them.
    versions = [VersionReader(one, may_be_older=True) for one in tables]

    def query_at(found: Sequence[Snapshot], **more: object) -> tuple[Snapshot, Query]:
        snapshot, query = query_over(found)
        return snapshot, replace(query, context={**dict(query.context or {}), **more})

    def planned(snapshot: Snapshot, query: Query) -> QueryPlan:
        return VersionReader(snapshot).plan(query)

    def at(view: str, older: Versions) -> tuple[tuple[Snapshot, Query], QueryPlan]:
        found = query_at([one.snapshot for one in older], useView=view)
        return found, planned(*found)

    _, query = query_over(tables)
    seconds = query.query_context.max_staleness
    assert seconds is not None
    found = earlier_answer(
        versions[fact], versions, seconds, lambda: planned(*query_over(tables)), at
    )
    if found is None:
        return None
    snapshot, older = found
    bind = bound_star if older.joins else bound_alone
    reply, content = answered_groups(request, snapshot, older, partial(bind, snapshot))
    if not reply["answered"]:
        return None
    shown = f"{reply['plan']}; at version {snapshot.version} (maxStaleness)"
    return {**reply, "plan": shown, "columns": stored_types(tables[fact])}, content


def nominations_of(snapshot: Snapshot) -> list[str]:
    """Return the hashes of the SELECTs that a table's store has the rows of."""
    try:
        store = open_store(snapshot)
        return [] if store is None else list(nominations(store))
    except (ProjsegError, OSError) as error:
        LOGGER.warning("views cannot be read, and queries are answered without them: %s", error)
        return []


def results_of(request: Mapping[str, Any]) -> Reply:
    """Return the stored results that may be those of a SELECT.

    The request has `location` and `version` of the table whose store nominates; `nomination`;
    `tables` of the SELECT, each with location, version and storage_options; `session`; and a
    `query` with nothing but its context. The reply has `results`: of each its view, SELECT, tables
    by their names in it, the location of its rows, and whether these have an order.
    """
    fact = snapshot_of(request)
    store = open_store(fact) or no_store(ViewsFolder(fact.storage))
    tables = {one.properties.table_id: one for one in map(snapshot_of, request["tables"])}
    asked = AskedSelect(
        request["nomination"], tables, request["session"], query_of(request).query_context
    )
    found, refused = answering_results(store, fact, asked)
    if not found:
        reasons = "; ".join(f"not {name}: {reason}" for name, reason in refused.items())
        raise ProjectionNotUsableError("PROJSEG_VIEW_NOT_USABLE", reasons or "no view is nominated")
    return {
        "results": [
            {
                "view": one.view.name,
                "select": ResultDefinition.of(one.view).select,
                "tables": {
                    read.alias: place_of(one.tables[read.table_id]) for read in one.view.dimensions
                },
                "location": f"{store.storage.location}/{result_folder(one.result.cover)}",
                "ordered": one.result.is_ordered,
                "old": one.tables is not tables,
            }
            for one in found
        ]
    }, b""


def stored_rows(request: Mapping[str, Any]) -> Reply:
    """Return the rows of a stored result, if they are few.

    The request has `location` of the rows, `view`, `ordered`; a `query` with nothing but its
    context; and the fields that `answered` reads.
    """
    snapshot = snapshot_of(request)
    names = snapshot.properties.schema.names
    order = [backquoted(names[-1])] if request["ordered"] else []
    query = replace(query_of(request), columns=[*map(backquoted, names)], order_by=order)
    plan = plan_asked(snapshot, query)
    figures = plan_figures(plan, list(planned_reads(plan)))
    columns = names[: len(names) - len(order)]
    types = [type_name(snapshot.properties.schema.field(name).type) for name in columns]
    summary = {
        "plan": f"view {request['view']}: {snapshot.row_count:,} stored rows{request['note']}",
        "sources": {f"view:{request['view']}": 1},
        "refused": {},
        "rows": figures.rows,
        "bytes": figures.bytes,
        "types": types,
    }
    is_small = figures.bytes <= request["max_bytes"] and figures.rows <= request["max_rows"]
    rows = answered_rows(snapshot, plan, summary).select(columns) if is_small else None
    return with_rows(summary, rows, request)

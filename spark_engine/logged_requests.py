"""What Spark's extension asked while it planned a statement: for the query log, and for advice.

The extension knows what became of each request: an answer, a read that tasks share, a scan, or
nothing, because Spark did it by itself. The texts of queries are made here, as those of every door.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from projseg.algebra.query.request import Query
from projseg.errors import ProjsegError
from projseg.reader.plan.query_plan import QueryPlan, plan_query
from projseg.reader.query_log.log_files import query_log
from projseg.reader.query_log.query_record import QueryEvent
from projseg.spark_datasource.statement_list import REPLIES
from projseg.spark_engine.replies import (
    Reply,
    bound_alone,
    query_of,
    rows,
    snapshot_of,
    table_of,
    views_of,
)
from projseg.table_layer.metadata.snapshot import Snapshot


def logged(request: Mapping[str, Any]) -> Reply:
    """Write records of a statement's requests.

    The request has `folder` of the log; `literals`, whether constants are kept; and `entries`: each
    with `answered`, `planning` and `answering` in milliseconds, `location` and `version`, `request`
    and `content` of its reply if there were any, and `reason` why Spark does it.
    """
    log = query_log(request["folder"])
    if log is None:
        return {}, b""  # it names no folder, which was warned of
    for entry in request["entries"]:
        record = _record(entry, shows_all=bool(request.get("literals")))
        if record is not None:
            log.put(lambda record=record: record)  # type: ignore[misc]  # made already
    log.flush()
    return {}, b""


def advised(request: Mapping[str, Any]) -> Reply:
    """Reply with what a table should store for its queries.

    The request has `location`, `budget`, and `folder` of the session's log, or else `entries`: JSON
    of what its driver remembers.
    """
    # Imported here: a process that only asks starts without the advisor.
    from projseg.advisor.advise import advise
    from projseg.advisor.session_log import workload_of_requests

    table = table_of(request)
    log = request.get("folder") or workload_of_requests(table, json.loads(request["entries"]))
    advice = advise(table, log, budget=request["budget"])
    return rows(
        [{**vars(item), "evidence": json.dumps(item.evidence)} for item in advice.items],
        REPLIES["advice"],
    )


def _record(entry: Mapping[str, Any], *, shows_all: bool) -> dict[str, Any] | None:
    """Return the record of one request; None if its table is gone."""
    asked, content = entry.get("request") or {}, entry.get("content") or {}
    place = {**asked, "location": entry["location"], "version": entry.get("version")}
    try:
        snapshot = snapshot_of(place)
    except (ProjsegError, OSError):
        return None
    event = QueryEvent(
        snapshot,
        _plan(snapshot, asked, content),
        "spark",
        entry["answered"],
        planned_ms=entry.get("planning"),
        answered_ms=entry.get("answering"),
        texts=_texts(asked, content),
    )
    record = event.record("all" if shows_all else None)
    if entry.get("reason"):
        record["reasons"] = {**record.get("reasons", {}), "spark": entry["reason"]}
    return record


def _plan(
    snapshot: Snapshot, asked: Mapping[str, Any], content: Mapping[str, Any]
) -> QueryPlan | None:
    """Return the plan of a request over one table, which is still cached."""
    written = content.get("query") or asked.get("query")
    if written is None or asked.get("op") == "star":
        return None
    try:
        bound = bound_alone(snapshot, query_of({"query": written}))
        return plan_query(snapshot, bound, wider=views_of(snapshot))
    except ProjsegError:
        return None


def _texts(asked: Mapping[str, Any], content: Mapping[str, Any]) -> Mapping[str, Any]:
    written = content.get("star") or asked.get("query")
    if written is None:
        return {}
    try:
        return vars(Query.from_json(json.dumps(written)))
    except ProjsegError:
        return {}

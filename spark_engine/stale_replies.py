"""What the engine process replies about groups, whose answers may be of an earlier state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from projseg.algebra.query.request import Query
from projseg.reader.dimensions import bound_star
from projseg.reader.plan.query_plan import QueryPlan
from projseg.spark_engine.query_replies import (
    answered_groups,
    bound_alone,
    query_of,
    snapshot_of,
    stored_types,
)
from projseg.spark_engine.replies import Reply
from projseg.table.stale_answers import Versions, earlier_answer
from projseg.table.view_answers import ViewedVersion
from projseg.table_layer.metadata.snapshot import Snapshot


class _Pinned(ViewedVersion):
    """A version that Spark's extension pinned, and no user chose."""

    @property
    def _may_be_older(self) -> bool:
        return True


def earlier_answered(
    request: Mapping[str, Any],
    tables: Sequence[Snapshot],
    fact: int,
    query_over: Callable[[Sequence[Snapshot]], tuple[Snapshot, Query]],
) -> Reply | None:
    """Return the answer of an earlier state, as `maxStaleness` of a query allows it.

    Parameters
    ----------
    request : mapping
        As of `answered_groups`.
    tables : sequence of Snapshot
        All tables of the statement, at the versions that are the present ones.
    fact : int
        The number of the table whose rows are grouped.
    query_over : callable
        From versions of the tables to that of the fact, and the query of it.

    Returns
    -------
    tuple of dict and bytes, or None
        As of `answered_groups`; None if no view answers so, or no small answer: what tasks share
        is of the present.
    """
    versions = [_Pinned(one.storage, one) for one in tables]

    def asked(found: Sequence[Snapshot], **more: object) -> tuple[Snapshot, Query]:
        snapshot, query = query_over(found)
        return snapshot, replace(query, context={**dict(query.context or {}), **more})

    def planned(snapshot: Snapshot, query: Query) -> QueryPlan:
        return ViewedVersion(snapshot.storage, snapshot)._plan(query)

    def at(view: str, older: Versions) -> tuple[tuple[Snapshot, Query], QueryPlan]:
        found = asked([one.snapshot for one in older], useView=view)
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


def answered(request: Mapping[str, Any]) -> Reply:
    """Answer a query if it is small enough, and else say how tasks share it.

    Parameters
    ----------
    request : mapping
        `location`, `version`, `query`, and at most `max_bytes` to read and to return, and
        `max_rows` to return.

    Returns
    -------
    tuple of dict and bytes
        What is read (`_summary`), and with rows, an Arrow stream. The first has `types` of the
        answer's columns and, without rows, `merging`: for each aggregate its states and the SQL of
        its value, or null if Spark cannot merge one of them.

    Raises
    ------
    ProjsegError
        Whatever opening, binding, planning and answering raise.
    """
    snapshot = snapshot_of(request)
    query = query_of(request)
    if query.query_context.max_staleness is not None:
        found = earlier_answered(request, [snapshot], 0, lambda versions: (versions[0], query))
        if found is not None:
            return found
    return answered_groups(request, snapshot, query, partial(bound_alone, snapshot))

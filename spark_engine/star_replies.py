"""What the engine process replies about groups of joined tables: a fact and its dimensions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from projseg.algebra.query.request import Query
from projseg.algebra.query.select_table import SelectedTable, WrittenJoin
from projseg.errors import LimitExceededError, ProjsegError
from projseg.reader.dimensions import bound_star
from projseg.spark_engine.query_replies import (
    answered_groups,
    query_of,
    snapshot_of,
    storage_of,
    stored_types,
)
from projseg.spark_engine.replies import Reply
from projseg.spark_engine.stale_replies import earlier_answered
from projseg.table.star_statements import oriented
from projseg.table.view_answers import ViewedVersion
from projseg.table_layer.metadata.snapshot import Snapshot

_SHARED_ROWS_MAX: Final = 5_000_000
"""Rows of all dimensions that each of Spark's tasks may have to read."""


def star_answered(request: Mapping[str, Any]) -> Reply:
    """Answer groups of joined tables, or say how tasks share it.

    Parameters
    ----------
    request : mapping
        `tables`, each with location, version and storage_options, whose columns texts name as
        `t0.c` and on; `joins` of all but the first, each with its kind and texts in `on`; `where`;
        `keys` and `calls`; a `query` with nothing but its context; and as of `answered`.

    Returns
    -------
    tuple of dict and bytes
        As of `answered`; of joins that are no star the error, and `views`, the reason against each
        by name; and the number of the `fact`, its `location` and `version`, the types of
        the columns of all `tables`, and the query of the fact's rows as `star`.

    Raises
    ------
    ProjsegError
        PROJSEG_JOIN_TOO_LARGE, and as of `answered`.
    """
    versions = [ViewedVersion(storage_of(one), snapshot_of(one)) for one in request["tables"]]
    query = query_of(request)
    try:
        joins, number = _star_query(request, versions, query)
    except ProjsegError as error:
        return _refused(versions, error)
    fact = versions[number].snapshot
    found = None
    if query.query_context.max_staleness is not None:

        def query_over(tables: Sequence[Snapshot]) -> tuple[Snapshot, Query]:
            asked = [ViewedVersion(one.storage, one) for one in tables]
            star, place = _star_query(request, asked, query)
            return tables[place], star

        snapshots = [one.snapshot for one in versions]
        found = earlier_answered(request, snapshots, number, query_over)
    reply, content = found or answered_groups(
        request, fact, joins, lambda one: bound_star(fact, one)
    )
    if not reply["answered"]:
        _check_shared([one for place, one in enumerate(versions) if place != number])
    reply |= {"fact": number, "location": fact.storage.location, "version": fact.version}
    reply |= {"tables": [stored_types(one.snapshot) for one in versions]}
    return reply | {"star": json.loads(joins.to_json())}, content


def _star_query(
    request: Mapping[str, Any], versions: Sequence[ViewedVersion], query: Query
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


def _refused(versions: Sequence[ViewedVersion], error: ProjsegError) -> Reply:
    """Return the reply of joins that are no star, with the reason against each view of them."""
    # Imported here: most tables have no views.
    from projseg.views.choose_view import reasons_of_views

    found = reasons_of_views((one.snapshot for one in versions), error)
    reasons = {name: str(reason) for name, reason in found.items()}
    return json.loads(error.to_json()) | {"views": reasons}, b""


def _check_shared(dimensions: Sequence[ViewedVersion]) -> None:
    row_count = sum(one.snapshot.row_count for one in dimensions)
    if row_count > _SHARED_ROWS_MAX:
        raise LimitExceededError(
            "PROJSEG_JOIN_TOO_LARGE",
            f"each task would read {row_count:,} rows of dimensions, and {_SHARED_ROWS_MAX:,} are "
            "the most; Spark joins them",
        )

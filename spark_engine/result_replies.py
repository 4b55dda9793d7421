"""What the engine process replies about stored results: which answer a SELECT, and their rows."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from projseg.algebra.expressions.sql_words import backquoted
from projseg.errors import ProjectionNotUsableError, ProjsegError
from projseg.reader.plan.query_plan import plan_asked
from projseg.reader.plan_figures import plan_figures, planned_reads
from projseg.segment_format.logical_types import type_name
from projseg.spark_engine.query_replies import (
    answered_rows,
    query_of,
    snapshot_of,
    with_rows,
)
from projseg.spark_engine.replies import Reply
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.paths import result_folder
from projseg.views.definitions.result_definition import ResultDefinition, place_of
from projseg.views.stored_results import AskedSelect, answering_results, nominations
from projseg.views.view_store import no_store, open_store, store_of

LOGGER: Final = logging.getLogger("projseg.views")


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

    Parameters
    ----------
    request : mapping
        `location` and `version` of the table whose store nominates; `nomination`; `tables` of the
        SELECT, each with location, version and storage_options; `session`; and a `query` with
        nothing but its context.

    Returns
    -------
    tuple of dict and bytes
        `results`: of each its view, SELECT, tables by their names in it, the location of its rows,
        and whether these have an order.

    Raises
    ------
    ProjectionNotUsableError
        PROJSEG_VIEW_NOT_USABLE, with the reason against each that is nominated.
    """
    fact = snapshot_of(request)
    store = open_store(fact) or no_store(store_of(fact.storage))
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

    Parameters
    ----------
    request : mapping
        `location` of the rows, `view`, `ordered`; a `query` with nothing but its context; and as of
        `answered`.
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

"""Declare what was advised, in one commit, and build it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from projseg.advisor.advice_items import AdviceItem
from projseg.algebra.projection.parse import parse_projection
from projseg.errors import InvalidInputError, ProjsegError
from projseg.table.declaration_commits import declare_together, telling_of_declaration
from projseg.table.writes import commit_of
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration
from projseg.table_layer.renamed_columns import stored_declaration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from projseg.advisor.candidates import Candidate
    from projseg.table import Table
    from projseg.table.writes import Commit


def apply_items(
    table: Table,
    items: Sequence[AdviceItem],
    candidates: Mapping[str, Candidate],
    *,
    materialize: bool,
    spark: SparkSession | None,
    on_progress: Callable[[int, int], object] | None,
) -> list[Commit]:
    """Declare and drop in one commit, then build in one pass; see `Advice.apply`."""
    table._check_newest()
    table.refresh()
    properties = table.snapshot.properties
    there = {one.name: one for one in properties.projections}
    added: dict[str, ProjectionDeclaration] = {}
    dropped: list[str] = []
    for item in items:
        if item.kind == "drop":
            if item.name in there:
                dropped.append(item.name)
            continue
        declared = _declared_now(table, candidates[item.name])
        present = there.get(item.name)
        if present is None:
            added[item.name] = declared
        elif present.definition_hash != declared.definition_hash:
            raise _stale(f"the table has another projection '{item.name}' by now")
    commits: list[Commit] = []
    if added or dropped:
        estimates = {item.name: _estimate(item) for item in items if item.name in added}
        table._snapshot = declare_together(table.snapshot, added, estimates, dropped, table._note)
        commits.append(commit_of(table.snapshot.version, ()))
    if materialize and any(item.kind != "drop" for item in items):
        with telling_of_declaration("what was advised"):
            built = table.materialize_projection(spark=spark, on_progress=on_progress)
        if built.segments:
            commits.append(built)
    return commits


def _declared_now(table: Table, candidate: Candidate) -> ProjectionDeclaration:
    properties = table.snapshot.properties
    try:
        spec = parse_projection(
            candidate.projection, properties.schema, time_column=properties.time_column
        )
    except ProjsegError as error:
        raise _stale(
            f"projection '{candidate.projection.name}' no longer fits the table's columns: "
            f"{error.message}"
        ) from error
    return stored_declaration(spec, properties)


def _stale(problem: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_ADVICE_STALE", f"{problem}; ask for advice again")


def _estimate(item: AdviceItem) -> str:
    """Return what is kept of an item beside its projection, to be compared with what comes."""
    content: dict[str, Any] = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "statement": item.statement,
        "rows": item.rows,
        "bytes": item.bytes,
        "milliseconds_before": item.milliseconds_before,
        "milliseconds": item.milliseconds_after,
        "queries": item.queries,
        "shapes": list(item.shapes[:100]),
    }
    return json.dumps(content)

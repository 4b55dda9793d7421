"""Declare what was advised, in one commit, and build it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from projseg.advisor.advice_items import AdviceItem
from projseg.advisor.candidates import GroupsCandidate
from projseg.advisor.other_candidates import (
    Candidate,
    IndexCandidate,
    RowsCandidate,
    ViewCandidate,
)
from projseg.algebra.projection.parse import parse_projection
from projseg.declarations import declared_index
from projseg.errors import InvalidInputError, ProjsegError
from projseg.table.declaration_commits import (
    Declarations,
    declare_together,
    telling_of_declaration,
)
from projseg.table.table_version import reader_of, state_of
from projseg.table.view_form import ViewForm
from projseg.table.writes import commit_of
from projseg.table_layer.metadata.index_declaration import DeclaredIndex
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration
from projseg.table_layer.renamed_columns import stored_declaration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from projseg.table import Table
    from projseg.table.writes import Commit


class Building(NamedTuple):
    """How what is declared is built: by whom, and who hears how far it is."""

    is_wanted: bool
    spark: SparkSession | None
    on_progress: Callable[[int, int], object] | None


def apply_items(
    table: Table,
    items: Sequence[AdviceItem],
    candidates: Mapping[str, Candidate],
    building: Building,
) -> list[Commit]:
    """Declare and drop in one commit, then build what is missing; see `Advice.apply`."""
    state = state_of(table)
    state.check_newest()
    table.refresh()
    added = [item for item in items if item.name in candidates]
    declarations, views = _missing(table, added, candidates)
    dropped = {item.name: item.evidence.get("kind") for item in items if item.kind == "drop"}
    declarations = declarations.dropping(table.snapshot.properties, dropped)
    commits: list[Commit] = []
    if not declarations.is_empty:
        state.move_to(declare_together(table.snapshot, declarations, state.note))
        commits.append(commit_of(table.snapshot.version, ()))
    with telling_of_declaration("what was advised"):
        if building.is_wanted:
            is_compacted = any(item.kind == "compact" for item in items)
            commits += _built(table, added, building, is_compacted=is_compacted)
        for view in views:
            if _is_made(table, view, build=building.is_wanted):
                commits.append(commit_of(table.snapshot.version, ()))
    for name, kind in dropped.items():
        if kind == "view" and _is_dropped(table, name):
            commits.append(commit_of(table.snapshot.version, ()))
    return commits


def _is_made(table: Table, view: ViewCandidate, *, build: bool) -> bool:
    """Make a view; return False if another apply of the same advice has made it by now."""
    try:
        table.create_view(view.name, view.sql, build=build)
    except InvalidInputError as error:
        if error.code != "PROJSEG_VIEW_EXISTS":
            raise
        table.refresh()
        if _definitions_of_views(table).get(view.name) != _digest(table, view):
            raise
        return False
    return True


def _is_dropped(table: Table, name: str) -> bool:
    """Drop a view; return False if it is gone."""
    try:
        table.view(name).drop()
    except InvalidInputError as error:
        if error.code != "PROJSEG_UNKNOWN_VIEW":
            raise
        return False
    return True


def _missing(
    table: Table, items: Sequence[AdviceItem], candidates: Mapping[str, Candidate]
) -> tuple[Declarations, list[ViewCandidate]]:
    """Return what is to be declared, and the views to be made.

    Raises InvalidInputError (PROJSEG_ADVICE_STALE) if a name has another meaning by now, or a
    column is gone.
    """
    properties = table.snapshot.properties
    projections: list[ProjectionDeclaration] = []
    indexes: list[DeclaredIndex] = []
    views: list[ViewCandidate] = []
    there = {one.name: one.definition_hash for one in properties.projections}
    indexed = {one.name: one.columns for one in properties.declared_indexes}
    defined = _definitions_of_views(table)
    for item in items:
        candidate = candidates[item.name]
        try:
            if isinstance(candidate, IndexCandidate):
                index = declared_index(candidate.index, properties)
                if indexed.get(item.name, index.columns) != index.columns:
                    raise _stale(f"the table has another index '{item.name}' by now")
                indexes += [] if item.name in indexed else [index]
            elif isinstance(candidate, ViewCandidate):
                digest = _digest(table, candidate)
                if defined.get(item.name, digest) != digest:
                    raise _stale(f"the table has another view '{item.name}' by now")
                views += [] if item.name in defined else [candidate]
            else:
                declared = _declared_now(table, candidate)
                if there.get(item.name, declared.definition_hash) != declared.definition_hash:
                    raise _stale(f"the table has another projection '{item.name}' by now")
                projections += [] if item.name in there else [declared]
        except ProjsegError as error:
            if error.code == "PROJSEG_ADVICE_STALE":
                raise
            raise _stale(
                f"{item.kind} '{item.name}' no longer fits the table's columns: {error.message}"
            ) from error
    new = {one.name for several in (projections, indexes, views) for one in several}
    estimates = {item.name: _estimate(item) for item in items if item.name in new}
    return Declarations(tuple(projections), tuple(indexes), estimates), views


def _digest(table: Table, view: ViewCandidate) -> str:
    return ViewForm(view.sql).definition(reader_of(table)).digest


def _definitions_of_views(table: Table) -> dict[str, str]:
    store = reader_of(table).view_store()
    return {} if store is None else {v.name: v.definition_hash for v in store.views.values()}


def _built(
    table: Table, items: Sequence[AdviceItem], building: Building, *, is_compacted: bool
) -> list[Commit]:
    """Merge small segments if that was advised, and build what is missing in segments."""
    kinds = {item.kind for item in items}
    spark, on_progress = building.spark, building.on_progress
    done = []
    if is_compacted:
        done.append(table.compact(spark=spark, on_progress=on_progress))
    if kinds & {"projection", "rows"}:
        done.append(table.materialize_projection(spark=spark, on_progress=on_progress))
    found = [one for one in done if one.segments]
    if "index" in kinds:
        before = table.snapshot.version
        one = table.materialize_index(spark=spark, on_progress=on_progress)
        found += [one] if one.version != before else []
    return found


def _declared_now(
    table: Table, candidate: GroupsCandidate | RowsCandidate
) -> ProjectionDeclaration:
    properties = table.snapshot.properties
    spec = parse_projection(
        candidate.projection, properties.schema, time_column=properties.time_column
    )
    return stored_declaration(spec, properties)


def _stale(problem: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_ADVICE_STALE", f"{problem}; ask for advice again")


def _estimate(item: AdviceItem) -> str:
    """Return the estimate to keep beside an item's projection, for a later comparison."""
    content: dict[str, Any] = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "kind": item.kind,
        "statement": item.statement,
        "rows": item.rows,
        "bytes": item.bytes,
        "milliseconds_before": item.milliseconds_before,
        "milliseconds": item.milliseconds_after,
        "queries": item.queries,
        "shapes": list(item.shapes[:100]),
    }
    return json.dumps(content)

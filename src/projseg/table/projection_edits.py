"""`ProjectionEdits`: projections are declared, dropped, and built in segments that lack them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from projseg.algebra.query.request import IntervalLike
from projseg.declarations import ProjectionLike
from projseg.maintenance.materialize_projections import (
    Materialization,
    materialize,
    require_declared,
)
from projseg.maintenance.replace_segments import Watchers
from projseg.table.declaration_commits import (
    add_projection,
    drop_projection,
    telling_of_declaration,
)
from projseg.table.segment_edits import OnProgress, bounds_of, interval_of, runner_of
from projseg.table.table_state import TableState
from projseg.table.writes import Commit, OnSegment, commit_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ProjectionEdits:
    """The projections of a table, to be changed and built."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def add(
        self,
        declaration: ProjectionLike,
        *,
        materialize: bool,
        build: str,
        interval: IntervalLike | None,
        **limits: Any,
    ) -> int:
        """Declare a projection; the limits are those of `declare_scope`."""
        state = self._state
        state.check_newest()
        snapshot, name = add_projection(
            state.snapshot,
            declaration,
            build=build,
            interval=None if interval is None else interval_of(interval),
            note=state.note,
            **limits,
        )
        state.move_to(snapshot)
        if materialize:
            with telling_of_declaration(f"projection '{name}'"):
                self.materialize(name)
        return state.snapshot.version

    def drop(self, name: str) -> int:
        """Stop embedding a projection in new segments."""
        state = self._state
        state.check_newest()
        state.move_to(drop_projection(state.snapshot, name, state.note))
        return state.snapshot.version

    def materialize(
        self,
        name: str | None,
        interval: IntervalLike | None = None,
        *,
        on_segment: OnSegment | None = None,
        on_progress: OnProgress | None = None,
        spark: SparkSession | None = None,
    ) -> Commit:
        """Build declared projections in the segments that lack them."""
        state = self._state
        state.check_newest()
        state.refresh()
        bounds = None if interval is None else bounds_of(interval)
        if state.properties.source is not UNSET:
            from projseg.table.foreign_edits import companions_with

            require_declared(state.snapshot, name)
            declared = state.properties.projections
            wanted = {p.definition_hash for p in declared if name in (None, p.name)}
            return companions_with(state, frozenset(wanted), bounds)
        snapshot, entries = materialize(
            state.snapshot,
            Materialization(name, bounds),
            runner=runner_of(spark),
            watchers=Watchers(on_segment, on_progress),
            note=state.note,
        )
        state.move_to(snapshot)
        state.refresh_views()
        return commit_of(snapshot.version, entries)

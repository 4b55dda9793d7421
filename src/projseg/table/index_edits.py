"""`IndexEdits`: indexes are declared, dropped, and built for segments that lack them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from projseg.algebra.query.request import IntervalLike
from projseg.declarations import IndexLike
from projseg.maintenance.materialize_index import materialize_index
from projseg.table.declaration_commits import add_index, drop_index, telling_of_declaration
from projseg.table.segment_edits import OnProgress, bounds_of, interval_of, runner_of
from projseg.table.table_state import TableState
from projseg.table.writes import Commit, commit_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class IndexEdits:
    """The indexes of a table, to be changed and built."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def add(
        self,
        index: IndexLike,
        *,
        materialize: bool,
        build: str,
        interval: IntervalLike | None,
        **limits: Any,
    ) -> int:
        """Declare an index; the limits are those of `declare_scope`."""
        state = self._state
        state.check_newest()
        snapshot, name = add_index(
            state.snapshot,
            index,
            build=build,
            interval=None if interval is None else interval_of(interval),
            note=state.note,
            **limits,
        )
        state.move_to(snapshot)
        if materialize:
            with telling_of_declaration(f"index '{name}'"):
                self.materialize(name)
        return state.snapshot.version

    def drop(self, name: str) -> Commit:
        """Drop an index, and all that is listed of it."""
        state = self._state
        state.check_newest()
        state.move_to(drop_index(state.snapshot, name, state.note))
        return commit_of(state.snapshot.version, [])

    def materialize(
        self,
        name: str | None,
        interval: IntervalLike | None = None,
        *,
        on_progress: OnProgress | None = None,
        spark: SparkSession | None = None,
    ) -> Commit:
        """Build indexes for the segments that lack them."""
        state = self._state
        state.check_newest()
        state.refresh()
        bounds = None if interval is None else bounds_of(interval)
        if state.properties.source is not UNSET:
            from projseg.table.foreign_edits import companions_with

            return companions_with(state, None, bounds)
        snapshot, _ = materialize_index(
            state.snapshot, name, bounds, state.note, on_progress, runner_of(spark)
        )
        state.move_to(snapshot)
        return commit_of(snapshot.version, [])

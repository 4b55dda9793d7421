"""`RowEdits`: rows are added, replaced, deleted, updated, merged and erased."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET

from projseg.algebra.expressions.sql_parameters import ArgumentsLike
from projseg.algebra.query.request import IntervalLike
from projseg.errors import InvalidInputError
from projseg.input_rows import RowsLike, batches_of
from projseg.maintenance.row_changes.delete_and_update import Corrected, delete_rows, update_rows
from projseg.maintenance.row_changes.matching_rows import Condition, condition_of, update_of
from projseg.maintenance.row_changes.merge_rows import merge_rows
from projseg.maintenance.row_changes.replace_rows import replace_rows
from projseg.table.segment_edits import bounds_of
from projseg.table.table_state import TableState
from projseg.table.writes import Commit, OnSegment, append, overwrite
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.written_rows import WrittenRows

if TYPE_CHECKING:
    from projseg.maintenance.row_changes.erase import Erased


class RowEdits:
    """The rows of a table, to be changed."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def append(
        self, data: RowsLike, *, on_segment: OnSegment | None, commit_as: str | None
    ) -> Commit:
        """Add rows as new segments."""
        state = self._state
        state.check_newest()
        state.check_own_rows()
        written = WrittenRows() if state.reader.has_views else None
        snapshot, made = append(
            state.snapshot,
            data,
            on_segment=on_segment,
            note=state.note,
            commit_as=commit_as,
            on_rows=None if written is None else written.hold,
        )
        state.move_to(snapshot)
        state.refresh_views(written)
        return made

    def overwrite(
        self,
        data: RowsLike,
        interval: IntervalLike | None,
        filter: str | None,
        *,
        args: ArgumentsLike | None,
        timezone: str,
        on_segment: OnSegment | None,
    ) -> Commit:
        """Replace all rows, or those of an interval or for which a condition is true."""
        # Rows that others appended since the table was opened are to be replaced as well.
        state = self._at_newest()
        if filter is None and args is None:
            bounds = None if interval is None else bounds_of(interval)
            snapshot, made = overwrite(
                state.snapshot, data, bounds, on_segment=on_segment, note=state.note
            )
            self._finish(snapshot)
            return made
        batches = batches_of(data, state.reader.schema)
        condition = self._condition(filter, interval, args, timezone)
        snapshot, done = replace_rows(
            state.snapshot, batches, condition, state.note, on_segment=on_segment
        )
        self._finish(snapshot)
        return Commit(done.version, done.added_segments, done.inserted_rows)

    def delete(
        self,
        filter: str | None,
        interval: IntervalLike | None,
        args: ArgumentsLike | None,
        timezone: str,
        *,
        dry_run: bool,
    ) -> Corrected:
        """Remove the rows for which a condition is true."""
        state = self._at_newest()
        condition = self._condition(filter, interval, args, timezone)
        snapshot, done = delete_rows(state.snapshot, condition, state.note, dry_run=dry_run)
        self._finish(snapshot)
        return done

    def update(
        self,
        values: Mapping[str, str],
        filter: str | None,
        interval: IntervalLike | None,
        args: ArgumentsLike | None,
        timezone: str,
        *,
        dry_run: bool,
    ) -> Corrected:
        """Set columns of the rows for which a condition is true."""
        state = self._at_newest()
        assigned, condition = update_of(
            values, filter, interval, timezone, args, state.reader.declared
        )
        snapshot, done = update_rows(
            state.snapshot, assigned, condition, state.note, dry_run=dry_run
        )
        self._finish(snapshot)
        return done

    def merge(
        self,
        data: RowsLike,
        on: Sequence[str],
        when_matched: Literal["update", "delete", "ignore"],
        when_not_matched: Literal["insert", "ignore"],
        *,
        dry_run: bool,
    ) -> Corrected:
        """Update or delete the rows whose keys are in `data`, and insert its other rows."""
        state = self._at_newest()
        batches = batches_of(data, state.reader.schema)
        snapshot, done = merge_rows(
            state.snapshot,
            batches,
            on,
            when_matched,
            when_not_matched,
            state.note,
            dry_run=dry_run,
        )
        self._finish(snapshot)
        return done

    def erase(
        self,
        filter: str,
        interval: IntervalLike | None,
        args: ArgumentsLike | None,
        timezone: str,
        *,
        retention_hours: float,
    ) -> Erased:
        """Delete rows for good, and search what is left for their values."""
        # Imported here: other edits do without the search.
        from projseg.maintenance.row_changes.erase import erase

        state = self._at_newest()
        if not isinstance(filter, str):
            raise InvalidInputError(
                "PROJSEG_BAD_QUERY", "an erasure needs a filter, which says whose rows go"
            )
        condition = self._condition(filter, interval, args, timezone)
        # Groups of the rows may be in views, also in those that do not follow commits.
        leave = None
        if state.properties.is_in_views:
            from projseg.views.store_vacuum import leave_views

            leave = partial(leave_views, retention_hours=retention_hours, note=state.note)
        snapshot, done = erase(
            state.snapshot,
            condition,
            state.note,
            retention_hours=retention_hours,
            leave_views=leave,
        )
        state.move_to(snapshot)
        state.keep_store(UNSET)
        return done

    def _at_newest(self) -> TableState:
        """Return the table at its newest version, whose rows may be changed."""
        self._state.check_newest()
        self._state.check_own_rows()
        self._state.refresh()
        return self._state

    def _condition(
        self,
        filter: str | None,
        interval: IntervalLike | None,
        args: ArgumentsLike | None,
        timezone: str,
    ) -> Condition:
        return condition_of(filter, interval, timezone, args, self._state.reader.declared)

    def _finish(self, snapshot: Snapshot) -> None:
        self._state.move_to(snapshot)
        self._state.refresh_views()

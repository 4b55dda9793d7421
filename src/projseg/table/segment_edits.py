"""`SegmentEdits`: small segments are merged; and what all jobs over segments are asked with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from projseg.algebra.query.request import IntervalLike
from projseg.algebra.time.interval import Interval
from projseg.maintenance.compact import Compaction, compact, plan_rows
from projseg.maintenance.replace_segments import Watchers
from projseg.maintenance.rewrite_tasks import TaskRunner
from projseg.table.table_state import TableState
from projseg.table.writes import Commit, OnSegment, commit_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnProgress: TypeAlias = Callable[[int, int], object]


class SegmentEdits:
    """The segments of a table, to be written anew with the same rows."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def compact(
        self,
        interval: IntervalLike | None,
        target_segment_rows: int | None,
        *,
        dry_run: bool,
        purge: bool,
        on_segment: OnSegment | None,
        on_progress: OnProgress | None,
        spark: SparkSession | None,
    ) -> Commit | pa.Table:
        """Merge small segments of a time chunk, or return what would be merged."""
        state = self._state
        state.check_newest()
        state.check_own_rows()
        state.refresh()
        bounds = None if interval is None else bounds_of(interval)
        compaction = Compaction(bounds, target_segment_rows, purge=purge)
        if dry_run:
            return plan_rows(compaction.groups(state.snapshot))
        snapshot, entries = compact(
            state.snapshot,
            compaction,
            runner=runner_of(spark),
            watchers=Watchers(on_segment, on_progress),
            note=state.note,
        )
        state.move_to(snapshot)
        state.refresh_views()
        return commit_of(snapshot.version, entries)


def interval_of(interval: IntervalLike) -> Interval:
    """Return an interval that may be given as text or as a pair."""
    return interval if isinstance(interval, Interval) else Interval.parse(interval)


def bounds_of(interval: IntervalLike) -> tuple[int, int]:
    """Return an interval's ends in microseconds of UTC."""
    parsed = interval_of(interval)
    return parsed.start_us, parsed.end_us


def runner_of(spark: SparkSession | None) -> TaskRunner | None:
    """Return the tasks of a session; None stays None."""
    if spark is None:
        return None
    from projseg.spark_datasource.rewrite_runner import SparkRunner

    return SparkRunner.of(spark)

"""`TableSegments`: how small segments of a table are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

import pyarrow as pa

from projseg.table.projection_edits import OnProgress, bounds_of
from projseg.table.writable_table import WritableTable, runner_of

# A process that only asks starts without the modules that write; each method imports its own.
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from projseg.algebra.query.request import IntervalLike
    from projseg.table.writes import Commit, OnSegment


class TableSegments(WritableTable):
    """A table whose segments are written anew, and no row is changed."""

    @overload
    def compact(
        self,
        interval: IntervalLike | None = None,
        target_segment_rows: int | None = None,
        dry_run: Literal[False] = False,
        *,
        purge: bool = False,
        on_segment: OnSegment | None = None,
        on_progress: OnProgress | None = None,
        spark: SparkSession | None = None,
    ) -> Commit: ...
    @overload
    def compact(
        self,
        interval: IntervalLike | None = None,
        target_segment_rows: int | None = None,
        *,
        dry_run: Literal[True],
        purge: bool = False,
        on_segment: OnSegment | None = None,
        on_progress: OnProgress | None = None,
        spark: SparkSession | None = None,
    ) -> pa.Table: ...
    def compact(
        self,
        interval: IntervalLike | None = None,
        target_segment_rows: int | None = None,
        dry_run: bool = False,
        *,
        purge: bool = False,
        on_segment: OnSegment | None = None,
        on_progress: OnProgress | None = None,
        spark: SparkSession | None = None,
    ) -> Commit | pa.Table:
        """Merge small segments of a time chunk into larger ones, in one commit.

        The rows stay the same. Values that were removed are left behind: deleted rows, dropped
        columns, dropped projections; a segment that stores any is written anew even alone. Earlier
        versions keep them until `vacuum`. Each new segment embeds the declared projections,
        deferred ones too, merged from the stored groups where a segment has them. The table's
        property `compactMinSegments` says how few segments are left as they are (2 if it is not
        set). Appends that arrive meanwhile stay; of two compactions of the same segments one wins.

        Parameters
        ----------
        interval : str, pair of datetimes or None
            Only segments with rows in it; None: all segments.
        target_segment_rows : int or None
            Most rows of a new segment; None: the table's own.
        dry_run : bool
            Only return what would be merged.
        purge : bool
            Only write segments that store removed values, each by itself.
        on_segment, on_progress, spark
            As of `materialize_projection`.

        Returns
        -------
        Commit or pa.Table
            The version written, and how many segments and rows are in new files; the newest version
            and zeros if there was nothing to do. With `dry_run`, one row per segment that would be
            written: interval_start, interval_end, min_time, max_time, segments (that it replaces),
            rows, bytes (of these), files.

        Raises
        ------
        InvalidInputError
            PROJSEG_NO_TIME_COLUMN, PROJSEG_BAD_INTERVAL, PROJSEG_BAD_ARGUMENT, PROJSEG_BAD_OPTION,
            PROJSEG_PINNED_VERSION.
        CorruptionError
            If a segment is damaged; nothing is committed.
        CommitError, StorageError
            As of `append`.
        """
        from projseg.maintenance.compact import Compaction, compact, plan_rows
        from projseg.maintenance.replace_segments import Watchers
        from projseg.table.writes import commit_of

        self._check_newest()
        self._check_own_rows()
        self.refresh()
        bounds = None if interval is None else bounds_of(interval)
        compaction = Compaction(bounds, target_segment_rows, purge=purge)
        if dry_run:
            return plan_rows(compaction.groups(self._snapshot))
        self._snapshot, entries = compact(
            self._snapshot,
            compaction,
            runner=runner_of(spark),
            watchers=Watchers(on_segment, on_progress),
            note=self._note,
        )
        self._refresh_views()
        return commit_of(self._snapshot.version, entries)

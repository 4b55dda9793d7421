"""`TableProjections`: what can be done with a table's projections."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import UNSET

from projseg.algebra.time.interval import Interval
from projseg.table.writable_table import WritableTable, runner_of

# A process that only asks starts without the modules that write; each method imports its own.
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from projseg.algebra.query.request import IntervalLike
    from projseg.declarations import ProjectionLike
    from projseg.table.writes import Commit, OnSegment

OnProgress: TypeAlias = Callable[[int, int], object]


class TableProjections(WritableTable):
    """A table whose projections are declared, dropped, and built in the segments that lack them."""

    def add_projection(
        self,
        declaration: ProjectionLike,
        materialize: bool = False,
        build: str = "immediate",
        *,
        interval: IntervalLike | None = None,
        retain: str | None = None,
        max_row_ratio: float | None = None,
        max_bytes_ratio: float | None = None,
    ) -> int:
        """Declare a projection: segments written from now on embed it.

        Parameters
        ----------
        declaration : Projection, mapping or JSON text
            In any of the three forms.
        materialize : bool
            Also build it in the segments that are there, by `materialize_projection`.
        build : str
            `immediate`: in each segment as it is written; `deferred`: only by
            `materialize_projection` and `compact`.
        interval : str, pair of datetimes or None
            Segments with no row in it go without the projection; None: all times.
        retain : str or None
            A length of time, `90 days` or `P90D`: segments whose rows are all older when they are
            written go without.
        max_row_ratio, max_bytes_ratio : float or None
            A segment goes without if the projection's rows, or stored bytes of columns, pass this
            share of the base table's; the reason is recorded.

        Returns
        -------
        int
            The version written; the table's own if it has this very declaration.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_PROJECTION, PROJSEG_PROJECTION_EXISTS, PROJSEG_TOO_MANY_NAMES,
            PROJSEG_BAD_OPTION, PROJSEG_PINNED_VERSION, or what is wrong with an expression.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_FUNCTION.
        CorruptionError
            If `materialize` meets a damaged segment; the projection is declared.
        CommitError, StorageError
            As of `append`.
        """
        from projseg.table.declaration_commits import add_projection, telling_of_declaration

        self._check_newest()
        self._snapshot, name = add_projection(
            self._snapshot,
            declaration,
            build=build,
            interval=None if interval is None else interval_of(interval),
            retain=retain,
            max_row_ratio=max_row_ratio,
            max_bytes_ratio=max_bytes_ratio,
            note=self._note,
        )
        if materialize:
            with telling_of_declaration(f"projection '{name}'"):
                self.materialize_projection(name)
        return self._snapshot.version

    def drop_projection(self, name: str) -> int:
        """Stop embedding a projection in segments written from now on.

        Parameters
        ----------
        name : str
            Its name in the table.

        Returns
        -------
        int
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_PROJECTION, PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            As of `append`.
        """
        from projseg.table.declaration_commits import drop_projection

        self._check_newest()
        self._snapshot = drop_projection(self._snapshot, name, self._note)
        return self._snapshot.version

    def materialize_projection(
        self,
        name: str | None = None,
        interval: IntervalLike | None = None,
        *,
        on_segment: OnSegment | None = None,
        on_progress: OnProgress | None = None,
        spark: SparkSession | None = None,
    ) -> Commit:
        """Build declared projections in the segments that lack them, in one commit.

        Base rows are copied byte for byte, each part's checksum being proved; deleted rows, dropped
        columns and dropped projections are left out of the segments that it writes. A projection is
        folded from a finer one that the segment stores where that is exact. One that cannot be
        built is recorded with its reason, and tried again the next time. Appends that arrive
        meanwhile stay.

        Parameters
        ----------
        name : str or None
            The projection; None: all that are declared.
        interval : str, pair of datetimes or None
            Only segments with rows in it; None: all segments.
        on_segment : callable or None
            Called with each new segment's entry once its file is finished; with `spark`, when all
            are.
        on_progress : callable or None
            Called with how many segments are done and how many there are, first with 0.
        spark : SparkSession or None
            Runs a job that writes each segment in a task of its own; None: threads of this process.

        Returns
        -------
        Commit
            The version written, and how many segments and rows are in new files; the newest version
            and zeros if there was nothing to do.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_PROJECTION, PROJSEG_NO_TIME_COLUMN, PROJSEG_BAD_INTERVAL,
            PROJSEG_PINNED_VERSION.
        CorruptionError
            If a segment is damaged; nothing is committed.
        CommitError, StorageError
            As of `append`.
        """
        from projseg.maintenance.materialize_projections import (
            Materialization,
            materialize,
            require_declared,
        )
        from projseg.maintenance.replace_segments import Watchers
        from projseg.table.writes import commit_of

        self._check_newest()
        self.refresh()
        bounds = None if interval is None else bounds_of(interval)
        if self.properties.source is not UNSET:
            from projseg.table.foreign_edits import companions_with

            require_declared(self._snapshot, name)
            declared = self.properties.projections
            wanted = {p.definition_hash for p in declared if name in (None, p.name)}
            return companions_with(self._state, frozenset(wanted), bounds)
        self._snapshot, entries = materialize(
            self._snapshot,
            Materialization(name, bounds),
            runner=runner_of(spark),
            watchers=Watchers(on_segment, on_progress),
            note=self._note,
        )
        self._refresh_views()
        return commit_of(self._snapshot.version, entries)


def interval_of(interval: IntervalLike) -> Interval:
    """Return an interval that may be given as text or as a pair."""
    return interval if isinstance(interval, Interval) else Interval.parse(interval)


def bounds_of(interval: IntervalLike) -> tuple[int, int]:
    """Return an interval's ends in microseconds of UTC."""
    parsed = interval_of(interval)
    return parsed.start_us, parsed.end_us

"""`TableIndexes`: what can be done with a table's indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import UNSET

from projseg.table.projection_edits import OnProgress, bounds_of, interval_of
from projseg.table.writable_table import WritableTable, runner_of

# A process that only asks starts without the modules that write; each method imports its own.
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from projseg.algebra.query.request import IntervalLike
    from projseg.declarations import IndexLike
    from projseg.table.writes import Commit


class TableIndexes(WritableTable):
    """A table whose indexes are declared, dropped, and built for the segments that lack them."""

    def add_index(
        self,
        index: IndexLike,
        materialize: bool = False,
        build: str = "immediate",
        *,
        interval: IntervalLike | None = None,
        retain: str | None = None,
        max_bytes_ratio: float | None = None,
    ) -> int:
        """Declare an index: the commits of segments written from now on have filters for it.

        Parameters
        ----------
        index : Index, mapping or JSON text
            Name, columns, kind and rate.
        materialize : bool
            Also build it for the segments that are there, by `materialize_index`.
        build : str
            `immediate`: as segments are written; `deferred`: only by `materialize_index` and
            `compact`.
        interval : str, pair of datetimes or None
            Segments with no row in it go without; None: all times.
        retain : str or None
            A length of time, `90 days` or `P90D`: segments whose rows are all older go without.
        max_bytes_ratio : float or None
            A segment goes without if its filter is larger than this share of its columns' bytes.

        Returns
        -------
        int
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_INDEX, PROJSEG_INDEX_EXISTS, PROJSEG_UNKNOWN_COLUMN, PROJSEG_BAD_OPTION,
            PROJSEG_LIMIT_EXCEEDED, PROJSEG_PINNED_VERSION.
        CorruptionError
            If `materialize` meets a damaged segment; the index is declared.
        CommitError, StorageError
            As of `append`.
        """
        from projseg.table.declaration_commits import add_index, telling_of_declaration

        self._check_newest()
        self._snapshot, name = add_index(
            self._snapshot,
            index,
            build=build,
            interval=None if interval is None else interval_of(interval),
            retain=retain,
            max_bytes_ratio=max_bytes_ratio,
            note=self._note,
        )
        if materialize:
            with telling_of_declaration(f"index '{name}'"):
                self.materialize_index(name)
        return self._snapshot.version

    def drop_index(self, name: str) -> Commit:
        """Drop an index, and all that is listed of it.

        Parameters
        ----------
        name : str
            Its name in the table, in any case.

        Returns
        -------
        Commit
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_INDEX, PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            As of `append`.
        """
        from projseg.table.declaration_commits import drop_index
        from projseg.table.writes import commit_of

        self._check_newest()
        self._snapshot = drop_index(self._snapshot, name, self._note)
        return commit_of(self._snapshot.version, [])

    def materialize_index(
        self,
        name: str | None = None,
        interval: IntervalLike | None = None,
        *,
        spark: SparkSession | None = None,
        on_progress: OnProgress | None = None,
    ) -> Commit:
        """Build indexes for the segments that lack them: a commit for postings, one for filters.

        For filters no segment is written anew, and of a column with a dictionary only the hashes of
        its values are read. Segments that lack postings are written again, as by
        `materialize_projection`: their other parts are copied.

        Parameters
        ----------
        name : str or None
            The index; None: all that are declared.
        interval : str, pair of datetimes or None
            Only segments with rows in it; None: all segments.
        spark : SparkSession or None
            Runs a job whose tasks write the segments that lack postings, with their filters; other
            filters are made by this process. None: threads of this process.
        on_progress : callable or None
            Called with how many filters are made and how many there are, first with 0.

        Returns
        -------
        Commit
            The version written; the newest if there was nothing to do.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_INDEX, PROJSEG_NO_TIME_COLUMN, PROJSEG_BAD_INTERVAL,
            PROJSEG_PINNED_VERSION.
        CorruptionError
            If a segment is damaged; nothing is committed.
        CommitError, StorageError
            As of `append`.
        """
        from projseg.maintenance.materialize_index import materialize_index
        from projseg.table.writes import commit_of

        self._check_newest()
        self.refresh()
        bounds = None if interval is None else bounds_of(interval)
        if self.properties.source is not UNSET:
            from projseg.table.foreign_edits import companions_with

            return companions_with(self._state, None, bounds)
        self._snapshot, _ = materialize_index(
            self._snapshot, name, bounds, self._note, on_progress, runner_of(spark)
        )
        return commit_of(self._snapshot.version, [])

    def indexes(self) -> pa.Table:
        """Return one row for each column of each index.

        Returns
        -------
        pa.Table
            name, kind, column, fpp, postings, build; segments (of the table), covered (with a
            filter), skipped and failed (without, for a reason), keys (of all filters), bloom_bytes,
            postings_bytes (in segments), files; status: `ENABLED`, `PARTIAL` (segments lack it) or
            `DISABLED` (the column's type was changed so that its filters cannot be asked).
        """
        return self._metadata("indexes")

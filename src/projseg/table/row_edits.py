"""`TableRows`: what can be done with rows that are in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET

from projseg.table.writable_table import WritableTable

# A process that only asks starts without the modules that write; each method imports its own.
if TYPE_CHECKING:
    from projseg.algebra.expressions.sql_parameters import ArgumentsLike
    from projseg.algebra.query.request import IntervalLike
    from projseg.input_rows import RowsLike
    from projseg.maintenance.row_changes.delete_and_update import Corrected
    from projseg.maintenance.row_changes.erase import Erased


class TableRows(WritableTable):
    """A table whose rows are deleted, updated and merged."""

    def delete(
        self,
        filter: str | None = None,
        interval: IntervalLike | None = None,
        *,
        args: ArgumentsLike | None = None,
        timezone: str = "UTC",
        dry_run: bool = False,
    ) -> Corrected:
        """Remove the rows of an interval for which a condition is true, in one commit.

        Segments of which metadata prove that all rows are meant leave the table unread. In others
        the rows are hidden by a small file of their own, until they are a share of the segment's
        rows as large as the table's property `maxDeletedRatio` says (0.2); then the rows that are
        left are written anew, with their projections.

        Parameters
        ----------
        filter : str or None
            Spark SQL; rows for which it is null stay. None: true.
        interval : str, pair of datetimes or None
            Half-open range of the time column; rows without a time stay. None: all rows.
        args : mapping of str to value, sequence of values, or None
            What parameters stand for, as of `query`. The table's history has their names alone.
        timezone : str
            Of time functions, and of times without a zone.
        dry_run : bool
            Count the rows, refuse what would be refused, and write nothing.

        Returns
        -------
        Corrected
            The version written, and how many rows were removed.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_COLUMN, PROJSEG_BAD_EXPRESSION, PROJSEG_BAD_INTERVAL,
            PROJSEG_BAD_QUERY, PROJSEG_BAD_ARGUMENT, PROJSEG_PINNED_VERSION.
        EvaluationError
            If the filter meets a value that Spark's ANSI mode refuses; nothing was committed.
        CommitError, StorageError, CorruptionError
            As of `append` and `query`. Rows that others append meanwhile stay.
        """
        from projseg.maintenance.row_changes.delete_and_update import delete_rows
        from projseg.maintenance.row_changes.matching_rows import condition_of

        self._check_newest()
        self._check_own_rows()
        self.refresh()
        condition = condition_of(filter, interval, timezone, args, self._state.reader.declared)
        self._snapshot, done = delete_rows(self._snapshot, condition, self._note, dry_run=dry_run)
        self._refresh_views()
        return done

    def truncate(self, *, dry_run: bool = False) -> Corrected:
        """Remove all rows, in one commit; nothing is read.

        Parameters
        ----------
        dry_run : bool
            Count the rows, and write nothing.

        Returns
        -------
        Corrected
            The version written, and how many rows were removed.

        Raises
        ------
        InvalidInputError, CommitError, StorageError
            As of `delete`.
        """
        return self.delete(dry_run=dry_run)

    def update(
        self,
        values: Mapping[str, str],
        filter: str | None = None,
        interval: IntervalLike | None = None,
        *,
        args: ArgumentsLike | None = None,
        timezone: str = "UTC",
        dry_run: bool = False,
    ) -> Corrected:
        """Set columns of the rows of an interval for which a condition is true, in one commit.

        Parameters
        ----------
        values : mapping of str to str
            Spark SQL expressions by column, over the row as it was.
        filter, interval, timezone
            As of `delete`.
        args : mapping of str to value, sequence of values, or None
            As of `delete`; `?` are counted through `values` and then the filter.
        dry_run : bool
            As of `delete`; the new values are computed, too.

        Returns
        -------
        Corrected
            The version written, and how many rows were updated.

        Raises
        ------
        InvalidInputError
            As of `delete`, and PROJSEG_SCHEMA_MISMATCH if an expression's type is not the column's,
            PROJSEG_NULL_TIME, PROJSEG_TIME_RANGE.
        EvaluationError, CommitError, StorageError, CorruptionError
            As of `delete`.
        """
        from projseg.maintenance.row_changes.delete_and_update import update_rows
        from projseg.maintenance.row_changes.matching_rows import update_of

        self._check_newest()
        self._check_own_rows()
        self.refresh()
        assigned, condition = update_of(
            values, filter, interval, timezone, args, self._state.reader.declared
        )
        self._snapshot, done = update_rows(
            self._snapshot, assigned, condition, self._note, dry_run=dry_run
        )
        self._refresh_views()
        return done

    def merge(
        self,
        data: RowsLike,
        on: Sequence[str],
        when_matched: Literal["update", "delete", "ignore"] = "update",
        when_not_matched: Literal["insert", "ignore"] = "insert",
        *,
        dry_run: bool = False,
    ) -> Corrected:
        """Update or delete the rows whose keys are in `data`, and insert the others of `data`.

        Parameters
        ----------
        data : as of `append`
            Held in memory whole. An update sets the columns that it has.
        on : sequence of str
            Key columns, in the table and in `data`; a null matches nothing.
        when_matched : {"update", "delete", "ignore"}
            What happens to a row of the table whose key is in `data`.
        when_not_matched : {"insert", "ignore"}
            What happens to a row of `data` whose key is not in the table.
        dry_run : bool
            As of `delete`.

        Returns
        -------
        Corrected
            The version written, and how many rows were deleted, updated and inserted.

        Raises
        ------
        InvalidInputError
            PROJSEG_AMBIGUOUS_MERGE if several rows of `data` would update one,
            PROJSEG_UNKNOWN_COLUMN, PROJSEG_BAD_ARGUMENT, and as of `append`.
        CommitError, StorageError, CorruptionError
            As of `delete`; a conflict if others append while rows are inserted, each time.
        """
        from projseg.input_rows import batches_of
        from projseg.maintenance.row_changes.merge_rows import merge_rows

        self._check_newest()
        self._check_own_rows()
        self.refresh()
        batches = batches_of(data, self.schema)
        self._snapshot, done = merge_rows(
            self._snapshot,
            batches,
            on,
            when_matched,
            when_not_matched,
            self._note,
            dry_run=dry_run,
        )
        self._refresh_views()
        return done

    def erase(
        self,
        filter: str,
        interval: IntervalLike | None = None,
        *,
        args: ArgumentsLike | None = None,
        timezone: str = "UTC",
        retention_hours: float = 0,
    ) -> Erased:
        """Delete rows for good, and search what is left of the table for their values.

        Deletes the rows, writes every segment anew that stores removed values, and removes the
        versions and files that no tag keeps. Then every file that is left is searched for the texts
        that the filter's columns had in these rows, and the filter is asked of every version that
        is left. Tags keep what they name, and are named. Nothing else may read from or write to the
        table meanwhile: files of running writes and queries are removed. Views are refreshed, and
        what they stored before is removed likewise.

        Parameters
        ----------
        filter, interval, args, timezone
            As of `delete`.
        retention_hours : float
            Versions that were current since then are kept, and named.

        Returns
        -------
        Erased
            How many rows were deleted, what was written anew, removed and searched, and `found`:
            one row for each place that still holds them; empty if none does.

        Raises
        ------
        InvalidInputError
            As of `delete`, and PROJSEG_BAD_ARGUMENT if the rows have too many texts to be searched
            for.
        EvaluationError, CommitError, StorageError, CorruptionError
            As of `delete`, `compact` and `vacuum`; call it again to go on.
        """
        from projseg.errors import InvalidInputError
        from projseg.maintenance.row_changes.erase import erase
        from projseg.maintenance.row_changes.matching_rows import condition_of

        self._check_newest()
        self._check_own_rows()
        self.refresh()
        if not isinstance(filter, str):
            raise InvalidInputError(
                "PROJSEG_BAD_QUERY", "an erasure needs a filter, which says whose rows go"
            )
        condition = condition_of(filter, interval, timezone, args, self._state.reader.declared)
        # Groups of the rows may be in views, also in those that do not follow commits.
        leave = None
        if self._snapshot.properties.is_in_views:
            from projseg.views.store_vacuum import leave_views

            leave = partial(leave_views, retention_hours=retention_hours, note=self._note)
        self._snapshot, done = erase(
            self._snapshot,
            condition,
            self._note,
            retention_hours=retention_hours,
            leave_views=leave,
        )
        self._state.keep_store(UNSET)
        return done

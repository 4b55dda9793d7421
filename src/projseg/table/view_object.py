"""`View`: one view of a table, and what can be done with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from projseg.table.segment_edits import OnProgress, interval_of
from projseg.table.stored_view import StoredView
from projseg.table.table_version import table_at
from projseg.views.refresh_work import Refresh, Work
from projseg.views.verify_views import verify_views
from projseg.views.view_tables import parts_table, view_detail

if TYPE_CHECKING:
    from projseg.algebra.query.request import IntervalLike
    from projseg.maintenance.findings import Finding


class View:
    """A view of a table; it moves on with the table object that it is of.

    Parameters
    ----------
    stored : StoredView
        The view's record in the table's store of views.
    """

    def __init__(self, stored: StoredView) -> None:
        self._stored = stored

    def __repr__(self) -> str:
        return f"<View '{self._stored.known_name}' of {table_at(self._stored.state.reader)!r}>"

    @property
    def name(self) -> str:
        """The view's name."""
        return self._stored.entry().name

    @property
    def sql(self) -> str:
        """The view's SELECT, as it was written."""
        return self._stored.entry().sql

    def refresh(
        self,
        full: bool = False,
        interval: IntervalLike | None = None,
        dry_run: bool = False,
        *,
        on_progress: OnProgress | None = None,
    ) -> Refresh:
        """Bring the view up to date with the newest version of its table, in one commit.

        Parameters
        ----------
        full : bool
            Build all parts anew.
        interval : str, pair of datetimes or None
            Compute only the groups of segments with rows in the interval; outdated parts are
            dropped for all times.
        dry_run : bool
            Only report what would be done.
        on_progress : callable or None
            A function that is called with the number of finished chunks and the number of all
            chunks.

        Returns
        -------
        Refresh
            kept, relabelled, subtracted, refolded, added, dropped (parts), rows_read,
            milliseconds, version (of the store; None if nothing was written), not_built.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_VIEW, PROJSEG_BAD_VIEW if it is disabled, PROJSEG_VIEW_BROKEN,
            PROJSEG_VIEW_NOT_INCREMENTAL, PROJSEG_PINNED_VERSION.
        UnsupportedFeatureError
            PROJSEG_VIEW_NEEDS_SPARK of a stored result whose tables have changed.
        CommitError, StorageError, CorruptionError
            What `Table.append` raises; the view stays as it was.
        """
        bounds = None if interval is None else interval_of(interval)
        return self._stored.refresh(Work(full, bounds, on_progress), dry_run=dry_run)

    def explain_refresh(self) -> Refresh:
        """Return what a refresh would do; the same as `refresh` with `dry_run`.

        Returns
        -------
        Refresh
            As in `refresh`; `rows_read` counts the rows that would be read.
        """
        return self.refresh(dry_run=True)

    def compact(self) -> Refresh:
        """Build all parts anew, as large as possible; the same as `refresh` with `full`.

        Returns
        -------
        Refresh
            As in `refresh`.
        """
        return self.refresh(full=True)

    def enable(self) -> None:
        """Let the view answer again, and refresh it at once.

        Raises
        ------
        InvalidInputError, CommitError, StorageError
            What `refresh` raises.
        """
        self._stored.alter(is_enabled=True)
        self._stored.state.refresh_views()

    def disable(self) -> None:
        """Keep the view, but neither use it nor refresh it.

        Raises
        ------
        InvalidInputError, CommitError, StorageError
            What `refresh` raises.
        """
        self._stored.alter(is_enabled=False)

    def rename(self, name: str) -> None:
        """Call the view by another name; its parts stay.

        Parameters
        ----------
        name : str
            The new name.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_NAME, PROJSEG_VIEW_EXISTS.
        CommitError, StorageError
            What `refresh` raises.
        """
        self._stored.alter(name=name)

    def set_properties(
        self, properties: Mapping[str, str] | None = None, *, unset: Sequence[str] = ()
    ) -> None:
        """Change the view's options; its parts stay.

        Parameters
        ----------
        properties : mapping of str to str, or None
            `refresh`, `chunk`, `retain` and `require`, as in `Table.create_view`.
        unset : sequence of str
            Options to remove: `retain` or `require`.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_VIEW, or what is wrong with a value.
        CommitError, StorageError
            What `refresh` raises.
        """
        self._stored.set_options(properties or {}, unset)

    def drop(self) -> None:
        """Drop the view; a vacuum of the table removes its files.

        If the store of views is damaged, its unreadable parts are dropped as well.

        Raises
        ------
        InvalidInputError, CommitError, StorageError
            What `refresh` raises.
        """
        self._stored.drop()

    def query(self, context: Mapping[str, Any] | None = None) -> pa.Table:
        """Return the rows of the view's SELECT now, from its parts where these cover the segments.

        Parameters
        ----------
        context : mapping or None
            As in `Table.query`.

        Returns
        -------
        pa.Table
            As in `Table.sql`.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_VIEW if an older release understood the view's SELECT differently, and what
            `Table.sql` raises.
        """
        return self._stored.rows(context)

    def detail(self) -> dict[str, Any]:
        """Return everything that the store knows about the view.

        Returns
        -------
        dict
            The columns of `Table.views`, and view_id, definition_hash, group_by, aggregators (what
            is stored), options, scope, zone, is_ansi, uncovered_segments and uncovered_rows (at the
            last refresh), not_built, store_version.
        """
        return view_detail(*self._stored.contents())

    def parts(self) -> pa.Table:
        """Return one row for each part of the view.

        Returns
        -------
        pa.Table
            part, chunk (its start), segments, rows_covered, groups, bytes, file, is_valid (for this
            version of the table), dimensions.
        """
        return parts_table(*self._stored.contents())

    def verify(self, deep: bool = False) -> list[Finding]:
        """Check the view's files and which segments they cover, and with `deep` also the groups.

        Parameters
        ----------
        deep : bool
            Compute the groups of each valid part again from its segments, and compare.

        Returns
        -------
        list of Finding
            One for each fault found; empty if there is none.
        """
        return verify_views(*self._stored.contents(), deep=deep)

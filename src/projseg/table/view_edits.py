"""`TableViews`: views of a table are made here; `View` has what can be done with one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from projseg.errors import UnsupportedFeatureError
from projseg.table.projection_edits import OnProgress
from projseg.table.writable_table import WritableTable

# A process that only asks starts without the modules that write; each method imports its own.
if TYPE_CHECKING:
    from projseg.table.queries import TableVersion
    from projseg.table.view_object import View
    from projseg.views.refresh_work import Refresh


class TableViews(WritableTable):
    """A table whose views are made, refreshed and dropped."""

    def create_view(
        self,
        name: str | None,
        sql: str | None = None,
        *,
        tables: Mapping[str, TableVersion] | None = None,
        dimensions: Sequence[str] | None = None,
        metrics: Sequence[str | Mapping[str, Any]] = (),
        granularity: str | None = None,
        derived: str | Mapping[str, Any] | Sequence[str] | None = None,
        refresh: str = "commit",
        chunk: str | None = None,
        cluster_by: Sequence[str] = (),
        retain: str | None = None,
        interval: str | None = None,
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
        replace: bool = False,
        build: bool = True,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> View | Refresh:
        """Store the groups of a SELECT for all segments, in parts that stand for many of them.

        The view appears with its parts in one commit, or not at all. Queries of the table are
        answered from it as far as it goes, and from the segments themselves for the rest, so that
        they return the same rows with it and without it.

        Parameters
        ----------
        name : str or None
            What it is called; None: the table's name and eight digits of what it stores.
        sql : str or None
            A SELECT over the table with GROUP BY, DISTINCT or aggregates; whatever name stands
            after FROM is this table's. Conditions that compare the time column with constants are
            the view's scope: only segments that lie wholly in it are covered.
        tables : mapping of str to Table, or None
            Other tables by their names in FROM, whose rows are joined as `projseg.sql` does; this
            table is the fact. The view follows their newest versions.
        dimensions, metrics, granularity
            Instead of `sql`: grouping columns, aggregates as SQL or as Druid's objects, and a
            truncation of the time column (Druid's name or an ISO period; None: no time).
        derived : str, mapping, sequence of str, or None
            Instead of `sql`: Druid's JSON of a `derivativeDataSource`; or its list of dimensions,
            with which the sums of all other numbers and the count of rows are kept, by the
            granularity of segments.
        refresh : str
            `commit`: after each commit to the table; `deferred`: only by `View.refresh`.
        chunk : str or None
            The unit of time of parts, such as `month`; None: one that holds 16 segments or more.
        cluster_by : sequence of str
            Grouping columns by which the groups of a part are ordered before the others: those that
            queries filter by. Empty: in the order in which SELECT names them.
        retain : str or None
            A length of time, `90 days`: segments whose rows are all older are not covered.
        interval : str or None
            Only segments that lie wholly in it are covered.
        properties : mapping of str to str, or None
            More options: `require`: `incremental`, so that a refresh which would fold everything
            anew is an error.
        comment : str or None
            For people.
        if_not_exists : bool
            Return the view of this name if there is one.
        replace : bool
            Drop a view of this name in the same commit.
        build : bool
            Whether it is built now; else it is empty until its first refresh.
        dry_run : bool
            Only say what would be built.
        on_progress : callable or None
            Called with how many chunks are done and how many there are.

        Returns
        -------
        View or Refresh
            The view; after a dry run what would be read and written.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_VIEW, PROJSEG_VIEW_EXISTS, PROJSEG_VIEW_NOT_DETERMINISTIC,
            PROJSEG_BAD_NAME, PROJSEG_BAD_OPTION, PROJSEG_PINNED_VERSION,
            PROJSEG_JOIN_KEY_NOT_UNIQUE, or what is wrong with an expression.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_SQL, PROJSEG_UNSUPPORTED_FUNCTION, PROJSEG_NOT_A_STAR.
        EvaluationError
            If no chunk can be built because of a value; nothing is published.
        CommitError, StorageError, CorruptionError
            As of `append`.
        """
        from projseg.table.view_form import ViewForm
        from projseg.table.view_object import new_view
        from projseg.views.definitions.view_checks import as_required

        self._check_newest()
        self.refresh()
        if if_not_exists and name is not None:
            store = self._state.reader.view_store()
            known = [] if store is None else store.views.values()
            if any(view.name.casefold() == name.casefold() for view in known):
                return self.view(name)
        try:
            form = ViewForm(sql, tables, dimensions, metrics, granularity, derived)
            definition = form.definition(self._state.reader, may_be_damaged=replace)
        except UnsupportedFeatureError as error:
            raise as_required(error, properties or {}) from None
        options = {"refresh": refresh, "chunk": chunk, "retain": retain, "interval": interval}
        options["cluster_by"] = json.dumps(list(cluster_by)) if cluster_by else None
        return new_view(
            self,
            name,
            definition,
            {**options, **(properties or {})},
            comment=comment,
            replace=replace,
            build=build,
            dry_run=dry_run,
            on_progress=on_progress,
        )

    def view(self, name: str) -> View:
        """Return a view by its name.

        Parameters
        ----------
        name : str
            Its name, in any case.

        Returns
        -------
        View
            It moves on with this table object.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_VIEW.
        StorageError
            If the store of views cannot be read. Of a damaged one, a view can only be dropped.
        """
        from projseg.errors import CorruptionError
        from projseg.table.view_object import UnreadEntry, View
        from projseg.views.view_store import unknown_view

        try:
            store = self._state.reader.view_store()
            if store is None:
                raise unknown_view(name, (), self.location)
            return View(self, store.view(name))
        except CorruptionError:
            return View(self, UnreadEntry(name))

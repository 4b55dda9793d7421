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
    from projseg.views.definitions.definition import Definition
    from projseg.views.definitions.result_definition import RunSelect
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
        from projseg.views.definitions.view_checks import as_required

        self._check_newest()
        self.refresh()
        if if_not_exists and name is not None:
            store = self._view_store()
            known = [] if store is None else store.views.values()
            if any(view.name.casefold() == name.casefold() for view in known):
                return self.view(name)
        try:
            definition = self._definition(
                sql, tables, dimensions, metrics, granularity, derived, may_be_damaged=replace
            )
        except UnsupportedFeatureError as error:
            raise as_required(error, properties or {}) from None
        options = {"refresh": refresh, "chunk": chunk, "retain": retain, "interval": interval}
        options["cluster_by"] = json.dumps(list(cluster_by)) if cluster_by else None
        return self._new_view(
            name,
            definition,
            {**options, **(properties or {})},
            comment=comment,
            replace=replace,
            build=build,
            dry_run=dry_run,
            on_progress=on_progress,
        )

    def _new_view(
        self,
        name: str | None,
        definition: Definition,
        options: Mapping[str, Any],
        *,
        comment: str | None = None,
        replace: bool = False,
        build: bool = True,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
        run_select: RunSelect | None = None,
    ) -> View | Refresh:
        """Make a view of a definition; the arguments are those of `create_view` and `Work`."""
        from projseg.table.view_object import View
        from projseg.views.definitions.definition import clustered
        from projseg.views.refresh_work import Work
        from projseg.views.view_life import NewView, create_view

        if (order := options.get("cluster_by")) and definition.grade == "grouped":
            definition = clustered(definition, json.loads(order), self.properties)
        if name is None:
            folder = self.location.rstrip("/").rpartition("/")[2]
            name = f"{folder}-{definition.digest[:8]}"
        new = NewView(name, definition, options, comment or "", is_built=build, replaces=replace)
        work = Work(on_progress=on_progress, run_select=run_select)
        self._snapshot, store, view, done = create_view(
            self._snapshot, new, self._note, dry_run=dry_run, work=work
        )
        if view is None:
            return done
        self._store = store
        return View(self, view)

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
        from projseg.table.view_object import View, damaged_view
        from projseg.views.view_store import unknown_view

        try:
            store = self._view_store()
            if store is None:
                raise unknown_view(name, (), self.location)
            return View(self, store.view(name))
        except CorruptionError:
            return damaged_view(self, name)

    def _definition(
        self,
        sql: str | None,
        tables: Mapping[str, TableVersion] | None,
        dimensions: Sequence[str] | None,
        metrics: Sequence[str | Mapping[str, Any]],
        granularity: str | None,
        derived: str | Mapping[str, Any] | Sequence[str] | None,
        *,
        may_be_damaged: bool = False,
    ) -> Definition:
        from projseg.views.definitions.definition import define
        from projseg.views.definitions.rollup_definition import define_rollup, derived_form
        from projseg.views.definitions.view_checks import bad_view

        self._check_reads_no_view(sql, tables or {}, may_be_damaged=may_be_damaged)
        given = {"sql": sql, "dimensions": dimensions, "derived": derived}
        said = [key for key, value in given.items() if value is not None]
        if len(said) != 1 or ("sql" in said and (metrics or granularity is not None)):
            raise bad_view(
                "a view is defined by sql, or by dimensions with metrics and granularity, or by "
                f"derived; {' and '.join(said) or 'none of them'} given"
            )
        if sql is not None and tables is None:
            return define(sql, self.properties)
        if sql is not None:
            return self._star_definition(sql, tables or {})
        if tables is not None:
            raise bad_view("tables are joined by sql; dimensions and metrics are of one table")
        if derived is not None:
            return define_rollup(
                **derived_form(derived, self.properties), properties=self.properties
            )
        return define_rollup(dimensions or (), metrics, granularity, self.properties)

    def _check_reads_no_view(
        self, sql: str | None, tables: Mapping[str, TableVersion], *, may_be_damaged: bool
    ) -> None:
        """Refuse a SELECT over a view of this table, whose rows are groups and not rows."""
        from projseg.errors import CorruptionError
        from projseg.views.definitions.view_checks import bad_view, checked_statement

        if sql is None:
            return
        try:
            store = self._view_store()
            views = () if store is None else tuple(store.views.values())
        except CorruptionError:
            if not may_be_damaged:
                raise
            views = ()
        statement = checked_statement(sql, with_joins=True)
        own = {self.location.rstrip("/").rpartition("/")[2], *tables}
        known = {one.name.casefold() for one in views} - {*map(str.casefold, own)}
        for one in (statement.table, *(join.table for join in statement.joins)):
            if one.written.casefold() in known:
                raise bad_view(
                    f"FROM names view '{one.written}', and no view reads another: group the rows "
                    "of the table"
                )

    def _star_definition(self, sql: str, tables: Mapping[str, TableVersion]) -> Definition:
        """Return what a SELECT that joins this table with others means."""
        from projseg.algebra.expressions.joined_values import path_of
        from projseg.reader.dimensions import TableDimension
        from projseg.table.star_statements import bound_statement
        from projseg.views.definitions.definition import define, define_star
        from projseg.views.definitions.view_checks import bad_view, checked_statement

        statement = checked_statement(sql, with_joins=True)
        if not statement.joins:
            return define(sql, self.properties)
        if any(one.table.is_versioned for one in statement.joins):
            raise bad_view("a view follows the newest versions of its tables: leave VERSION out")
        bound = bound_statement(statement, tables, self, None, None, self)
        if bound.version.location != self.location:
            raise bad_view(
                f"{bound.version.location} is the table whose rows are grouped here: make the view "
                "there, and name this table in tables"
            )
        selected = (statement.table, *(one.table for one in statement.joins))
        written = {one.written.casefold(): one.written for one in selected}
        given = {name.casefold(): table for name, table in tables.items()}
        named = {
            name: TableDimension(given.get(folded, self).snapshot)
            for folded, name in written.items()
        }
        joined = {path_of(node).dimension for node in bound.query.joins}
        own = self._snapshot.properties.table_id
        used = {n: one for n, one in named.items() if one in joined or one.table_id != own}
        return define_star(sql, bound.query, used, self._snapshot)

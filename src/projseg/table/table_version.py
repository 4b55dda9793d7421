"""`TableVersion`: one version of a table, to be asked and looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload

import pyarrow as pa

from projseg.algebra.expressions.sql_parameters import ArgumentsLike
from projseg.algebra.query.query_parts import QueryParts, query_of, with_query_parts
from projseg.algebra.query.request import Expressions, IntervalLike, Query
from projseg.errors import InvalidInputError, without_secrets
from projseg.extras import require
from projseg.memory.deadline import answered_within
from projseg.memory.forks import late_import
from projseg.table.questions import answer, explain_question, scanned, statement_answer, streamed
from projseg.table.table_state import TableState
from projseg.table.version_reader import VersionReader
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import TableProperties

if TYPE_CHECKING:
    import polars

    from projseg.declarations import Index, ProjectionLike
    from projseg.explain import Explain
    from projseg.maintenance.findings import Finding
    from projseg.maintenance.verify import OnSegment
    from projseg.table.dataset import TableDataset
    from projseg.table.inspection import AttachedSource, Inspection


class TableVersion:
    """A table at one version, to be read."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def __copy__(self) -> Self:
        return self._with_state(copy(self._state))

    def _with_state(self, state: TableState) -> Self:
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__, _state=state)
        return found

    @property
    def _inspection(self) -> Inspection:
        # Imported here, so that a process that only asks starts without it.
        with late_import:
            from projseg.table.inspection import Inspection

        return Inspection(self._state)

    def __repr__(self) -> str:
        segments, rows = len(self.snapshot.segments), self.snapshot.row_count
        where = f"{without_secrets(self.location)} at version {self.version}"
        return f"<Table {where}: {rows:,} rows in {segments:,} segments>"

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it."""
        return self._inspection.html()

    @property
    def location(self) -> str:
        """Where the table is: an absolute path."""
        return self._state.storage.location

    @property
    def schema(self) -> pa.Schema:
        """The columns, in projseg's types."""
        return self._state.reader.schema

    @property
    def version(self) -> int:
        """The version this object reads; the first is 0."""
        return self._state.snapshot.version

    @property
    def properties(self) -> TableProperties:
        """The declarations made at creation, and the projections that are declared now."""
        return self._state.properties

    @property
    def snapshot(self) -> Snapshot:
        """The version's metadata as the engine holds it; later releases may change it."""
        return self._state.snapshot

    @property
    def source(self) -> AttachedSource | None:
        """The source of a table over existing files; None if the table's rows are its own."""
        return self._inspection.source()

    @with_query_parts
    def query(
        self,
        group_by: Expressions | Query = (),
        aggregators: Expressions = (),
        filter: str | None = None,
        **parts: Unpack[QueryParts],
    ) -> pa.Table:
        """Return a query's final rows.

        Each segment answers from its cheapest projection that fits, or from base rows; the rows
        returned are the same either way.

        Parameters
        ----------
        group_by : str, sequence of str or Query
            Spark SQL expressions, `expression [AS name]`, and `ROLLUP(a, b)`, `CUBE(a, b)` and
            `GROUPING SETS ((a), ())`; or the whole query, alone.
        aggregators : str or sequence of str
            Aggregates, `sum(added) FILTER (WHERE ...) AS added`, and expressions over them and
            grouping columns. Without these and without `group_by` the query is a row scan of
            `columns`.
        filter : str or None
            A condition; rows for which it is not true are dropped.
        interval : str, pair of datetimes or None
            Half-open range of the time column.
        having : str or None
            A condition over the output's columns and over aggregates, which need not be output.
        order_by : str or sequence of str
            Expressions over output columns and aggregates, `expression [ASC|DESC] [NULLS
            FIRST|LAST]`. Without `order_by`, the order of groups is not defined.
        limit : int or None
            The most rows to return. Ties in the order are broken by the grouping columns, and in a
            scan of rows by time.
        columns : str or sequence of str, or None
            The columns of a row scan; None means all.
        context : mapping or None
            Options of the query, which docs/options.md lists, such as `useProjection`,
            `maxStaleness` (`'15 minutes'`) and `timezone`; and `timeLimit`, the most seconds that
            the query may take.
        args : mapping of str to value, sequence of values, or None
            The values for `:name`, or for `?`, in the texts: None, bool, int, float, Decimal, str,
            bytes, date, datetime (with a zone a timestamp, without one a timestamp_ntz), timedelta,
            UUID, a scalar of NumPy or Arrow; a list or an array for `IN (:name)`. A value is never
            read as SQL.
        joins : sequence of Join
            Dimension tables; all expressions may use their columns as `name.column`.

        Returns
        -------
        pa.Table
            One row for each group, with the grouping columns and then the aggregates; for a row
            scan, the rows with the chosen columns. The schema's metadata has the table version as
            `projseg.version`.

        Raises
        ------
        InvalidInputError
            If the query does not fit the table: PROJSEG_UNKNOWN_COLUMN, PROJSEG_BAD_EXPRESSION,
            PROJSEG_BAD_AGGREGATE, PROJSEG_BAD_QUERY, PROJSEG_BAD_INTERVAL,
            PROJSEG_UNKNOWN_CONTEXT_KEY, PROJSEG_BAD_CONTEXT_VALUE, PROJSEG_UNKNOWN_TIME_ZONE,
            PROJSEG_UNKNOWN_PROJECTION, PROJSEG_BAD_ARGUMENT, PROJSEG_JOIN_KEY_NOT_UNIQUE.
        ProjectionNotUsableError
            If no projection can answer as `useProjection` or `forceProjections` demands.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_FUNCTION, PROJSEG_NOT_A_STAR.
        LimitExceededError
            If an expression is too long, or an answer too large; PROJSEG_JOIN_TOO_LARGE.
        QueryTimeoutError
            PROJSEG_QUERY_TIMEOUT if the time of `timeLimit` is over. The time is checked between
            steps of work, most of which take a few hundredths of a second.
        EvaluationError
            If an expression meets a value that Spark's ANSI mode refuses.
        StorageError, CorruptionError
            If a file cannot be read, or is damaged.
        """
        query = query_of(group_by, aggregators=aggregators, filter=filter, **parts)
        with answered_within(query.query_context.time_limit):
            return answer(self._state.current(), query)

    @overload
    def sql(
        self,
        text: str | Query,
        *,
        context: Mapping[str, Any] | None = None,
        args: ArgumentsLike | None = None,
        tables: Mapping[str, TableVersion] | None = None,
        explain: Literal[False] = False,
    ) -> pa.Table: ...

    @overload
    def sql(
        self,
        text: str | Query,
        *,
        context: Mapping[str, Any] | None = None,
        args: ArgumentsLike | None = None,
        tables: Mapping[str, TableVersion] | None = None,
        explain: Literal[True],
    ) -> Explain: ...

    def sql(
        self,
        text: str | Query,
        *,
        context: Mapping[str, Any] | None = None,
        args: ArgumentsLike | None = None,
        tables: Mapping[str, TableVersion] | None = None,
        explain: bool = False,
    ) -> pa.Table | Explain:
        """Return the rows of one SELECT over this table, in Spark's SQL.

        Parameters
        ----------
        text : str or Query
            `SELECT ... FROM t ...`; any name after FROM stands for this table. VERSION AS OF and
            TIMESTAMP AS OF read another version of the table. Another SELECT may stand in FROM, in
            brackets or by the name that WITH gives it. Or EXPLAIN and a SELECT, DESCRIBE, SHOW
            PROJECTIONS, SHOW COLUMNS, SHOW SEGMENTS.
        context : mapping or None
            As in `query`; hints in the statement win over the context's options for projections.
        args : mapping of str to value, sequence of values, or None
            The same as in `query`; the first `?` from the left takes the first value, and so on.
        tables : mapping of str to Table, or None
            Other tables by their names in FROM, to be joined as `projseg.sql` does; every other
            name is this table's.
        explain : bool
            Return how the statement is answered, instead of its rows.

        Returns
        -------
        pa.Table or Explain
            The outputs in the order of the select list, with the names that Spark gives them.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_SQL, PROJSEG_UNKNOWN_VERSION, PROJSEG_UNKNOWN_TAG, and what `query` raises.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_SQL for what is more than one SELECT over one table: joins,
            subqueries, windows; PROJSEG_UNSUPPORTED_FUNCTION.
        ProjsegError
            What `query` raises.
        """
        if isinstance(text, Query):
            asked = query_of(text, context=context, args=args)
            return self.explain(asked) if explain else self.query(asked)
        readers = None if tables is None else readers_by_name(tables)
        return statement_answer(
            self._state.current(), text, context, args, readers, explain=explain
        )

    def scan(
        self,
        columns: Expressions | None = None,
        filter: str | None = None,
        interval: IntervalLike | None = None,
        limit: int | None = None,
        context: Mapping[str, Any] | None = None,
        args: ArgumentsLike | None = None,
        *,
        order_by: Expressions | None = None,
    ) -> pa.RecordBatchReader:
        """Return rows as a stream of batches, for answers that need not fit in memory.

        Parameters
        ----------
        columns, filter, interval, limit, context, args, order_by
            As in `query`. Rows in an order that take more than `PROJSEG_GROUP_BYTES` go to a
            temporary file.

        Returns
        -------
        pa.RecordBatchReader
            The batches; threads make a few of them ahead of the reader.

        Raises
        ------
        ProjsegError
            What `query` raises; the reader raises errors about values or files.
        """
        query = Query(
            columns=columns,
            filter=filter,
            interval=interval,
            limit=limit,
            context=context,
            args=args,
            order_by=order_by or (),
        )
        with answered_within(query.query_context.time_limit):
            return scanned(self._state.current(), query)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return all rows as an Arrow C stream, which DuckDB, Polars and pyarrow read.

        Whoever is given the table may ask for several streams; each is planned and read when its
        first batch is asked for, and holds a few batches at a time.

        Parameters
        ----------
        requested_schema : capsule or None
            An Arrow schema to cast the columns to.

        Returns
        -------
        capsule
            An `ArrowArrayStream`.
        """
        return streamed(self._state.current()).__arrow_c_stream__(requested_schema)

    def dataset(self) -> TableDataset:
        """Return this version as a dataset of pyarrow, for other tools to read.

        DuckDB, Polars, ibis and pyarrow pass the columns and conditions that they need to the
        dataset.

        Returns
        -------
        TableDataset
            A `pyarrow.dataset.Dataset`.
        """
        # Imported here, so that a process that only asks starts without it.
        with late_import:
            from projseg.table.dataset import TableDataset

        return TableDataset(self._state.current())

    def lazy(self) -> polars.LazyFrame:
        """Return this version as a lazy frame of Polars, which reads only what its steps need.

        Returns
        -------
        polars.LazyFrame
            The frame. Polars itself evaluates the conditions that it does not pass on: conditions
            on decimals and structs, and functions of texts.

        Raises
        ------
        MissingPackageError
            PROJSEG_MISSING_PACKAGE if Polars 2 is not installed.
        """
        require("polars", "lazy()")
        import polars

        return polars.scan_pyarrow_dataset(self.dataset())

    @with_query_parts
    def explain(
        self,
        group_by: Expressions | Query = (),
        aggregators: Expressions = (),
        filter: str | None = None,
        *,
        analyze: bool = False,
        what_if: Sequence[ProjectionLike | Index] = (),
        without: Sequence[str] = (),
        **parts: Unpack[QueryParts],
    ) -> Explain:
        """Return, for each segment the query reads, its source and why others were not used.

        Parameters
        ----------
        group_by, aggregators, filter, interval, having, order_by, limit, columns, context, args
            As in `query`; or a whole SELECT, as in `sql`, beside which only `context` and `args`
            may be given.
        joins : sequence of Join
            As in `query`.
        analyze : bool
            Also run the query, and report the rows and bytes that it read and its milliseconds.
        what_if : sequence of Projection, mapping, JSON text or Index
            Plan as if every segment had these projections and indexes. Their size is measured by
            building them for some segments in memory; nothing is written.
        without : sequence of str
            Plan as if the table had none of these projections.

        Returns
        -------
        Explain
            The explanation; `print` shows it as a tree.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_PROJECTION, PROJSEG_PROJECTION_EXISTS, PROJSEG_UNKNOWN_PROJECTION,
            PROJSEG_BAD_INDEX, PROJSEG_INDEX_EXISTS; or PROJSEG_BAD_ARGUMENT if `analyze` is
            combined with `what_if` or `without`.
        ProjsegError
            What `query` raises; errors about values are raised only with `analyze`.
        """
        question = {"aggregators": aggregators, "filter": filter, **parts}
        return explain_question(
            self._state.current(),
            group_by,
            analyze=analyze,
            what_if=what_if,
            without=without,
            **question,
        )

    def history(self) -> pa.Table:
        """Return the versions that are kept, newest first.

        Returns
        -------
        pa.Table
            version, timestamp (of the commit), userName, operation, operationParameters,
            operationMetrics, engineInfo, userMetadata, readVersion, isBlindAppend, metrics (as
            numbers), write_id, rows, bytes (of all segments). A field that the commit does not
            state is null.

        Raises
        ------
        StorageError, CorruptTableError
            If a version cannot be read.
        """
        return self._inspection.rows("history")

    def tags(self) -> pa.Table:
        """Return the table's tags, by name, as the newest version has them.

        Returns
        -------
        pa.Table
            tag, version.

        Raises
        ------
        StorageError, CorruptTableError
            If the newest version cannot be read.
        """
        return self._inspection.tags()

    def detail(self) -> dict[str, Any]:
        """Return the table's declaration and its totals.

        Returns
        -------
        dict
            location, table_id, version, columns (name to type), time_column, segment_granularity,
            cluster_by, target_segment_rows, projections (names), properties, segments (count),
            rows, bytes, dead_bytes (bytes of deleted rows, dropped columns and dropped projections
            in these segments, without the dictionaries that only these use), still_stored (as in
            `Vacuumed`; it says which of this version, the 100 versions before it and the tags store
            removed values). A table over existing files also has source, source_version,
            source_files, source_files_without_companion, left_out (source columns that the table
            does not have, with the reason).
        """
        return self._inspection.detail()

    def segments(self) -> pa.Table:
        """Return one row per segment, ordered by time.

        Returns
        -------
        pa.Table
            segment (its file), interval_start, interval_end, min_time, max_time, rows, bytes,
            projections (names), not_built (map from projection to why it was not built),
            deleted_rows (rows hidden by a deletion vector; `rows` does not count them).
        """
        return self._inspection.rows("segments")

    def projections(self) -> pa.Table:
        """Return one row per declared projection.

        Returns
        -------
        pa.Table
            name, group_by, aggregators, filter, definition_hash, segments (that hold it),
            segments_missing (that do not), rows, bytes.
        """
        return self._inspection.rows("projections")

    def projection_stats(self) -> pa.Table:
        """Return one row per declared projection: where it is built, and why not elsewhere.

        Returns
        -------
        pa.Table
            projection, definition_hash, build (`immediate` or `deferred`); numbers of segments:
            built, missing, skipped (because of the projection's scope) and failed; rows and bytes;
            base_rows (base rows of the segments that hold it) and base_share (their share of all
            rows); coverage (a list of start and end of the time chunks all of whose segments hold
            it); reasons (why segments were skipped or failed, each reason once).
        """
        return self._inspection.rows("projectionStats")

    def columns(self) -> pa.Table:
        """Return one row per column, with its totals over all segments.

        Returns
        -------
        pa.Table
            column, type, bytes, null_count, segments (that have it).
        """
        return self._inspection.rows("columns")

    def indexes(self) -> pa.Table:
        """Return one row for each column of each index.

        Returns
        -------
        pa.Table
            name, kind, column, fpp, postings, build; segments (of the table), covered (segments
            with a filter), skipped and failed (segments without a filter, by the reason), keys (in
            all filters), bloom_bytes, postings_bytes (in segments), files; status, which is
            `ENABLED`, `PARTIAL` (some segments lack the index) or `DISABLED` (the column's type was
            changed, so that its filters cannot be used).
        """
        return self._inspection.rows("indexes")

    def views(self) -> pa.Table:
        """Return one row for each view of the table, at the version of this object.

        Returns
        -------
        pa.Table
            name, grade, status (`ENABLED`, `DISABLED`), state (`empty`, `fresh`, `behind`,
            `failed`, `broken`), segments (that this version lists), segments_covered,
            rows_covered (the share of its rows), parts, rows (groups), bytes, chunk, refresh,
            refreshed_at, version (of the table, at the last refresh), last_refresh, last_error,
            comment, definition. A view that cannot be read has its error in `last_error`.

        Raises
        ------
        StorageError, CorruptTableError
            If the store of views cannot be read.
        """
        return self._inspection.views()

    def verify(
        self,
        deep: bool = False,
        *,
        all_versions: bool = False,
        on_segment: OnSegment | None = None,
    ) -> list[Finding]:
        """Check every file of this version and of its views, reading them without any cache.

        Parameters
        ----------
        deep : bool
            Also compare the table's statements about columns, times and order with the rows;
            recompute every projection and every part of a view from the rows, and compare.
        all_versions : bool
            Check the newest version and every earlier one that retention or a tag keeps; files
            that they share are read once.
        on_segment : callable, optional
            A function that is called with each checked segment.

        Returns
        -------
        list of Finding
            One finding for each fault; the list is empty if there is none.
        """
        return self._inspection.findings(
            deep=deep, all_versions=all_versions, on_segment=on_segment
        )


def table_at(reader: VersionReader) -> TableVersion:
    """Return a version as an object that stays at it."""
    return TableVersion(TableState(reader))


def current_version(table: TableVersion, max_age: float | None = None) -> TableVersion:
    """Return the version for a question that is asked now, as `TableState.current` says."""
    return table_at(state_of(table).current(max_age))


def state_of(table: TableVersion) -> TableState:
    """Return the version that a table object holds, and how it moves on."""
    return table._state  # noqa: SLF001 - of this module's class


def reader_of(table: TableVersion) -> VersionReader:
    """Return the version that a table object holds, to be read."""
    return state_of(table).reader


def readers_by_name(tables: Mapping[str, TableVersion]) -> dict[str, VersionReader]:
    """Return the versions of tables that a caller gives by name, to be read."""
    known = tables.items() if isinstance(tables, Mapping) else [("", tables)]
    readers = {
        name: reader_of(table)
        for name, table in known
        if isinstance(name, str) and isinstance(table, TableVersion)
    }
    if len({name.casefold() for name in readers}) < len(known):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"tables is {str(tables)[:200]}; give a dict of names, which differ in more than case, "
            "and of tables, such as {'edits': edits}",
        )
    return readers

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
        """The files of others that it stands over; None: its rows are its own."""
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
            Keeps rows for which it is true.
        interval : str, pair of datetimes or None
            Half-open range of the time column.
        having : str or None
            Over the output's columns and over aggregates, which need not be among them.
        order_by : str or sequence of str
            Over the same, `expression [ASC|DESC] [NULLS FIRST|LAST]`. Without it, groups come in
            no order that may be relied on.
        limit : int or None
            Rows to return at most; ties fall to the grouping columns, of rows to time.
        columns : str or sequence of str, or None
            Of a row scan; None is all.
        context : mapping or None
            What steers the query, by the options of docs/options.md, such as `useProjection`,
            `maxStaleness` (`'15 minutes'`) and `timezone`; and `timeLimit`, the seconds in which
            the answer must be there.
        args : mapping of str to value, sequence of values, or None
            What stands for `:name`, or for `?`, in the texts: None, bool, int, float, Decimal,
            str, bytes, date, datetime (with a zone a timestamp, without one a timestamp_ntz),
            timedelta, UUID, a scalar of NumPy or Arrow; a list or an array for `IN (:name)`. A
            value is never read as SQL.
        joins : sequence of Join
            Dimensions, whose columns all texts may name as `name.column`.

        Returns
        -------
        pa.Table
            One row for each group, with the grouping columns and then the aggregates; of a row
            scan, its columns. The schema's metadata has the version, as `projseg.version`.

        Raises
        ------
        InvalidInputError
            If the query does not fit the table: PROJSEG_UNKNOWN_COLUMN, PROJSEG_BAD_EXPRESSION,
            PROJSEG_BAD_AGGREGATE, PROJSEG_BAD_QUERY, PROJSEG_BAD_INTERVAL,
            PROJSEG_UNKNOWN_CONTEXT_KEY, PROJSEG_BAD_CONTEXT_VALUE, PROJSEG_UNKNOWN_TIME_ZONE,
            PROJSEG_UNKNOWN_PROJECTION, PROJSEG_BAD_ARGUMENT, PROJSEG_JOIN_KEY_NOT_UNIQUE.
        ProjectionNotUsableError
            If `useProjection` or `forceProjections` cannot be met.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_FUNCTION, PROJSEG_NOT_A_STAR.
        LimitExceededError
            If an expression is too long, or an answer too large; PROJSEG_JOIN_TOO_LARGE.
        QueryTimeoutError
            PROJSEG_QUERY_TIMEOUT: timeLimit passed. It is looked at between pieces of work, of
            which most take a few hundredths of a second.
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
            `SELECT ... FROM t ...`; whatever name stands after FROM is this table's. VERSION AS OF
            and TIMESTAMP AS OF read another of its versions. Another SELECT may stand in FROM, in
            brackets or by the name that WITH gives it. Or EXPLAIN and a SELECT, DESCRIBE, SHOW
            PROJECTIONS, SHOW COLUMNS, SHOW SEGMENTS.
        context : mapping or None
            As of `query`; hints in the statement win over what it says of projections.
        args : mapping of str to value, sequence of values, or None
            As of `query`; `?` are counted from the left.
        tables : mapping of str to Table, or None
            Other tables by their names in FROM, to be joined as `projseg.sql` does; every other
            name is this table's.
        explain : bool
            Return how the statement is answered instead.

        Returns
        -------
        pa.Table or Explain
            The outputs in the order of the select list, with the names that Spark gives them.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_SQL, PROJSEG_UNKNOWN_VERSION, PROJSEG_UNKNOWN_TAG; and as of `query`.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_SQL for what is more than one SELECT over one table: joins,
            subqueries, windows; PROJSEG_UNSUPPORTED_FUNCTION.
        ProjsegError
            As of `query`.
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
            As of `query`. Rows in an order that take more than `PROJSEG_GROUP_BYTES` go to a
            temporary file.

        Returns
        -------
        pa.RecordBatchReader
            Batches are made a few ahead of the reader, in threads.

        Raises
        ------
        ProjsegError
            As of `query`; what is wrong with values or files is raised by the reader.
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
        """Return this version as a dataset of pyarrow, of which other tools read parts.

        DuckDB, Polars, ibis and pyarrow hand it the columns and conditions that they need.

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
        """Return this version as a lazy frame of Polars, which reads what its steps need.

        Returns
        -------
        polars.LazyFrame
            Conditions that Polars does not hand over (on decimals and structs, and functions of
            texts) are its own work.

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
            As of `query`; or a whole SELECT as of `sql`, with no more than a context and args.
        joins : sequence of Join
            As of `query`.
        analyze : bool
            Run the query, and report the rows, bytes and milliseconds that it took.
        what_if : sequence of Projection, mapping, JSON text or Index
            Plan as if every segment had these projections and indexes, of the size that some
            segments show in memory. Nothing is written.
        without : sequence of str
            Plan as if the table had none of these projections.

        Returns
        -------
        Explain
            Printed, it is a tree.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_PROJECTION, PROJSEG_PROJECTION_EXISTS, PROJSEG_UNKNOWN_PROJECTION,
            PROJSEG_BAD_INDEX, PROJSEG_INDEX_EXISTS; or PROJSEG_BAD_ARGUMENT for `analyze` of what
            is not there.
        ProjsegError
            As of `query`; about values only with `analyze`.
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
            numbers), write_id, rows, bytes (of all segments). Null is what was not said.

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
            rows, bytes, dead_bytes (of deleted rows, dropped columns and dropped projections in
            these segments, without the dictionaries that only they use), still_stored (as of
            `Vacuumed`: which of this version and the 100 before it, and which tags, store removed
            values). Of a table over files of others also source, source_version, source_files,
            source_files_without_companion, left_out (columns, and why).
        """
        return self._inspection.detail()

    def segments(self) -> pa.Table:
        """Return one row per segment, ordered by time.

        Returns
        -------
        pa.Table
            segment (its file), interval_start, interval_end, min_time, max_time, rows, bytes,
            projections (names), not_built (reason by name), deleted_rows (hidden; not in rows).
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
        """Return one row per declared projection: where it is built, and where not and why.

        Returns
        -------
        pa.Table
            projection, definition_hash, build (`immediate` or `deferred`); segments by what became
            of it in them: built, missing, skipped (by its scope) and failed; rows and bytes;
            base_rows (of the segments that hold it) and base_share (of all rows); coverage (a list
            of start and end: the time chunks all of whose segments hold it); reasons (of those that
            were skipped or failed, each once).
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
            name, kind, column, fpp, postings, build; segments (of the table), covered (with a
            filter), skipped and failed (without, for a reason), keys (of all filters), bloom_bytes,
            postings_bytes (in segments), files; status: `ENABLED`, `PARTIAL` (segments lack it) or
            `DISABLED` (the column's type was changed so that its filters cannot be asked).
        """
        return self._inspection.rows("indexes")

    def views(self) -> pa.Table:
        """Return one row for each view of the table, as this object knows them.

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
        """Check every file of this version, and its views, read anew, past every cache.

        Parameters
        ----------
        deep : bool
            Also compare what the table says of columns, times and order with the rows, and every
            projection and every part of a view with its recomputation from them.
        all_versions : bool
            Check the newest version and every earlier one that retention or a tag keeps; files
            that they share are read once.
        on_segment : callable, optional
            Called with each segment that was checked.

        Returns
        -------
        list of Finding
            One for each fault found; empty if there is none.
        """
        return self._inspection.findings(
            deep=deep, all_versions=all_versions, on_segment=on_segment
        )


def table_at(reader: VersionReader) -> TableVersion:
    """Return a version as an object that stays at it."""
    return TableVersion(TableState(reader))


def current_version(table: TableVersion, max_age: float | None = None) -> TableVersion:
    """Return the version of which a question is asked now, as `TableState.current` says."""
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

"""`TableVersion`: reading one version of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as replace_fields
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import pyarrow as pa

from projseg.algebra.expressions.sql_parameters import ArgumentsLike
from projseg.algebra.query.query_parts import (
    QueryParts,
    query_of,
    statement_options,
    with_query_parts,
)
from projseg.algebra.query.request import Expressions, IntervalLike, Query
from projseg.algebra.query.statement_words import is_select
from projseg.errors import InvalidInputError, listed
from projseg.extras import require
from projseg.memory.deadline import answered_within
from projseg.memory.forks import late_import
from projseg.table.inspection import TableInspection, state_of
from projseg.table.questions import (
    answer,
    explain_of_select,
    explained,
    scanned,
    statement_answer,
    streamed,
)
from projseg.table.table_state import TableState
from projseg.table.version_reader import VersionReader

if TYPE_CHECKING:
    import polars

    from projseg.declarations import Index, ProjectionLike
    from projseg.explain import Explain
    from projseg.table.dataset import TableDataset


class TableVersion(TableInspection):
    """A table at one version, to be read."""

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
        return statement_answer(self._state.current(), text, context, args, tables, explain=explain)

    def scan(
        self,
        columns: Expressions | None = None,
        filter: str | None = None,
        interval: IntervalLike | None = None,
        limit: int | None = None,
        context: Mapping[str, Any] | None = None,
        args: ArgumentsLike | None = None,
    ) -> pa.RecordBatchReader:
        """Return rows as a stream of batches, for answers that need not fit in memory.

        Parameters
        ----------
        columns, filter, interval, limit, context, args
            As of `query`.

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
        stream = streamed(self._state.current())
        return stream.__arrow_c_stream__(requested_schema)

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
        reader = self._state.current()
        if not (what_if or without):
            if is_select(group_by):
                options = statement_options(aggregators=aggregators, filter=filter, **parts)
                return explain_of_select(reader, group_by, analyze=analyze, **options)
            asked = query_of(group_by, aggregators=aggregators, filter=filter, **parts)
            return explained(reader, asked, analyze=analyze)
        if analyze:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                "analyze runs a query, and what_if and without plan over what is not there; "
                "give one of them",
            )
        with late_import:
            from projseg.table.what_if_versions import what_if_version

        what_if, without = listed("what_if", what_if), listed("without", without)
        found = what_if_version(reader.snapshot, what_if, without)
        with late_import:
            from projseg.reader.plan.imagined_indexes import pruned_by_imagined

        pruned = partial(pruned_by_imagined, indexes=found.indexes)
        version = table_at(reader.imagined(found.snapshot, pruned))
        plan = version.explain(group_by, aggregators=aggregators, filter=filter, **parts)
        return replace_fields(plan, hypothetical=found.added, without=tuple(without))


def table_at(reader: VersionReader) -> TableVersion:
    """Return a version as an object that stays at it."""
    return TableVersion(TableState(reader))


def current_version(table: TableVersion, max_age: float | None = None) -> TableVersion:
    """Return the version of which a question is asked now, as `TableState.current` says."""
    return table_at(state_of(table).current(max_age))

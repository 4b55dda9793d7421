"""`TableVersion`: reading one version of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from projseg.algebra.query.request import Expressions, IntervalLike, Query, query_of
from projseg.algebra.query.spec import bind_query
from projseg.reader.answer import answer
from projseg.reader.plan import QueryPlan, plan_query
from projseg.reader.row_scan import scan
from projseg.table_layer import metadata_tables
from projseg.table_layer.snapshot import Snapshot
from projseg.table_layer.storage import Storage
from projseg.table_layer.table_properties import TableProperties

if TYPE_CHECKING:
    from projseg.explain import Explain
    from projseg.maintenance.verify import Finding


class TableVersion:
    """A table at one version, to be read.

    Parameters
    ----------
    storage : Storage
        Where the table is.
    snapshot : Snapshot
        The version.
    """

    def __init__(self, storage: Storage, snapshot: Snapshot) -> None:
        self._storage = storage
        self._snapshot = snapshot

    def __repr__(self) -> str:
        segments, rows = len(self._snapshot.segments), self._snapshot.row_count
        where = f"{self.location} at version {self.version}"
        return f"<Table {where}: {rows:,} rows in {segments:,} segments>"

    @property
    def location(self) -> str:
        """Where the table is: an absolute path."""
        return self._storage.location

    @property
    def schema(self) -> pa.Schema:
        """The columns, in projseg's types."""
        return self._snapshot.properties.schema

    @property
    def version(self) -> int:
        """The version this object reads; the first is 0."""
        return self._snapshot.version

    @property
    def properties(self) -> TableProperties:
        """The declarations made at creation, and the projections that are declared now."""
        return self._snapshot.properties

    @property
    def snapshot(self) -> Snapshot:
        """The version's metadata as the engine holds it; later releases may change it."""
        return self._snapshot

    def query(
        self,
        group_by: Expressions | Query = (),
        aggregators: Expressions = (),
        filter: str | None = None,
        interval: IntervalLike | None = None,
        having: str | None = None,
        order_by: Expressions = (),
        limit: int | None = None,
        columns: Expressions | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> pa.Table:
        """Return a query's final rows.

        Each segment answers from its cheapest projection that fits, or from base rows; the rows
        returned are the same either way.

        Parameters
        ----------
        group_by : str, sequence of str or Query
            Spark SQL expressions, `expression [AS name]`; or the whole query, alone.
        aggregators : str or sequence of str
            Aggregates, `sum(added) FILTER (WHERE ...) AS added`. Without these and without
            `group_by` the query is a row scan of `columns`.
        filter : str or None
            Keeps rows for which it is true.
        interval : str, pair of datetimes or None
            Half-open range of the time column.
        having : str or None
            Over the output's columns.
        order_by : str or sequence of str
            Over the output's columns, `expression [ASC|DESC] [NULLS FIRST|LAST]`.
        limit : int or None
            Rows to return at most; ties fall to the grouping columns, of rows to time.
        columns : str or sequence of str, or None
            Of a row scan; None is all.
        context : mapping or None
            useProjection, forceProjections, noProjections, excludeProjections, timezone, threads.

        Returns
        -------
        pa.Table
            One row for each group, with the grouping columns and then the aggregates; of a row
            scan, its columns.

        Raises
        ------
        InvalidInputError
            If the query does not fit the table: PROJSEG_UNKNOWN_COLUMN, PROJSEG_BAD_EXPRESSION,
            PROJSEG_BAD_AGGREGATE, PROJSEG_BAD_QUERY, PROJSEG_BAD_INTERVAL,
            PROJSEG_UNKNOWN_CONTEXT_KEY, PROJSEG_BAD_CONTEXT_VALUE, PROJSEG_UNKNOWN_TIME_ZONE,
            PROJSEG_UNKNOWN_PROJECTION.
        ProjectionNotUsableError
            If `useProjection` or `forceProjections` cannot be met.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_FUNCTION.
        LimitExceededError
            If an expression is too long, or an answer too large.
        EvaluationError
            If an expression meets a value that Spark's ANSI mode refuses.
        StorageError, CorruptionError
            If a file cannot be read, or is damaged.
        """
        query = query_of(
            group_by,
            aggregators=aggregators,
            filter=filter,
            interval=interval,
            having=having,
            order_by=order_by,
            limit=limit,
            columns=columns,
            context=context,
        )
        return answer(self._storage, self._plan(query))

    def scan(
        self,
        columns: Expressions | None = None,
        filter: str | None = None,
        interval: IntervalLike | None = None,
        limit: int | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> pa.RecordBatchReader:
        """Return rows as a stream of batches, for answers that need not fit in memory.

        Parameters
        ----------
        columns, filter, interval, limit, context
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
        plan = self._plan(
            Query(columns=columns, filter=filter, interval=interval, limit=limit, context=context)
        )
        batches = scan(self._storage, plan, plan.segments)
        return pa.RecordBatchReader.from_batches(plan.query.output_schema, batches)

    def explain(
        self,
        group_by: Expressions | Query = (),
        aggregators: Expressions = (),
        filter: str | None = None,
        interval: IntervalLike | None = None,
        having: str | None = None,
        order_by: Expressions = (),
        limit: int | None = None,
        columns: Expressions | None = None,
        context: Mapping[str, Any] | None = None,
        *,
        analyze: bool = False,
    ) -> Explain:
        """Return, for each segment the query reads, its source and why others were not used.

        Parameters
        ----------
        group_by, aggregators, filter, interval, having, order_by, limit, columns, context
            As of `query`.
        analyze : bool
            Run the query, and report the rows, bytes and milliseconds that it took.

        Returns
        -------
        Explain
            Printed, it is a tree.

        Raises
        ------
        ProjsegError
            As of `query`; about values only with `analyze`.
        """
        # Imported here, so that a process that only asks starts without it.
        from projseg.explain import explain_plan

        query = query_of(
            group_by,
            aggregators=aggregators,
            filter=filter,
            interval=interval,
            having=having,
            order_by=order_by,
            limit=limit,
            columns=columns,
            context=context,
        )
        return explain_plan(self._storage, query, self._plan(query), analyze=analyze)

    def _plan(self, query: Query) -> QueryPlan:
        time_column = self._snapshot.properties.time_column
        return plan_query(self._snapshot, bind_query(self.schema, time_column, query))

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
        return metadata_tables.history(self._storage)

    def detail(self) -> dict[str, Any]:
        """Return the table's declaration and its totals.

        Returns
        -------
        dict
            location, table_id, version, columns (name to type), time_column, segment_granularity,
            cluster_by, target_segment_rows, projections (names), properties, segments (count),
            rows, bytes.
        """
        return metadata_tables.detail(self._snapshot)

    def segments(self) -> pa.Table:
        """Return one row per segment, ordered by time.

        Returns
        -------
        pa.Table
            segment (its file), interval_start, interval_end, min_time, max_time, rows, bytes,
            projections (names), not_built (reason by name), deleted_rows (hidden; not in rows).
        """
        return metadata_tables.segments(self._snapshot)

    def projections(self) -> pa.Table:
        """Return one row per declared projection.

        Returns
        -------
        pa.Table
            name, group_by, aggregators, filter, definition_hash, segments (that hold it),
            segments_missing (that do not), rows, bytes.
        """
        return metadata_tables.projections(self._snapshot)

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
        # Imported here, so that a process that only asks starts without it.
        from projseg.table_layer.projection_coverage import projection_stats

        return projection_stats(self._snapshot)

    def columns(self) -> pa.Table:
        """Return one row per column, with its totals over all segments.

        Returns
        -------
        pa.Table
            column, type, bytes, null_count, segments (that have it).
        """
        return metadata_tables.columns(self._snapshot)

    def verify(self, deep: bool = False) -> list[Finding]:
        """Check every file of this version, read anew, past every cache.

        Parameters
        ----------
        deep : bool
            Also compare what the table says of columns, times and order with the rows, and every
            projection with its recomputation from them.

        Returns
        -------
        list of Finding
            One for each fault found; empty if there is none.
        """
        # Imported here, so that a process that only asks starts without it.
        from projseg.maintenance.verify import verify_table

        return verify_table(self._storage, self._snapshot, deep=deep)

"""`Table`: the front door without Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from projseg.algebra.interval import Interval
from projseg.algebra.projection_parse import parse_projection
from projseg.algebra.query_spec import QuerySpec, bind_query
from projseg.declarations import (
    ProjectionDeclared,
    SchemaDeclared,
    declaration_of,
    declare_properties,
    declared,
    schema_of,
)
from projseg.errors import InvalidInputError
from projseg.explain import Explain
from projseg.reader.query import plan_query, run_final
from projseg.reader.row_scan import scan, scan_table
from projseg.rows import Rows
from projseg.table_layer import metadata_tables
from projseg.table_layer.change import Append, Change, Overwrite, SetProperties
from projseg.table_layer.commit import commit, create_table
from projseg.table_layer.paths import new_write_id
from projseg.table_layer.snapshot import Snapshot, open_snapshot
from projseg.table_layer.storage import open_storage
from projseg.table_layer.table_properties import TARGET_SEGMENT_ROWS, TableProperties
from projseg.table_layer.versions import is_table as _is_table
from projseg.table_write import ChangeOf, Commit, OnSegment, create_with_rows, write_rows

if TYPE_CHECKING:
    from projseg.maintenance.verify import Finding

Expressions = str | Sequence[str]
IntervalLike = str | tuple[Any, Any] | Interval


def is_table(location: str | os.PathLike[str]) -> bool:
    """Whether `location` holds a projseg table; a damaged one is an error, not False."""
    return _is_table(location)


class Table:
    """A table at one version; a write through this object moves it to the version written.

    Parameters
    ----------
    location : str or path, a directory or `file:` URI
    version : int or None
        The version to read, and not to write: a commit always follows the newest. None: the
        newest.

    Raises
    ------
    InvalidInputError
        PROJSEG_NOT_A_TABLE, PROJSEG_UNKNOWN_VERSION.
    """

    def __init__(self, location: str | os.PathLike[str], version: int | None = None) -> None:
        self._storage = open_storage(location)
        self._snapshot = open_snapshot(self._storage, version)
        self._is_pinned = version is not None

    @classmethod
    def create(
        cls,
        location: str | os.PathLike[str],
        schema: SchemaDeclared,
        *,
        time_column: str | None = None,
        segment_granularity: str = "all",
        cluster_by: Sequence[str] = (),
        projections: Sequence[ProjectionDeclared] = (),
        target_segment_rows: int = TARGET_SEGMENT_ROWS,
        properties: Mapping[str, str] | None = None,
        data: Rows | None = None,
        on_segment: OnSegment | None = None,
    ) -> Table:
        """Create a table: empty, or with its first rows in the same commit.

        Parameters
        ----------
        location : str or path
            Must not hold a table.
        schema : pa.Schema, or mapping of column names to types
            Types are Arrow's, or texts as Spark SQL writes them; all are brought to Spark's.
        time_column : str or None
            What intervals, `first`/`last` and segment granularity go by.
        segment_granularity : str
            A segment lies within one such chunk of time: Druid's name or an ISO period.
        cluster_by : sequence of str
            Sort order of a segment's rows; time is last unless it is named.
        projections : sequence
            `Projection`, mapping or JSON text, in any of the three forms.
        target_segment_rows : int
            Rows at which a segment is full.
        properties : mapping of str to str
            Kept for the user.
        data, on_segment
            As of `append`. If the rows cannot be written, there is no table.
        """
        storage = open_storage(location)
        properties_declared = declare_properties(
            schema_of(schema),
            time_column=time_column,
            segment_granularity=segment_granularity,
            cluster_by=cluster_by,
            projections=projections,
            target_segment_rows=target_segment_rows,
            properties=properties,
        )
        if data is None:
            create_table(storage, properties_declared)
        else:
            create_with_rows(storage, properties_declared, data, on_segment=on_segment)
        return cls(location)

    def __repr__(self) -> str:
        segments, rows = len(self._snapshot.segments), self._snapshot.row_count
        where = f"{self.location} at version {self.version}"
        return f"<Table {where}: {rows:,} rows in {segments:,} segments>"

    @property
    def location(self) -> str:
        """Where the table is."""
        return self._storage.location

    @property
    def schema(self) -> pa.Schema:
        """The columns, in projseg's types."""
        return self._snapshot.properties.schema

    @property
    def version(self) -> int:
        """The version this object reads."""
        return self._snapshot.version

    @property
    def properties(self) -> TableProperties:
        """What was declared at creation, and the projections declared now."""
        return self._snapshot.properties

    @property
    def snapshot(self) -> Snapshot:
        """The pinned version, for those who plan queries themselves."""
        return self._snapshot

    def refresh(self) -> Table:
        """Move to the newest version, which may be written to, and return this table."""
        self._snapshot = open_snapshot(self._storage)
        self._is_pinned = False
        return self

    # Writing

    def append(self, data: Rows, *, on_segment: OnSegment | None = None) -> Commit:
        """Add rows as new segments with the projections declared now; all of them or none.

        Parameters
        ----------
        data : pa.Table, RecordBatchReader or iterable of RecordBatch
            Columns are matched by name; memory is bounded by segments, not by `data`.
        on_segment : callable or None
            Called with each segment's entry as its file is finished.
        """
        return self._write(data, lambda entries: Append(entries), "append", on_segment)

    def overwrite(
        self,
        data: Rows,
        interval: IntervalLike | None = None,
        *,
        on_segment: OnSegment | None = None,
    ) -> Commit:
        """Replace all rows, or exactly those of one interval, by `data`.

        Parameters
        ----------
        data, on_segment
            As of `append`; with an interval, all rows must lie inside it.
        interval : str, pair of datetimes or None
            Must consist of whole time chunks of the table's segment granularity.
        """
        self._check_newest()
        # Rows that others appended since this object was opened are to be replaced as well.
        self.refresh()
        bounds = None if interval is None else parse_interval(interval)
        pair = None if bounds is None else (bounds.start_us, bounds.end_us)
        return self._write(data, lambda entries: Overwrite(entries, pair), "overwrite", on_segment)

    def _write(
        self, data: Rows, change_of: ChangeOf, operation: str, on_segment: OnSegment | None
    ) -> Commit:
        self._check_newest()
        self._snapshot, made = write_rows(
            self._snapshot, data, change_of, operation=operation, on_segment=on_segment
        )
        return made

    def add_projection(self, declaration: ProjectionDeclared) -> int:
        """Declare a projection: segments written from now on embed it. Returns the version."""
        self._check_newest()
        properties = self._snapshot.properties
        spec = parse_projection(
            declaration_of(declaration),
            properties.schema,
            time_column=properties.time_column,
            segment_granularity=properties.segment_granularity,
        )
        return self._set_projections(
            SetProperties(add_projections=(declared(spec),)), "add projection"
        )

    def drop_projection(self, name: str) -> int:
        """Withdraw a projection from segments written from now on. Returns the version."""
        return self._set_projections(SetProperties(drop_projections=(name,)), "drop projection")

    def _set_projections(self, change: Change, operation: str) -> int:
        self._check_newest()
        self._snapshot = commit(
            self._storage, self._snapshot, change, write_id=new_write_id(), operation=operation
        )
        return self._snapshot.version

    def _check_newest(self) -> None:
        if self._is_pinned:
            raise InvalidInputError(
                "PROJSEG_PINNED_VERSION",
                f"{self.location} was opened at version {self.version}, which can only be read: a "
                "commit follows the newest version; open the table without a version, or call "
                "refresh(), and write then",
            )

    # Reading

    def query(
        self,
        group_by: Expressions = (),
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
        group_by : str or sequence of str
            Spark SQL expressions, `expression [AS name]`.
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
        """
        query = self._bind(
            group_by, aggregators, filter, interval, having, order_by, limit, columns, context
        )
        if query.is_row_scan:
            return scan_table(self._storage, plan_query(self._snapshot, query))
        return run_final(self._storage, plan_query(self._snapshot, query))

    def scan(
        self,
        columns: Expressions | None = None,
        filter: str | None = None,
        interval: IntervalLike | None = None,
        limit: int | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> pa.RecordBatchReader:
        """Return rows as a stream of batches, for answers that need not fit in memory.

        Parameters are those of `query`; batches are made a few ahead of the reader, in threads.
        """
        query = self._bind((), (), filter, interval, None, (), limit, columns, context)
        plan = plan_query(self._snapshot, query)
        batches = scan(self._storage, plan, plan.segments)
        return pa.RecordBatchReader.from_batches(query.output_schema, batches)

    def explain(
        self,
        group_by: Expressions = (),
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

        Parameters are those of `query`; `analyze` runs the query and adds rows, bytes and
        milliseconds as they were.
        """
        query = self._bind(
            group_by, aggregators, filter, interval, having, order_by, limit, columns, context
        )
        return Explain.of(self._storage, plan_query(self._snapshot, query), analyze=analyze)

    def _bind(
        self,
        group_by: Expressions,
        aggregators: Expressions,
        condition: str | None,
        interval: IntervalLike | None,
        having: str | None,
        order_by: Expressions,
        limit: int | None,
        columns: Expressions | None,
        context: Mapping[str, Any] | None,
    ) -> QuerySpec:
        return bind_query(
            self.schema,
            self._snapshot.properties.time_column,
            group_by=group_by,
            aggregators=aggregators,
            filter=condition,
            interval=interval,
            having=having,
            order_by=order_by,
            limit=limit,
            columns=columns,
            context=context,
        )

    # Looking at the table

    def history(self) -> pa.Table:
        """Return the kept versions, newest first: version, timestamp, operation, metrics."""
        return metadata_tables.history(self._storage)

    def detail(self) -> dict[str, Any]:
        """Return the table's declaration and totals."""
        return metadata_tables.detail(self._snapshot)

    def segments(self) -> pa.Table:
        """Return a row a segment: file, interval, rows, bytes, projections."""
        return metadata_tables.segments(self._snapshot)

    def projections(self) -> pa.Table:
        """Return a row a declared projection: name, grouping, aggregators, filter, coverage."""
        return metadata_tables.projections(self._snapshot)

    def projection_stats(self) -> pa.Table:
        """Return a row a segment and projection: rows, bytes, share of the base rows."""
        return metadata_tables.projection_stats(self._snapshot)

    def columns(self) -> pa.Table:
        """Return a row a column: type, bytes, bounds, nulls."""
        return metadata_tables.columns(self._snapshot)

    def verify(self, deep: bool = False) -> list[Finding]:
        """Check every file of this version; return what is wrong, nothing if all is well.

        Files are read anew, past every cache. A finding says `file`, `what`, `expected`, `found`.

        Parameters
        ----------
        deep : bool
            Also compare what the table says of columns, times and order with the rows, and every
            projection with its recomputation from them.
        """
        # Imported here, so that a process that only asks starts without it.
        from projseg.maintenance.verify import verify_table

        return verify_table(self._storage, self._snapshot, deep=deep)


def parse_interval(interval: IntervalLike) -> Interval:
    """Return an interval as text or pair of datetimes; see `Interval.parse`."""
    return interval if isinstance(interval, Interval) else Interval.parse(interval)

"""`Table`: the front door without Spark.

A method of `Table` is a line that calls an object, which does the work on a `TableState`:

| module | methods |
|---|---|
| `row_edits` | append, overwrite, delete, update, merge, erase |
| `column_edits` | add, rename, drop, widen |
| `projection_edits` | add, drop, materialize |
| `index_edits` | add, drop, materialize |
| `view_edits` | create, view |
| `segment_edits` | compact |
| `foreign_edits` | sync |
| `version_keeping` | restore, tag, drop_tag, vacuum |
| `inspection` | rows, detail, tags, source, views, findings, html |

`table_state` has the version that a table object is at, and moves it. Methods that read stand in
`table_version`: they ask `inspection`, and `questions` of a `version_reader`, which plans and
answers over one version.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, overload

import pyarrow as pa

from projseg.table.table_state import TableState, check_max_age
from projseg.table.table_version import TableVersion, readers_by_name
from projseg.table.version_reader import VersionReader
from projseg.table_layer.commits.open_version import InstantLike, open_as_of
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.table_properties import TARGET_SEGMENT_ROWS
from projseg.table_layer.metadata.versions_and_tags import holds_table
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.source_options import with_source_options
from projseg.table_layer.storage.store_location import StorageOptionsLike

SourceLike: TypeAlias = Any
"""A text, or a `DeltaTable` of the package `deltalake`."""

# A process that only asks starts without the modules that write: objects are imported when used.
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from projseg.algebra.expressions.sql_parameters import ArgumentsLike
    from projseg.algebra.query.request import IntervalLike
    from projseg.declarations import IndexLike, ProjectionLike, SchemaLike
    from projseg.input_rows import RowsLike
    from projseg.maintenance.row_changes.delete_and_update import Corrected
    from projseg.maintenance.row_changes.erase import Erased
    from projseg.maintenance.sync import Synced
    from projseg.table.column_edits import ColumnEdits
    from projseg.table.foreign_edits import SourceSync
    from projseg.table.index_edits import IndexEdits
    from projseg.table.projection_edits import ProjectionEdits
    from projseg.table.row_edits import RowEdits
    from projseg.table.segment_edits import OnProgress, SegmentEdits
    from projseg.table.version_keeping import VersionKeeping
    from projseg.table.view_edits import ViewEdits
    from projseg.table.view_object import View
    from projseg.table.writes import Commit, OnSegment
    from projseg.table_layer.vacuum import Vacuumed
    from projseg.views.refresh_work import Refresh


def is_table(
    location: str | os.PathLike[str], storage_options: StorageOptionsLike | None = None
) -> bool:
    """Whether `location` holds a projseg table; a damaged one is an error, not False.

    Parameters
    ----------
    location : str or path
        A directory, a `file:` URI, or a prefix of an object store (`s3://`, `gs://`, `az://`); it
        need not exist.
    storage_options : mapping or None
        Of an object store, by obstore's key names, such as `region` and `endpoint`.

    Returns
    -------
    bool
        False if there is certainly no table.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError
        PROJSEG_BAD_LOCATION, PROJSEG_UNSUPPORTED_STORAGE.
    StorageError, CorruptTableError
        If the metadata cannot be read, or is damaged.
    """
    return holds_table(location, storage_options)


class Table(TableVersion):
    """A table at one version; a write through this object moves it to the version written.

    Parameters
    ----------
    location : str or path
        A directory, a `file:` URI, or a prefix of an object store (`s3://`, `gs://`, `az://`).
    version : int or None
        The version to read, and not to write, because a commit always follows the newest one. None
        means the newest.
    timestamp : str, date, datetime or None
        Instead of `version`: the newest version committed at or before this instant. Without a
        zone it is UTC.
    tag : str or None
        Instead of `version`: the version that has this name.
    storage_options : mapping or None
        Options of an object store by obstore's key names, such as `region` and `endpoint`; missing
        options come from the environment (`AWS_ACCESS_KEY_ID` and so on). They are never stored in
        a table nor shown in a message.
    max_age : float or None
        If no version was chosen and the last look is longer ago than this number of seconds, a
        question first moves this object to the newest version. Each question, its explanation and
        its views use one version. None means that only `refresh` and writes move it.
    source_options : mapping or None
        For a table over a source, the options of the object store in which the source's files are,
        in the form of `storage_options`; they are never stored. None means the same options as
        `storage_options`.

    Raises
    ------
    InvalidInputError
        PROJSEG_NOT_A_TABLE, PROJSEG_UNKNOWN_VERSION, PROJSEG_UNKNOWN_TAG, PROJSEG_BAD_LOCATION,
        PROJSEG_BAD_ARGUMENT, PROJSEG_BAD_STORAGE_OPTION.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_STORAGE, PROJSEG_UNSUPPORTED_TABLE_VERSION.
    StorageError, CorruptTableError
        If the table's metadata cannot be read, or is damaged.
    """

    def __init__(
        self,
        location: str | os.PathLike[str],
        version: int | None = None,
        timestamp: InstantLike | None = None,
        tag: str | None = None,
        storage_options: StorageOptionsLike | None = None,
        *,
        max_age: float | None = None,
        source_options: StorageOptionsLike | None = None,
    ) -> None:
        check_max_age(max_age)
        storage = with_source_options(open_storage(location, storage_options), source_options)
        is_pinned = (version, timestamp, tag) != (None, None, None)
        snapshot = open_as_of(storage, version, timestamp, tag)
        reader = VersionReader(snapshot, may_be_older=not is_pinned)
        super().__init__(TableState(reader, is_pinned=is_pinned, max_age=max_age))

    @classmethod
    def create(
        cls,
        location: str | os.PathLike[str],
        schema: SchemaLike | None = None,
        *,
        time_column: str | None = None,
        segment_granularity: str = "all",
        cluster_by: Sequence[str] = (),
        projections: Sequence[ProjectionLike] = (),
        target_segment_rows: int = TARGET_SEGMENT_ROWS,
        properties: Mapping[str, str] | None = None,
        indexes: Sequence[IndexLike] = (),
        data: RowsLike | None = None,
        on_segment: OnSegment | None = None,
        commit_as: str | None = None,
        storage_options: StorageOptionsLike | None = None,
    ) -> Table:
        """Create a table: empty, or with its first rows in the same commit.

        Parameters
        ----------
        location : str or path
            A place where there is no table yet.
        schema : pa.Schema, mapping of column names to types, or None
            Types are Arrow's, or texts as Spark SQL writes them; all are brought to Spark's. A
            limit of length, a collation and NOT NULL are refused: only a catalog of Spark has them.
            None means the columns of `data`.
        time_column : str or None
            The column that intervals, `first`/`last` and segment granularity use, in any case.
        segment_granularity : str
            The chunk of time that a segment lies within: Druid's name or an ISO period.
        cluster_by : sequence of str
            Columns, in any case, that a segment's rows are sorted by; time is last unless it is
            named.
        projections : sequence
            `Projection`, mapping or JSON text, in any of the three forms.
        target_segment_rows : int
            Rows at which a segment is full.
        properties : mapping of str to str
            Properties of the user's own, and properties that projseg reads, such as `autoCompact`,
            which are checked.
        indexes : sequence
            `Index`, mapping or JSON text.
        data, on_segment, commit_as
            As in `append`. If the rows cannot be written, there is no table.
        storage_options : mapping or None
            As in `Table`.

        Returns
        -------
        Table
            The table at version 0.

        Raises
        ------
        InvalidInputError
            PROJSEG_TABLE_EXISTS, or what is wrong with a name, a type, an option or a projection.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_TYPE, PROJSEG_UNSUPPORTED_FUNCTION, PROJSEG_UNSUPPORTED_STORAGE.
        CommitError, StorageError
            What `append` raises.
        """
        from projseg.table.writes import create

        create(
            open_storage(location, storage_options),
            schema,
            time_column=time_column,
            segment_granularity=segment_granularity,
            cluster_by=cluster_by,
            projections=projections,
            target_segment_rows=target_segment_rows,
            properties=properties,
            indexes=indexes,
            data=data,
            on_segment=on_segment,
            commit_as=commit_as,
        )
        return cls(location, storage_options=storage_options)

    @classmethod
    def attach(
        cls,
        location: str | os.PathLike[str],
        source: SourceLike,
        *,
        time_column: str | None = None,
        projections: Sequence[ProjectionLike] = (),
        indexes: Sequence[IndexLike] = (),
        columns: Mapping[str, str] | None = None,
        source_options: StorageOptionsLike | None = None,
        storage_options: StorageOptionsLike | None = None,
        target_segment_rows: int = TARGET_SEGMENT_ROWS,
    ) -> Table:
        """Create a table over existing files, which stay where they are and are never written.

        Each file gets a companion, with the projections of its rows. Questions are answered from
        the companions of files that the source lists now, and from the files that have none.

        Parameters
        ----------
        location : str or path
            The location of the table, which holds its companions and its metadata.
        source : str, DeltaTable or pyiceberg Table
            `parquet:` and a pattern of files, such as `parquet:/data/edits/**/*.parquet`; a folder
            means all Parquet files below it. `delta:` and the folder of a Delta table, or one that
            was loaded by `deltalake`; the table follows its newest version. `iceberg:` and the name
            of an Iceberg table in its catalog, such as `iceberg:sales.edits`, or one that was
            loaded by `pyiceberg`; the table follows its main branch.
        time_column, projections, indexes, target_segment_rows
            As in `create`; an index has no postings here. A file of more than `target_segment_rows`
            rows has a companion for each run of row groups.
        columns : mapping of str to str, or None
            The columns to take, with their types in Spark SQL, among them those that only the
            files' paths name (`day=2026-11-28`). None means the union of the files' columns by
            name.
        source_options : mapping or None
            Options of the object store that the files are in, in the form of `storage_options`; or
            the properties of an Iceberg catalog, with its `name`. They are never stored.
        storage_options : mapping or None
            As in `Table`.

        Returns
        -------
        Table
            The table at version 0. A warning and `detail` list the columns that the table does not
            have.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_SOURCE if the files are not there, cannot be read, or do not fit together;
            PROJSEG_TABLE_EXISTS; PROJSEG_BAD_INDEX, and what `create` raises.
        UnsupportedFeatureError
            PROJSEG_SOURCE_DELETES if a Delta or Iceberg table hides rows by files of deletes.
        MissingPackageError
            PROJSEG_MISSING_PACKAGE without the package `deltalake` or `pyiceberg` of such a source.
        StorageError
            PROJSEG_SOURCE_CHANGED, PROJSEG_SOURCE_GONE: files changed while they were read.
        CommitError
            What `append` raises.
        """
        from projseg.table.foreign_edits import address_of, attach

        address, found_options = address_of(source)
        source_options = found_options if source_options is None else source_options
        attach(
            with_source_options(open_storage(location, storage_options), source_options),
            address,
            time_column=time_column,
            projections=projections,
            indexes=indexes,
            columns=columns,
            target_segment_rows=target_segment_rows,
        )
        return cls(location, storage_options=storage_options, source_options=source_options)

    @property
    def _rows(self) -> RowEdits:
        from projseg.table.row_edits import RowEdits

        return RowEdits(self._state)

    @property
    def _columns(self) -> ColumnEdits:
        from projseg.table.column_edits import ColumnEdits

        return ColumnEdits(self._state)

    @property
    def _projections(self) -> ProjectionEdits:
        from projseg.table.projection_edits import ProjectionEdits

        return ProjectionEdits(self._state)

    @property
    def _indexes(self) -> IndexEdits:
        from projseg.table.index_edits import IndexEdits

        return IndexEdits(self._state)

    @property
    def _views(self) -> ViewEdits:
        from projseg.table.view_edits import ViewEdits

        return ViewEdits(self._state)

    @property
    def _segments(self) -> SegmentEdits:
        from projseg.table.segment_edits import SegmentEdits

        return SegmentEdits(self._state)

    @property
    def _source(self) -> SourceSync:
        from projseg.table.foreign_edits import SourceSync

        return SourceSync(self._state)

    @property
    def _versions(self) -> VersionKeeping:
        from projseg.table.version_keeping import VersionKeeping

        return VersionKeeping(self._state)

    def refresh(self) -> Self:
        """Move to the newest version, which may be written to, and return this table.

        Returns
        -------
        Table
            This table.

        Raises
        ------
        InvalidInputError, StorageError, CorruptTableError
            What `Table` raises.
        """
        self._state.refresh()
        return self

    def newest(self) -> Self:
        """Return the table at its newest version; this object stays at its own.

        The returned table does not move by itself, so several questions that one request asks of it
        see one version.

        Returns
        -------
        Table
            This object if there is no newer version, and if it has neither a chosen version nor a
            `max_age`; else a new object.

        Raises
        ------
        InvalidInputError, StorageError, CorruptTableError
            What `Table` raises.
        """
        state = self._state.newest()
        return self if state is self._state else self._with_state(state)

    def commit_as(self, user_name: str | None = None, user_metadata: str | None = None) -> Self:
        """Set what `history` says of the commits made through this object, and return it.

        Parameters
        ----------
        user_name : str or None
            The name of the user who commits; projseg does not find it out by itself.
        user_metadata : str or None
            Any text.

        Returns
        -------
        Table
            This table.

        Raises
        ------
        LimitExceededError
            PROJSEG_METADATA_TOO_LARGE if a text is too long.
        """
        self._state.note = CommitNote({}, user_name, user_metadata)
        return self

    def append(
        self,
        data: RowsLike,
        *,
        on_segment: OnSegment | None = None,
        commit_as: str | None = None,
    ) -> Commit:
        """Add rows as new segments with the projections declared now; all of them or none.

        Parameters
        ----------
        data : pa.Table, RecordBatchReader, frame, dict of lists, list of dicts, or iterable
            The rows; a frame of pandas or polars and a relation of DuckDB need no conversion.
            Columns are matched by name, and a missing column is null. If `data` is a reader or an
            iterable, the memory is bounded by segments and not by the size of `data`.
        on_segment : callable or None
            A function that is called with each segment's entry once its file is finished.
        commit_as : str or None
            A name for this write. If the table has a write of this name already, nothing happens.

        Returns
        -------
        Commit
            The version written, and how many segments and rows it added.

        Raises
        ------
        InvalidInputError
            If the rows do not fit: PROJSEG_BAD_ROWS, PROJSEG_SCHEMA_MISMATCH, PROJSEG_NULL_TIME,
            PROJSEG_TIME_RANGE. PROJSEG_PINNED_VERSION if the table was opened at a version.
        CommitError
            If others changed what this commit depends on, or the storage did not say whether the
            commit happened.
        StorageError
            If a file cannot be written; nothing was committed.
        """
        return self._rows.append(data, on_segment=on_segment, commit_as=commit_as)

    def overwrite(
        self,
        data: RowsLike,
        interval: IntervalLike | None = None,
        *,
        filter: str | None = None,
        args: ArgumentsLike | None = None,
        timezone: str = "UTC",
        on_segment: OnSegment | None = None,
    ) -> Commit:
        """Replace all rows, those of an interval, or those for which a condition is true.

        Parameters
        ----------
        data, on_segment
            As in `append`; all rows must lie in the interval, and the filter must be true for each
            of them.
        interval : str, pair of datetimes or None
            Segments that lie wholly in the interval are dropped unread. From segments that only
            overlap it, the rows inside are removed as `delete` would do, in the same commit.
        filter : str or None
            Spark SQL. From segments that also hold other rows, the rows for which the filter is
            true are removed as `delete` would do.
        args : mapping of str to value, sequence of values, or None
            The values of the filter's parameters, as in `query`.
        timezone : str
            The time zone of times in the filter and in the interval that name none.

        Returns
        -------
        Commit
            As in `append`.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_INTERVAL, PROJSEG_ROWS_OUTSIDE_INTERVAL, PROJSEG_ROWS_OUTSIDE_FILTER,
            PROJSEG_NO_TIME_COLUMN, and what `append` and `delete` raise.
        CommitError, StorageError
            What `append` raises; with a filter, rows that others append meanwhile are a conflict.
        """
        return self._rows.overwrite(
            data, interval, filter, args=args, timezone=timezone, on_segment=on_segment
        )

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

        A segment whose metadata prove that all its rows are deleted leaves the table unread. In
        other segments the deleted rows are hidden by a small file beside the segment. Once their
        share of the segment's rows reaches the table's property `maxDeletedRatio` (0.2), the
        remaining rows are rewritten, with their projections.

        Parameters
        ----------
        filter : str or None
            Spark SQL; rows for which it is null stay. None means all rows.
        interval : str, pair of datetimes or None
            Half-open range of the time column; rows without a time stay. None means all rows.
        args : mapping of str to value, sequence of values, or None
            The values of parameters, as in `query`. The table's history stores the names of
            parameters without their values.
        timezone : str
            The time zone of time functions, and of times that name no zone.
        dry_run : bool
            Only count the rows and check the arguments; write nothing.

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
            What `append` and `query` raise. Rows that others append meanwhile stay.
        """
        return self._rows.delete(filter, interval, args, timezone, dry_run=dry_run)

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
            What `delete` raises.
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
            As in `delete`.
        args : mapping of str to value, sequence of values, or None
            As in `delete`; `?` are counted through `values` and then the filter.
        dry_run : bool
            As in `delete`; the new values are computed, too.

        Returns
        -------
        Corrected
            The version written, and how many rows were updated.

        Raises
        ------
        InvalidInputError
            What `delete` raises, and PROJSEG_SCHEMA_MISMATCH if an expression's type is not the
            column's type, PROJSEG_NULL_TIME, PROJSEG_TIME_RANGE.
        EvaluationError, CommitError, StorageError, CorruptionError
            What `delete` raises.
        """
        return self._rows.update(values, filter, interval, args, timezone, dry_run=dry_run)

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
        data : the same as in `append`
            The rows, which are held in memory whole. An update sets the columns that `data` has.
        on : sequence of str
            Key columns, in the table and in `data`; a null matches nothing.
        when_matched : {"update", "delete", "ignore"}
            What happens to a row of the table whose key is in `data`.
        when_not_matched : {"insert", "ignore"}
            What happens to a row of `data` whose key is not in the table.
        dry_run : bool
            As in `delete`.

        Returns
        -------
        Corrected
            The version written, and how many rows were deleted, updated and inserted.

        Raises
        ------
        InvalidInputError
            PROJSEG_AMBIGUOUS_MERGE if several rows of `data` would update one,
            PROJSEG_UNKNOWN_COLUMN, PROJSEG_BAD_ARGUMENT, and what `append` raises.
        CommitError, StorageError, CorruptionError
            What `delete` raises; a conflict if others append during every try to insert the rows.
        """
        return self._rows.merge(data, on, when_matched, when_not_matched, dry_run=dry_run)

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

        Deletes the rows, rewrites every segment that stores removed values, and removes the
        versions and files that no tag keeps. Then every remaining file is searched for the texts
        that the filter's columns had in these rows, and the filter is run on every remaining
        version. Versions that a tag points to are kept, with the erased rows; the result lists
        those tags. Nothing else may read from or write to the table meanwhile, because files of
        running writes and queries are removed. Views are refreshed, and their earlier files are
        removed likewise.

        Parameters
        ----------
        filter, interval, args, timezone
            As in `delete`.
        retention_hours : float
            Versions that were the newest at some time in these last hours are kept, and listed in
            the result.

        Returns
        -------
        Erased
            How many rows were deleted, what was rewritten, removed and searched, and `found`, a
            table with one row for each place that still holds erased rows or their texts; it is
            empty if none does.

        Raises
        ------
        InvalidInputError
            What `delete` raises, and PROJSEG_BAD_ARGUMENT if the rows have too many texts to search
            for.
        EvaluationError, CommitError, StorageError, CorruptionError
            What `delete`, `compact` and `vacuum` raise; call it again to go on.
        """
        return self._rows.erase(filter, interval, args, timezone, retention_hours=retention_hours)

    def add_column(self, name: str, type: str | pa.DataType) -> int:
        """Add a column, which is null in existing rows.

        Parameters
        ----------
        name : str
            The new column.
        type : str or pa.DataType
            The type, as Spark SQL writes it or as an Arrow type.

        Returns
        -------
        int
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_COLUMN_EXISTS, PROJSEG_BAD_NAME, PROJSEG_BAD_TYPE_NAME, PROJSEG_TOO_MANY_NAMES,
            PROJSEG_PINNED_VERSION.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_TYPE.
        CommitError, StorageError
            What `append` raises; another change of the same column is a conflict.
        """
        return self._columns.add(name, type)

    def rename_column(self, old: str, new: str) -> int:
        """Give a column another name, also where the table's projections mention it.

        Parameters
        ----------
        old, new : str
            The present and the new name.

        Returns
        -------
        int
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_COLUMN, PROJSEG_COLUMN_EXISTS, PROJSEG_BAD_NAME, PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            What `add_column` raises.
        """
        return self._columns.rename(old, new)

    def drop_column(self, name: str) -> int:
        """Drop a column; compaction removes its values from the files.

        Parameters
        ----------
        name : str
            A column that no projection, time column or sort order needs.

        Returns
        -------
        int
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_COLUMN, PROJSEG_COLUMN_IN_USE (naming the projections that read it),
            PROJSEG_EMPTY_SCHEMA, PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            What `add_column` raises.
        """
        return self._columns.drop(name)

    def widen_column(self, name: str, type: str | pa.DataType) -> int:
        """Give a column a type that holds every value of its present one.

        Integers may become wider, decimals of scale 0 that hold them and, up to `int`, `double`;
        `float` may become `double`; a decimal may get more digits with the same scale. Existing
        segments are read in the wider type, and their projections still answer where the stored
        values are the same in the wider type.

        Parameters
        ----------
        name : str
            The column.
        type : str or pa.DataType
            The wider type.

        Returns
        -------
        int
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_COLUMN, PROJSEG_CANNOT_WIDEN, PROJSEG_COLUMN_IN_USE (naming the
            projections that cannot read the wider type), PROJSEG_BAD_TYPE_NAME,
            PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            What `add_column` raises.
        """
        return self._columns.widen(name, type)

    def add_projection(
        self,
        declaration: ProjectionLike,
        materialize: bool = False,
        build: str = "immediate",
        *,
        interval: IntervalLike | None = None,
        retain: str | None = None,
        max_row_ratio: float | None = None,
        max_bytes_ratio: float | None = None,
    ) -> int:
        """Declare a projection: segments written from now on embed it.

        Parameters
        ----------
        declaration : Projection, mapping or JSON text
            In any of the three forms.
        materialize : bool
            Also build the projection in the existing segments, by `materialize_projection`.
        build : str
            With `immediate` each new segment has the projection; with `deferred` only
            `materialize_projection` and `compact` build it.
        interval : str, pair of datetimes or None
            Segments without a row in the interval are written without the projection; None means
            all times.
        retain : str or None
            A length of time, `90 days` or `P90D`. Segments whose rows are all older when they are
            written are written without the projection.
        max_row_ratio, max_bytes_ratio : float or None
            A segment is written without the projection if the projection's rows, or its stored
            bytes of columns, are more than this share of the base table's; the reason is recorded.

        Returns
        -------
        int
            The version written, or the present version if the table has this declaration already.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_PROJECTION, PROJSEG_PROJECTION_EXISTS, PROJSEG_TOO_MANY_NAMES,
            PROJSEG_BAD_OPTION, PROJSEG_PINNED_VERSION, or what is wrong with an expression.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_FUNCTION.
        CorruptionError
            If `materialize` meets a damaged segment; the projection is declared.
        CommitError, StorageError
            What `append` raises.
        """
        return self._projections.add(
            declaration,
            materialize=materialize,
            build=build,
            interval=interval,
            retain=retain,
            max_row_ratio=max_row_ratio,
            max_bytes_ratio=max_bytes_ratio,
        )

    def drop_projection(self, name: str) -> int:
        """Stop embedding a projection in segments written from now on.

        Parameters
        ----------
        name : str
            Its name in the table.

        Returns
        -------
        int
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_PROJECTION, PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            What `append` raises.
        """
        return self._projections.drop(name)

    def materialize_projection(
        self,
        name: str | None = None,
        interval: IntervalLike | None = None,
        *,
        on_segment: OnSegment | None = None,
        on_progress: OnProgress | None = None,
        spark: SparkSession | None = None,
    ) -> Commit:
        """Build declared projections in the segments that lack them, in one commit.

        Base rows are copied byte for byte, and each part's checksum is verified. Deleted rows,
        dropped columns and dropped projections are not copied to the new segments. A projection is
        computed from a finer projection of the segment where that is exact. A projection that
        cannot be built is recorded with its reason, and the next call tries it again. Rows that
        others append meanwhile stay.

        Parameters
        ----------
        name : str or None
            The projection's name; None means all declared projections.
        interval : str, pair of datetimes or None
            Only segments with rows in the interval are considered; None means all segments.
        on_segment : callable or None
            A function that is called with each new segment's entry once its file is finished; with
            `spark`, once all files are finished.
        on_progress : callable or None
            A function that is called with the number of finished segments, which starts at 0, and
            the number of all segments.
        spark : SparkSession or None
            The session that runs a job in which each segment is written by its own task; None means
            that threads of this process write them.

        Returns
        -------
        Commit
            The version written, and how many segments and rows are in new files; the newest version
            and zeros if there was nothing to do.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_PROJECTION, PROJSEG_NO_TIME_COLUMN, PROJSEG_BAD_INTERVAL,
            PROJSEG_PINNED_VERSION.
        CorruptionError
            If a segment is damaged; nothing is committed.
        CommitError, StorageError
            What `append` raises.
        """
        return self._projections.materialize(
            name, interval, on_segment=on_segment, on_progress=on_progress, spark=spark
        )

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
            Also build the index for the existing segments, by `materialize_index`.
        build : str
            With `immediate` each new segment is indexed as it is written; with `deferred` only
            `materialize_index` and `compact` build the index.
        interval : str, pair of datetimes or None
            Segments without a row in the interval are not indexed; None means all times.
        retain : str or None
            A length of time, `90 days` or `P90D`. Segments whose rows are all older are not
            indexed.
        max_bytes_ratio : float or None
            A segment is not indexed if its filter would be larger than this share of its columns'
            bytes.

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
            What `append` raises.
        """
        return self._indexes.add(
            index,
            materialize=materialize,
            build=build,
            interval=interval,
            retain=retain,
            max_bytes_ratio=max_bytes_ratio,
        )

    def drop_index(self, name: str) -> Commit:
        """Drop an index and its files from the table's list.

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
            What `append` raises.
        """
        return self._indexes.drop(name)

    def materialize_index(
        self,
        name: str | None = None,
        interval: IntervalLike | None = None,
        *,
        spark: SparkSession | None = None,
        on_progress: OnProgress | None = None,
    ) -> Commit:
        """Build indexes for the segments that lack them, in at most two commits.

        Building filters rewrites no segment, and of a column with a dictionary it reads only the
        hashes of the column's values. Segments that lack postings are rewritten as
        `materialize_projection` does it, and their other parts are copied.

        Parameters
        ----------
        name : str or None
            The index's name; None means all declared indexes.
        interval : str, pair of datetimes or None
            Only segments with rows in the interval are considered; None means all segments.
        spark : SparkSession or None
            The session that runs a job whose tasks write the segments that lack postings, with
            their filters; this process makes the other filters. None means that threads of this
            process do all of it.
        on_progress : callable or None
            A function that is called with the number of finished filters, which starts at 0, and
            the number of all filters.

        Returns
        -------
        Commit
            The version written, or the newest version if there was nothing to do.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_INDEX, PROJSEG_NO_TIME_COLUMN, PROJSEG_BAD_INTERVAL,
            PROJSEG_PINNED_VERSION.
        CorruptionError
            If a segment is damaged; nothing is committed.
        CommitError, StorageError
            What `append` raises.
        """
        return self._indexes.materialize(name, interval, on_progress=on_progress, spark=spark)

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
        """Store the groups of a SELECT for all segments, in parts that each cover many segments.

        The view appears with its parts in one commit, or not at all. Queries of the table are
        answered from the view for the segments that it covers, and from the segments themselves for
        the rest. So a query returns the same rows with the view as without it.

        Parameters
        ----------
        name : str or None
            The view's name; None means the table's name with eight digits of the hash of its
            definition.
        sql : str or None
            A SELECT over the table with GROUP BY, DISTINCT or aggregates; whatever name stands
            after FROM is this table's. Conditions that compare the time column with constants are
            the view's scope: only segments that lie wholly in it are covered.
        tables : mapping of str to Table, or None
            Other tables by their names in FROM, whose rows are joined as `projseg.sql` does; this
            table is the fact. The view follows the newest versions of these tables.
        dimensions, metrics, granularity
            Instead of `sql`: grouping columns, aggregates as SQL or as Druid's objects, and a
            truncation of the time column (Druid's name or an ISO period; None means no time).
        derived : str, mapping, sequence of str, or None
            Instead of `sql`: Druid's JSON of a `derivativeDataSource`; or its list of dimensions,
            with which the sums of all other numbers and the count of rows are kept, by the
            granularity of segments.
        refresh : str
            With `commit` the view is refreshed after each commit to the table; with `deferred` only
            by `View.refresh`.
        chunk : str or None
            The unit of time of parts, such as `month`; None means one that holds 16 segments or
            more.
        cluster_by : sequence of str
            Grouping columns by which the groups of a part are ordered before the others: those that
            queries filter by. Empty: in the order in which SELECT names them.
        retain : str or None
            A length of time, such as `90 days`. Segments whose rows are all older are not covered.
        interval : str or None
            Only segments that lie wholly in the interval are covered.
        properties : mapping of str to str, or None
            More options. `require` may be `incremental`, so that a refresh which would compute
            everything anew is an error.
        comment : str or None
            For people.
        if_not_exists : bool
            Return the existing view of this name, if there is one, and create none.
        replace : bool
            Drop a view of this name in the same commit.
        build : bool
            Whether the view is built now; otherwise it is empty until its first refresh.
        dry_run : bool
            Only say what would be built.
        on_progress : callable or None
            A function that is called with the number of finished chunks and the number of all
            chunks.

        Returns
        -------
        View or Refresh
            The view; after a dry run, what would be read and written.

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
            What `append` raises.
        """
        from projseg.table.view_form import ViewForm, options_of

        readers = None if tables is None else readers_by_name(tables)
        return self._views.create(
            name,
            ViewForm(sql, readers, dimensions, metrics, granularity, derived),
            options_of(refresh, chunk, retain, interval, cluster_by, properties),
            comment=comment,
            if_not_exists=if_not_exists,
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
            The view, which moves to newer versions together with this table object.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_VIEW.
        StorageError
            If the store of views cannot be read. Of a damaged one, a view can only be dropped.
        """
        return self._views.view(name)

    @overload
    def compact(
        self,
        interval: IntervalLike | None = None,
        target_segment_rows: int | None = None,
        dry_run: Literal[False] = False,
        *,
        purge: bool = False,
        on_segment: OnSegment | None = None,
        on_progress: OnProgress | None = None,
        spark: SparkSession | None = None,
    ) -> Commit: ...

    @overload
    def compact(
        self,
        interval: IntervalLike | None = None,
        target_segment_rows: int | None = None,
        *,
        dry_run: Literal[True],
        purge: bool = False,
        on_segment: OnSegment | None = None,
        on_progress: OnProgress | None = None,
        spark: SparkSession | None = None,
    ) -> pa.Table: ...

    def compact(
        self,
        interval: IntervalLike | None = None,
        target_segment_rows: int | None = None,
        dry_run: bool = False,
        *,
        purge: bool = False,
        on_segment: OnSegment | None = None,
        on_progress: OnProgress | None = None,
        spark: SparkSession | None = None,
    ) -> Commit | pa.Table:
        """Merge small segments of a time chunk into larger ones, in one commit.

        The rows stay the same. Deleted rows, dropped columns and dropped projections are not copied
        to the new segments, and a segment that stores any of them is rewritten even if it is alone.
        Earlier versions keep these values until `vacuum`. Each new segment embeds the declared
        projections, deferred ones too; they are merged from the stored groups where the old
        segments have them. The table's property `compactMinSegments` is the least number of
        segments that are merged (2 if it is not set). Rows that others append meanwhile stay. Of
        two compactions of the same segments, one is refused.

        Parameters
        ----------
        interval : str, pair of datetimes or None
            Only segments with rows in the interval are considered; None means all segments.
        target_segment_rows : int or None
            The most rows of a new segment; None means the table's own setting.
        dry_run : bool
            Only return what would be merged.
        purge : bool
            Only rewrite segments that store removed values, each by itself.
        on_segment, on_progress, spark
            As in `materialize_projection`.

        Returns
        -------
        Commit or pa.Table
            The version written, and how many segments and rows are in new files. If there was
            nothing to do, these are the newest version and zeros. With `dry_run`, one row per
            segment that would be written: interval_start, interval_end, min_time, max_time,
            segments (that it replaces), rows, bytes (of these), files.

        Raises
        ------
        InvalidInputError
            PROJSEG_NO_TIME_COLUMN, PROJSEG_BAD_INTERVAL, PROJSEG_BAD_ARGUMENT, PROJSEG_BAD_OPTION,
            PROJSEG_PINNED_VERSION.
        CorruptionError
            If a segment is damaged; nothing is committed.
        CommitError, StorageError
            What `append` raises.
        """
        return self._segments.compact(
            interval,
            target_segment_rows,
            dry_run=dry_run,
            purge=purge,
            on_segment=on_segment,
            on_progress=on_progress,
            spark=spark,
        )

    def sync(
        self,
        dry_run: bool = False,
        verify: bool | str = False,
        *,
        spark: SparkSession | None = None,
        source_options: StorageOptionsLike | None = None,
    ) -> Synced:
        """Make companions for new files of the source, and drop those of removed files.

        The source's list is read once, and one commit follows it. Readers need no sync to be right:
        files without a companion answer by their rows.

        Parameters
        ----------
        dry_run : bool
            Only return what would be done.
        verify : bool or str
            With True, also read the footers of files that seem unchanged; with `rows`, make all
            companions anew from all rows.
        spark : SparkSession or None
            The session whose tasks make the companions, as in `materialize_projection`; each task
            makes its own Bloom filters. None means that threads of this process make them.
        source_options : mapping or None
            As in `Table`; None means the options of this table object.

        Returns
        -------
        Synced
            version, source_version, files_kept, files_added, files_dropped, rows_read,
            milliseconds.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_SOURCE, if the source does not exist, has columns that do not fit, or the
            table is no foreign table; PROJSEG_BAD_ARGUMENT; PROJSEG_PINNED_VERSION.
        StorageError
            PROJSEG_SOURCE_CHANGED, PROJSEG_SOURCE_GONE: files changed while they were read;
            nothing was committed.
        CommitError
            What `append` raises.
        """
        return self._source.sync(dry_run, verify, spark=spark, source_options=source_options)

    def restore(
        self,
        version: int | None = None,
        *,
        timestamp: InstantLike | None = None,
        tag: str | None = None,
    ) -> Commit:
        """Restore the columns, projections and segments of an earlier version.

        Nothing is copied and no version is lost: the restored version follows the newest one, and
        what was committed meanwhile is no longer listed, as after an overwrite.

        Parameters
        ----------
        version : int or None
            The version to bring back.
        timestamp : str, date, datetime or None
            Instead of `version`: the newest version committed at or before this instant.
        tag : str or None
            Instead of `version`: the version of this tag.

        Returns
        -------
        Commit
            The version written, and how many segments and rows came back.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_ARGUMENT unless one version is named, PROJSEG_UNKNOWN_VERSION,
            PROJSEG_UNKNOWN_TAG, PROJSEG_PINNED_VERSION.
        CommitError
            PROJSEG_SEGMENT_MISSING if files of that version are gone, and what `append` raises.
        CorruptTableError
            PROJSEG_SEGMENT_DIFFERS if footers of files that would come back are damaged.
        StorageError
            What `append` raises.
        """
        return self._versions.restore(version, timestamp, tag)

    def tag(self, name: str, version: int | None = None) -> int:
        """Give a version a name, which keeps its files from `vacuum`.

        Parameters
        ----------
        name : str
            Letters, digits, `_`, `-` and `.`; not only digits, which would be a version.
        version : int or None
            The version that gets the tag; None means the version that this object reads.

        Returns
        -------
        int
            The version written; it is not the version that the tag names.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_NAME, PROJSEG_TAG_EXISTS, PROJSEG_UNKNOWN_VERSION, PROJSEG_TOO_MANY_NAMES,
            PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            What `append` raises.
        """
        return self._versions.tag(name, version)

    def drop_tag(self, name: str) -> int:
        """Drop a tag, so that `vacuum` may remove its version.

        Parameters
        ----------
        name : str
            The tag.

        Returns
        -------
        int
            The version written.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TAG, PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            What `append` raises.
        """
        return self._versions.drop_tag(name)

    def vacuum(
        self, retention_hours: float = 168, dry_run: bool = True, *, force: bool = False
    ) -> Vacuumed:
        """Remove versions that were replaced long ago, and files that no version needs.

        Versions with a tag stay. Files that are younger than the retention stay too, even if no
        version lists them, because a running write has such files. Only files with projseg's names
        are considered, and symbolic links are not followed.

        Parameters
        ----------
        retention_hours : float
            Every version that was the newest at some time in these last hours can be read
            afterwards.
        dry_run : bool
            Only say what would be removed.
        force : bool
            Allow a retention of less than 24 hours; nothing else may write to or read the table
            then.

        Returns
        -------
        Vacuumed
            The removed files, with their number and size.

        Raises
        ------
        InvalidInputError
            PROJSEG_RETENTION_TOO_SHORT, PROJSEG_BAD_ARGUMENT, PROJSEG_PINNED_VERSION.
        CommitError, StorageError
            What `append` raises; what was not removed is found by the next vacuum.
        """
        return self._versions.vacuum(retention_hours, dry_run=dry_run, force=force)

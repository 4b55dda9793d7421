"""`Table`: the front door without Spark.

| module | methods |
|---|---|
| `__init__` | create, attach, append, overwrite |
| `writable_table` | refresh, commit_as |
| `queries` | query, sql, scan, explain, dataset, lazy, `__arrow_c_stream__` |
| `view_edits` | create_view, view |
| `inspection` | location, schema, version, properties, snapshot, history |
| | detail, segments, projections, projection_stats, columns, views, verify, `_repr_html_` |
| `row_edits` | delete, truncate, update, merge, erase |
| `projection_edits` | add_projection, drop_projection, materialize_projection |
| `index_edits` | add_index, drop_index, materialize_index, indexes |
| `segments` | compact |
| `columns` | add_column, rename_column, drop_column, widen_column |
| `foreign_edits` | sync, source |
| `kept_versions` | restore, tag, drop_tag, tags, vacuum |

Methods ask objects with names: `table_state` has the version that a table object is at, and moves
it; `version_reader` plans and answers over one version; `questions` asks it what callers ask.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from projseg.table.columns import TableColumns
from projseg.table.foreign_edits import TableSource
from projseg.table.index_edits import TableIndexes
from projseg.table.kept_versions import TableVersions
from projseg.table.projection_edits import TableProjections, bounds_of
from projseg.table.row_edits import TableRows
from projseg.table.segments import TableSegments
from projseg.table.table_state import TableState
from projseg.table.version_reader import VersionReader
from projseg.table.view_edits import TableViews
from projseg.table.writable_table import check_max_age
from projseg.table_layer.commits.open_version import InstantLike, open_as_of
from projseg.table_layer.metadata.table_properties import TARGET_SEGMENT_ROWS
from projseg.table_layer.metadata.versions_and_tags import holds_table
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.source_options import with_source_options
from projseg.table_layer.storage.store_location import StorageOptionsLike

SourceLike: TypeAlias = Any
"""A text, or a `DeltaTable` of the package `deltalake`."""

# A process that only asks starts without the modules that write; each method imports its own.
if TYPE_CHECKING:
    from projseg.algebra.expressions.sql_parameters import ArgumentsLike
    from projseg.algebra.query.request import IntervalLike
    from projseg.declarations import IndexLike, ProjectionLike, SchemaLike
    from projseg.input_rows import RowsLike
    from projseg.table.writes import Commit, OnSegment


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


class Table(
    TableVersions,
    TableRows,
    TableProjections,
    TableIndexes,
    TableViews,
    TableSegments,
    TableColumns,
    TableSource,
):
    """A table at one version; a write through this object moves it to the version written.

    Parameters
    ----------
    location : str or path
        A directory, a `file:` URI, or a prefix of an object store (`s3://`, `gs://`, `az://`).
    version : int or None
        The version to read, and not to write: a commit always follows the newest. None: the
        newest.
    timestamp : str, date, datetime or None
        Instead of `version`: the newest version committed at or before this instant. Without a
        zone it is UTC.
    tag : str or None
        Instead of `version`: the version that has this name.
    storage_options : mapping or None
        Of an object store, by obstore's key names, such as `region` and `endpoint`; what is not
        given is taken from the environment (`AWS_ACCESS_KEY_ID` and so on). Never kept in a table
        nor shown in a message.
    max_age : float or None
        Seconds after which a question moves this object to the newest version first, if no version
        was chosen. Each question, its explanation and its views are of one version. None: only
        `refresh` and writes move it.
    source_options : mapping or None
        Of the object store in which files of others are, for a table over a source, as
        `storage_options`; never kept. None: those of `storage_options`.

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
            Must not hold a table.
        schema : pa.Schema, mapping of column names to types, or None
            Types are Arrow's, or texts as Spark SQL writes them; all are brought to Spark's. A
            limit of length, a collation and NOT NULL are refused: only a catalog of Spark has them.
            None: the columns of `data`.
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
            Kept for the user; those that projseg reads, such as `autoCompact`, are checked.
        indexes : sequence
            `Index`, mapping or JSON text.
        data, on_segment, commit_as
            As of `append`. If the rows cannot be written, there is no table.
        storage_options : mapping or None
            As of `Table`.

        Returns
        -------
        Table
            At version 0.

        Raises
        ------
        InvalidInputError
            PROJSEG_TABLE_EXISTS, or what is wrong with a name, a type, an option or a projection.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_TYPE, PROJSEG_UNSUPPORTED_FUNCTION, PROJSEG_UNSUPPORTED_STORAGE.
        CommitError, StorageError
            As of `append`.
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
        """Create a table over files of others: they stay where they are and are never written.

        Each file gets a companion, with the projections of its rows. Questions are answered from
        companions where these stand for the files that the source lists now, and from the files
        where they do not.

        Parameters
        ----------
        location : str or path
            Of the table: its companions and its metadata.
        source : str, DeltaTable or pyiceberg Table
            `parquet:` and a pattern of files, such as `parquet:/data/edits/**/*.parquet`; a folder
            means all Parquet files below it. `delta:` and the folder of a Delta table, or one that
            was loaded by `deltalake`, of which the newest version is followed. `iceberg:` and the
            name of an Iceberg table in its catalog, such as `iceberg:sales.edits`, or one that was
            loaded by `pyiceberg`, of which the main branch is followed.
        time_column, projections, indexes, target_segment_rows
            As of `create`; an index has no postings here. A file of more rows has a companion for
            each run of row groups.
        columns : mapping of str to str, or None
            The columns to take, with their types in Spark SQL, among them those that only the
            files' paths name (`day=2026-11-28`). None: the union of the files' columns by name.
        source_options : mapping or None
            Of the object store that the files are in, as `storage_options`, or the properties of an
            Iceberg catalog, with its `name`; never kept.
        storage_options : mapping or None
            As of `Table`.

        Returns
        -------
        Table
            At version 0. Columns that are left out are named by a warning, and by `detail`.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_SOURCE if the files are not there, cannot be read, or do not fit together;
            PROJSEG_TABLE_EXISTS; PROJSEG_BAD_INDEX; and as of `create`.
        UnsupportedFeatureError
            PROJSEG_SOURCE_DELETES if a Delta or Iceberg table hides rows by files of deletes.
        MissingPackageError
            PROJSEG_MISSING_PACKAGE without the package `deltalake` or `pyiceberg` of such a source.
        StorageError
            PROJSEG_SOURCE_CHANGED, PROJSEG_SOURCE_GONE: files changed while they were read.
        CommitError
            As of `append`.
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
            A frame of pandas or polars and a relation of DuckDB are taken as they are. Columns are
            matched by name, and one that is missing is null. Memory is bounded by
            segments, not by `data`, if it is a reader or an iterable.
        on_segment : callable or None
            Called with each segment's entry as its file is finished.
        commit_as : str or None
            A name for this write: where the table has one of this name already, nothing happens.

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
            If others changed what this depends on, or the storage did not say what happened.
        StorageError
            If a file cannot be written; nothing was committed.
        """
        from projseg.table.writes import append

        self._check_newest()
        self._check_own_rows()
        written = self._new_rows()
        self._snapshot, made = append(
            self._snapshot,
            data,
            on_segment=on_segment,
            note=self._note,
            commit_as=commit_as,
            on_rows=None if written is None else written.hold,
        )
        self._refresh_views(written)
        return made

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
        """Replace all rows, or exactly those of an interval or for which a condition is true.

        Parameters
        ----------
        data, on_segment
            As of `append`; all rows must lie in the interval, and the filter be true for them.
        interval : str, pair of datetimes or None
            Segments that lie in it are not read. Of others that hold rows in it, these are taken as
            by `delete`, in the same commit.
        filter : str or None
            Spark SQL. Of segments that hold other rows besides, rows are taken as by `delete`.
        args : mapping of str to value, sequence of values, or None
            What parameters of the filter stand for, as of `query`.
        timezone : str
            Of the filter, and of an interval beside it.

        Returns
        -------
        Commit
            As of `append`.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_INTERVAL, PROJSEG_ROWS_OUTSIDE_INTERVAL, PROJSEG_ROWS_OUTSIDE_FILTER,
            PROJSEG_NO_TIME_COLUMN, and as of `append` and `delete`.
        CommitError, StorageError
            As of `append`; with a filter, rows that others append meanwhile are a conflict.
        """
        from projseg.table.writes import Commit, overwrite

        self._check_newest()
        self._check_own_rows()
        # Rows that others appended since this object was opened are to be replaced as well.
        self.refresh()
        if filter is not None or args is not None:
            from projseg.input_rows import batches_of
            from projseg.maintenance.row_changes.matching_rows import condition_of
            from projseg.maintenance.row_changes.replace_rows import replace_rows

            batches = batches_of(data, self.schema)
            condition = condition_of(filter, interval, timezone, args, self._state.reader.declared)
            self._snapshot, done = replace_rows(
                self._snapshot, batches, condition, self._note, on_segment=on_segment
            )
            self._refresh_views()
            return Commit(done.version, done.added_segments, done.inserted_rows)
        bounds = None if interval is None else bounds_of(interval)
        self._snapshot, made = overwrite(
            self._snapshot, data, bounds, on_segment=on_segment, note=self._note
        )
        self._refresh_views()
        return made

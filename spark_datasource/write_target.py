"""What a write will change: the table as it is, or the one that it will make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.interval import Interval
from projseg.declarations import check_declared, declare_properties
from projseg.errors import InvalidInputError
from projseg.spark_datasource.write_request import WriteRequest
from projseg.table_layer.snapshot import Snapshot, is_table, open_snapshot
from projseg.table_layer.storage import Storage, open_storage
from projseg.table_layer.table_properties import (
    ColumnDeclaration,
    TableProperties,
    columns_of,
)
from projseg.writer.input_rows import check_schema


@dataclass(frozen=True)
class WriteTarget:
    """A table to write to; it pickles, so every task gets the same.

    Parameters
    ----------
    storage : Storage
        Where the table is or will be.
    base_version : int or None
        The version that the write builds on; None if the commit must make the table.
    properties : TableProperties
        What segments are written for: the table's, with the columns that this write adds.
    added_columns : tuple of ColumnDeclaration
        Columns that an existing table gets.
    interval : (int, int) or None
        `[start, end)` to replace, in microseconds UTC.
    is_done : bool
        The table has this write's transaction already: nothing is to be written.
    """

    storage: Storage
    base_version: int | None
    properties: TableProperties
    added_columns: tuple[ColumnDeclaration, ...] = ()
    interval: tuple[int, int] | None = None
    is_done: bool = False


def find_target(request: WriteRequest, schema: pa.Schema, *, overwrite: bool) -> WriteTarget:
    """Return the target of a write of rows of `schema`, or refuse before anything is written.

    Raises
    ------
    InvalidInputError
        If the options or the columns contradict the table, or cannot be a new table's.
    StorageError
        If files can certainly not be written there.
    """
    storage = open_storage(request.location)
    storage.check_writable()
    interval = _interval(request, overwrite=overwrite)
    if not is_table(request.location):
        return WriteTarget(storage, None, _new_properties(request, schema), interval=interval)
    snapshot = open_snapshot(storage)
    properties = snapshot.properties
    check_declared(
        properties,
        time_column=request.time_column,
        segment_granularity=request.segment_granularity,
        cluster_by=request.cluster_by,
        target_segment_rows=request.target_segment_rows,
        projections=request.projections or (),
    )
    added = _added_columns(properties, schema) if request.merges_schema else ()
    if added:
        properties = replace(properties, columns=(*properties.columns, *added))
    check_schema(schema, properties.schema)
    is_done = _is_done(request, snapshot)
    return WriteTarget(storage, snapshot.version, properties, added, interval, is_done)


def _is_done(request: WriteRequest, snapshot: Snapshot) -> bool:
    if request.transaction is None:
        return False
    application, number = request.transaction
    newest = snapshot.file.transactions.get(application)
    return newest is not None and newest.version >= number


def _new_properties(request: WriteRequest, schema: pa.Schema) -> TableProperties:
    given: dict[str, Any] = {
        "time_column": request.time_column,
        "segment_granularity": request.segment_granularity,
        "cluster_by": request.cluster_by,
        "target_segment_rows": request.target_segment_rows,
        "projections": request.projections,
    }
    options = {name: value for name, value in given.items() if value is not None}
    return declare_properties(schema, **options)


def _added_columns(properties: TableProperties, schema: pa.Schema) -> tuple[ColumnDeclaration, ...]:
    known = {column.name.casefold() for column in properties.columns}
    return tuple(c for c in columns_of(schema) if c.name.casefold() not in known)


def _interval(request: WriteRequest, *, overwrite: bool) -> tuple[int, int] | None:
    if request.replace_interval is None:
        return None
    if not overwrite:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            "option 'replaceInterval' needs mode('overwrite'); mode('append') replaces nothing",
        )
    interval = Interval.parse(request.replace_interval)
    return interval.start_us, interval.end_us

"""The table that a write changes or makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from projseg.declarations import check_declared, declare_properties
from projseg.errors import CommitConflictError, InvalidInputError
from projseg.maintenance.row_changes.matching_rows import Condition, scanned
from projseg.spark_datasource.schemas import depends_on_zone, zone_missing
from projseg.spark_datasource.write_plan import WritePlan
from projseg.spark_datasource.write_request import WriteRequest, declared_options
from projseg.table_layer.column_changes import (
    NO_CHANGES,
    ColumnChanges,
    NewColumns,
    merged_columns,
    with_changes,
)
from projseg.table_layer.metadata.change import AdoptLayout
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.metadata.table_properties import TableProperties, columns_of
from projseg.table_layer.metadata.table_schema import stored_by_name
from projseg.table_layer.metadata.versions_and_tags import holds_table
from projseg.table_layer.storage.storage_contract import Storage
from projseg.writer.checked_rows import check_schema

_WRITE_AGAIN: Final = "write again, as an append to that table"


@dataclass(frozen=True)
class WriteTarget:
    """A table to write to; it pickles, so every task gets the same.

    `base_version` is None if the commit must make the table; `properties` are the table's with the
    columns that this write adds, `segments` those of the segments if the statement chooses their
    layout. `interval`, `[start, end)` in microseconds UTC, and `condition` choose rows to replace.
    `layout` becomes the table's in the same commit, and `declared` takes the place of all that the
    table declares. Nothing is written if there is a `reason_to_skip`.
    """

    storage: Storage
    base_version: int | None
    properties: TableProperties
    columns: ColumnChanges | NewColumns = NO_CHANGES
    interval: tuple[int, int] | None = None
    condition: Condition | None = None
    reason_to_skip: str = ""
    layout: AdoptLayout | None = None
    segments: TableProperties | None = None
    declared: TableProperties | None = None


def find_target(request: WriteRequest, schema: pa.Schema, *, overwrite: bool) -> WriteTarget:
    """Return the target of a write of rows of `schema`, or refuse before anything is written."""
    storage = request.storage
    storage.check_writable()
    _check_mode(request, overwrite=overwrite)
    interval = request.replace_interval
    if request.plan is not None:
        return _named_target(request, request.plan, schema)
    if not holds_table(request.location, request.storage_options):
        properties = _new_properties(request, schema)
        condition = _condition(request, properties)
        return WriteTarget(storage, None, properties, interval=interval, condition=condition)
    snapshot = open_snapshot(storage)
    properties = snapshot.properties
    if reason := _reason_to_skip(request, snapshot):
        return WriteTarget(storage, snapshot.version, properties, reason_to_skip=reason)
    check_declared(
        properties,
        time_column=request.time_column,
        segment_granularity=request.segment_granularity,
        cluster_by=request.cluster_by,
        target_segment_rows=request.target_segment_rows,
        projections=request.projections or (),
        indexes=request.indexes or (),
    )
    columns = _columns(request, properties, schema)
    properties = with_changes(properties, columns)
    check_schema(schema, properties.schema)
    condition = _condition(request, properties)
    return WriteTarget(storage, snapshot.version, properties, columns, interval, condition)


def _named_target(request: WriteRequest, plan: WritePlan, schema: pa.Schema) -> WriteTarget:
    """Return the target of a write by name, whose table the plan of the engine has brought up."""
    if plan.replaces:
        return _replaced_target(request, plan, schema)
    if request.overwrites_schema or request.merges_schema:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            "columns of a defined table are declared: use ALTER TABLE, and leave mergeSchema and "
            "overwriteSchema out",
        )
    storage, segments = request.storage, plan.segments
    chosen = None if segments is plan.properties else segments
    check_schema(schema, plan.properties.schema)
    is_there = holds_table(request.location, request.storage_options)
    if plan.base_version is None:
        if is_there:
            raise CommitConflictError(
                "PROJSEG_COMMIT_CONFLICT",
                f"nothing was written: another writer made the table at {request.location}; repeat "
                "the statement",
            )
        return WriteTarget(
            storage, None, plan.properties, interval=request.replace_interval, segments=chosen
        )
    if reason := _reason_to_skip(request, open_snapshot(storage)):
        return WriteTarget(storage, plan.base_version, plan.properties, reason_to_skip=reason)
    return WriteTarget(
        storage,
        plan.base_version,
        plan.properties,
        plan.changes,
        request.replace_interval,
        _condition(request, plan.properties),
        layout=plan.layout,
        segments=chosen,
    )


def _replaced_target(request: WriteRequest, plan: WritePlan, schema: pa.Schema) -> WriteTarget:
    """Return the target of a write that replaces a table, columns and declaration and rows."""
    assert plan.base_version is not None
    check_schema(schema, plan.properties.schema)
    reason = _reason_to_skip(request, open_snapshot(request.storage))
    return WriteTarget(
        request.storage,
        plan.base_version,
        plan.properties,
        reason_to_skip=reason,
        declared=plan.properties,
    )


def overtaken_target(request: WriteRequest, wanted: WriteTarget, *, overwrite: bool) -> WriteTarget:
    """Return the target of a first write whose table another write has made meanwhile.

    The segments are written already, for the table that was wanted. The table that is there must
    have their columns, their types and their layout.
    """
    found = find_target(request, wanted.properties.schema, overwrite=overwrite)
    if found.reason_to_skip:
        return found
    made = found.properties
    # The segments have each column under its own name.
    stored = stored_by_name(made)
    types = {c.name: c.type for c in made.columns if stored[c.name] == c.name}
    for column in wanted.properties.columns:
        if types.get(column.name) != column.type:
            there = f"is {types[column.name]} in" if column.name in types else "is not in"
            raise InvalidInputError(
                "PROJSEG_SCHEMA_MISMATCH",
                f"column '{column.name}' is {column.type} in these rows and {there} the table "
                f"that another write has just made at {found.storage.location}; {_WRITE_AGAIN}",
            )
    for option in ("time_column", "segment_granularity", "cluster_by"):
        mine, others = getattr(wanted.properties, option), getattr(made, option)
        if mine != others:
            raise InvalidInputError(
                "PROJSEG_OPTION_CONTRADICTS_TABLE",
                f"these rows were written with {option}={mine!r} and the table that another write "
                f"has just made at {found.storage.location} has {option}={others!r}; "
                f"{_WRITE_AGAIN}",
            )
    return found


def _reason_to_skip(request: WriteRequest, existing: Snapshot) -> str:
    """Return why a write leaves the table that is there alone, or an empty text."""
    if request.transaction is not None:
        application, number = request.transaction
        newest = existing.file.transactions.get(application)
        if newest is not None and newest.version >= number:
            return f"transaction {number} of {application} was written before"
    if request.if_exists == "append":
        return ""
    where = f"{existing.storage.location} is a projseg table already"
    if request.if_exists == "error":
        raise InvalidInputError(
            "PROJSEG_TABLE_EXISTS",
            f"{where} and ifExists is 'error'; append to it, overwrite it, or choose another path",
        )
    return f"{where} and ifExists is 'ignore'"


def _new_properties(request: WriteRequest, schema: pa.Schema) -> TableProperties:
    options = declared_options(request)
    if request.replace_interval is not None and request.time_column is None:
        raise InvalidInputError(
            "PROJSEG_NO_TIME_COLUMN",
            f"option 'replaceInterval' needs a time column and {request.location} is not made yet; "
            "give option 'timeColumn' too",
        )
    return declare_properties(schema, **options)


def _condition(request: WriteRequest, properties: TableProperties) -> Condition | None:
    """Return which rows are to be replaced, having bound it to the table's columns."""
    text, zone = request.replace_where, request.timezone
    if text is None:
        return None

    def meaning(zone: str) -> object:
        query = scanned(properties, Condition(text, timezone=zone))
        return query.filter, query.interval

    if zone is None and depends_on_zone(meaning):
        raise zone_missing("replaceWhere", text)
    meaning(zone or "UTC")
    return Condition(text, timezone=zone or "UTC")


def _columns(
    request: WriteRequest, properties: TableProperties, schema: pa.Schema
) -> ColumnChanges | NewColumns:
    """Return how the columns of the table change for rows of `schema`."""
    if request.overwrites_schema:
        return NewColumns(columns_of(schema))
    return merged_columns(properties, schema) if request.merges_schema else NO_CHANGES


def _check_mode(request: WriteRequest, *, overwrite: bool) -> None:
    if overwrite and request.if_exists != "append":
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"option 'ifExists' is '{request.if_exists}' and the mode is 'overwrite'; use mode "
            "'append', which makes a table that is not there",
        )
    replaced = {
        "replaceInterval": request.replace_interval,
        "replaceWhere": request.replace_where,
    }
    given = [name for name, value in replaced.items() if value is not None]
    if given and not overwrite:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"option '{given[0]}' needs mode('overwrite'); mode('append') replaces nothing",
        )
    _check_new_columns(request, given, overwrite=overwrite)
    if request.replace_where is not None and (len(given) > 1 or request.merges_schema):
        other = "replaceInterval" if len(given) > 1 else "mergeSchema"
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"options 'replaceWhere' and '{other}' do not go together; "
            + (
                "put the time into the condition"
                if len(given) > 1
                else "add the columns by an append first"
            ),
        )


def _check_new_columns(request: WriteRequest, replaced: Sequence[str], *, overwrite: bool) -> None:
    if not request.overwrites_schema:
        return
    others = [*replaced, *(["mergeSchema"] if request.merges_schema else [])]
    if not overwrite:
        problem = "needs mode('overwrite'); mode('append') adds columns with option 'mergeSchema'"
    elif others:
        problem = f"and '{others[0]}' do not go together: new columns need all rows replaced"
    else:
        return
    raise InvalidInputError("PROJSEG_BAD_OPTION", f"option 'overwriteSchema' {problem}")

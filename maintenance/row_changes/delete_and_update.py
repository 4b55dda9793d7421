"""Delete and update rows, in one commit: rows are taken out of segments, others are added.

Segments of which metadata proves that every row matches leave the table unread, and those that hold
no such row stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from msgspec import UNSET, structs

from projseg.algebra.expressions.sql_words import hide_literals
from projseg.errors import CommitConflictError, InvalidInputError, did_you_mean
from projseg.maintenance.row_changes.affected_segments import (
    Rewriting,
    affected_segments,
    surviving_rows,
)
from projseg.maintenance.row_changes.matching_rows import Condition, rows_as_batches, scanned
from projseg.reader.plan.query_plan import QueryPlan
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import type_name
from projseg.table_layer.column_changes import NO_CHANGES, ColumnChanges, with_changes
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.commits.publish import removed_on_failure
from projseg.table_layer.indexed_columns import without_deferral
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.known_properties import ProjectionScope
from projseg.table_layer.metadata.segment_entry import SegmentEntry, written_files
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.metadata.table_schema import named_schema
from projseg.table_layer.storage.paths import new_write_id
from projseg.writer.checked_rows import normalise_batches
from projseg.writer.table_writer import write_segments

REWRITE_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Corrected:
    """What a delete, update or merge did.

    Parameters
    ----------
    version : int
        The table version written, or the newest if there was nothing to do.
    deleted_rows, updated_rows, inserted_rows : int
        How many rows.
    removed_segments, added_segments : int
        How many segments left the table, and how many were written.
    masked_segments : int
        How many stay, with deleted rows that no answer counts.
    """

    version: int
    deleted_rows: int = 0
    updated_rows: int = 0
    inserted_rows: int = 0
    removed_segments: int = 0
    added_segments: int = 0
    masked_segments: int = 0


RowsOf = Callable[[Snapshot, Rewriting], Iterator[pa.RecordBatch]]
"""Yields the rows to write for a version, and tells what they replace."""

OnSegment = Callable[[SegmentEntry], object]


def delete_rows(
    base: Snapshot, condition: Condition, note: CommitNote, *, dry_run: bool = False
) -> tuple[Snapshot, Corrected]:
    """Remove the rows that match a condition, in one commit; or only count them."""
    note = note.asking(**condition.parameters)
    return rewrite(
        base,
        lambda now, done: surviving_rows(now, condition, done),
        "delete",
        note,
        dry_run=dry_run,
    )


def update_rows(
    base: Snapshot,
    values: Mapping[str, str],
    condition: Condition,
    note: CommitNote,
    *,
    dry_run: bool = False,
) -> tuple[Snapshot, Corrected]:
    """Give columns of the rows that match a condition other values, in one commit.

    With `dry_run`, the new values are computed and nothing is written.
    """
    assigned = _assignments(base, values, condition)
    note = note.asking(
        **condition.parameters,
        **{f"set {name}": hide_literals(text) for name, text in values.items()},
    )
    return rewrite(
        base,
        lambda now, done: _updated(now, assigned, condition, done),
        "update",
        note,
        dry_run=dry_run,
    )


def add_columns(
    base: Snapshot,
    columns: ColumnChanges,
    values: Mapping[str, str],
    operation: str,
    note: CommitNote,
) -> Snapshot:
    """Change columns, and give new ones a value in the rows that are there, in one commit.

    Rows that others add meanwhile are a conflict, since they would have no value.
    """
    everything = Condition()
    assigned = _assignments(_with_columns(base, columns, new_write_id()), values, everything)
    return rewrite(
        base,
        lambda now, done: _updated(now, assigned, everything, done),
        operation,
        note,
        depends_on_all=True,
        columns=columns,
    )[0]


def rewrite(
    base: Snapshot,
    rows_of: RowsOf,
    operation: str,
    note: CommitNote,
    *,
    depends_on_all: bool = False,
    tries: int = REWRITE_TRIES,
    on_segment: OnSegment | None = None,
    dry_run: bool = False,
    columns: ColumnChanges = NO_CHANGES,
) -> tuple[Snapshot, Corrected]:
    """Replace segments by others, in one commit; again, if others replaced them meanwhile.

    `rows_of` is called at most `tries` times. With `depends_on_all`, rows that others add meanwhile
    are a conflict; with `dry_run`, errors are raised and nothing is written.
    """
    if dry_run:
        return base, _preview(base, rows_of)
    for tries_left in reversed(range(tries)):
        try:
            return _rewrite(
                base,
                rows_of,
                operation,
                note,
                depends_on_all=depends_on_all,
                on_segment=on_segment,
                columns=columns,
            )
        except CommitConflictError:
            if not tries_left:
                raise
            base = open_snapshot(base.storage)
    raise AssertionError("the last try returns or raises")


def _preview(base: Snapshot, rows_of: RowsOf) -> Corrected:
    done = Rewriting(new_write_id(), [], is_preview=True)
    properties = base.properties
    for _ in normalise_batches(rows_of(base, done), properties.schema, properties.time_column):
        pass  # each batch is checked as a writer checks it
    return Corrected(base.version, **done.metrics)


def _rewrite(
    base: Snapshot,
    rows_of: RowsOf,
    operation: str,
    note: CommitNote,
    *,
    depends_on_all: bool,
    on_segment: OnSegment | None,
    columns: ColumnChanges,
) -> tuple[Snapshot, Corrected]:
    storage, write_id = base.storage, new_write_id()
    with removed_on_failure(storage, write_id, base.version) as files:
        done = Rewriting(write_id, files)
        changed = _with_columns(base, columns, write_id)
        rows = rows_of(changed, done)
        entries = tuple(
            write_segments(
                rows,
                building_all(changed.properties),
                storage,
                write_id=write_id,
                on_segment=on_segment,
            )
        )
        files += written_files(entries)
        corrected = Corrected(base.version, added_segments=len(entries), **done.metrics)
        if not done.has_changes and not entries and columns == NO_CHANGES:
            return base, corrected
        snapshot = commit(
            storage,
            base,
            structs.replace(
                done.replacing(entries, depends_on_all=depends_on_all), columns=columns
            ),
            write_id=write_id,
            operation=operation,
            metrics={
                **done.metrics,
                "added_segments": len(entries),
                "added_rows": sum(entry.row_count for entry in entries),
            },
            note=note,
        )
    return snapshot, replace(corrected, version=snapshot.version)


def _with_columns(base: Snapshot, columns: ColumnChanges, write_id: str) -> Snapshot:
    """Return a version as it would be after changes of columns; its name is a commit's to come."""
    if columns == NO_CHANGES:
        return base
    properties = with_changes(base.file.properties, columns)
    file = structs.replace(base.file, properties=properties, write_id=write_id)
    return Snapshot(base.storage, file)


def building_all(properties: TableProperties) -> TableProperties:
    """Return a table's properties with no projection or index deferred.

    A segment that is written anew may have held those that are, and its queries would miss them.
    """
    deferred = ProjectionScope(is_deferred=True)
    keys = {key for p in properties.projections for key in deferred.to_properties(p.name)}
    kept = {key: text for key, text in properties.properties.items() if key not in keys}
    indexes = without_deferral(properties.declared_indexes) or UNSET
    return structs.replace(properties, properties=kept, indexes=indexes)


def _updated(
    snapshot: Snapshot, values: Mapping[str, str], condition: Condition, done: Rewriting
) -> Iterator[pa.RecordBatch]:
    changed = QueryPlan(
        scanned(snapshot.properties, condition, values), named_schema(snapshot.properties), ()
    )
    for affected in affected_segments(snapshot, condition):
        done.updated += affected.row_count
        yield from done.take_out(affected, snapshot.properties)
        yield from rows_as_batches(changed, affected.source(), affected.row_ids)


def _assignments(
    snapshot: Snapshot, values: Mapping[str, str], condition: Condition
) -> dict[str, str]:
    """Return an expression of each column's own type, by the table's names."""
    schema, declared = snapshot.properties.schema, condition.declared
    names = {name_key(name): name for name in schema.names}
    seen = {field.name: field.type for field in schema}
    if declared is not None:
        visible = [(one, one.stored) for one in declared.columns if one.stored is not None]
        names = {name_key(one.name): stored for one, stored in visible}
        seen |= {stored: declared.schema.field(one.name).type for one, stored in visible}
    if not values or not isinstance(values, Mapping):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", "an update sets no column; give {column: expression}"
        )
    assigned: dict[str, str] = {}
    for given, text in values.items():
        name = names.get(name_key(str(given)))
        if name is None or name in assigned:
            problem = "twice set" if name else "not in the table"
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN",
                f"column '{given}' to be updated is {problem}"
                f"{did_you_mean(str(given), names.values())}",
            )
        assigned[name] = f"({text})"
    spec = scanned(snapshot.properties, condition, assigned)
    types = {named.name: named.expression.type for named in spec.columns}
    for name, text in assigned.items():
        assigned[name] = text
        found = types[name]
        for wanted in (seen[name], schema.field(name).type):
            if found == wanted:
                continue
            if not _may_store(found, wanted):
                raise InvalidInputError(
                    "PROJSEG_SCHEMA_MISMATCH",
                    f"column '{name}' is {type_name(wanted)} and would be set to "
                    f"{type_name(found)}; cast the expression {text}",
                )
            assigned[name], found = f"CAST({assigned[name]} AS {type_name(wanted)})", wanted
    return assigned


def _may_store(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark's ANSI mode casts a value of one type in silence, to store it as another."""
    kinds = (_is_number, pa.types.is_temporal)
    return pa.types.is_null(found) or any(kind(found) and kind(wanted) for kind in kinds)


def _is_number(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(kind(type_) for kind in kinds)

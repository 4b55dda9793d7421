"""What changes of columns mean after others changed columns, or that they conflict.

Segments name columns by stored names, so rows that were written for columns as they were stay
right after others renamed, widened, added or dropped some: it is as if the rows came first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from msgspec import UNSET
from msgspec.structs import replace

from projseg.algebra.projection.renamed_projection import mentioned_columns
from projseg.errors import CommitConflictError, InvalidInputError
from projseg.table_layer.columns.column_changes import (
    NO_CHANGES,
    ColumnChanges,
    NewColumns,
    with_changes,
)
from projseg.table_layer.columns.projection_names import stored_spec
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.stored_columns import ColumnDeclaration, Forms, StoredColumns
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration, TableProperties
from projseg.table_layer.metadata.table_schema import (
    live_stored_names,
    named_schema,
    stored_by_name,
)


def rebased_columns(
    changes: ColumnChanges | NewColumns, base: TableProperties, current: TableProperties
) -> TableProperties:
    """Return what the newest version declares after changes that were made for its base.

    Parameters
    ----------
    changes : ColumnChanges or NewColumns
        The changes.
    base, current : TableProperties
        Of the version that they were made for, and of the newest.

    Raises
    ------
    CommitConflictError
        If others changed a column that is changed here.
    InvalidInputError
        If the changes contradict the base itself.
    """
    if changes == NO_CHANGES:
        return current
    wanted = with_changes(base, changes)
    if isinstance(changes, NewColumns):
        if (base.columns, base.stored_columns) != (current.columns, current.stored_columns):
            conflict("another commit changed the columns to be replaced")
        return _changed(current, changes)
    for name in changes.names:
        now = _meaning(current, name)
        if now != _meaning(base, name) and now != _meaning(wanted, name):
            conflict(f"column '{name}' was changed by another commit")
    changed = _changed(current, changes)
    for name in changes.names:
        if _meaning(changed, name) != _meaning(wanted, name):
            conflict(f"column '{name}' was added and dropped by other commits")
    return changed


def check_reads(declared: ProjectionDeclaration, current: TableProperties) -> None:
    """Refuse a projection that reads columns which others have dropped or widened meanwhile."""
    if current.stored_columns is UNSET:
        return
    spec = stored_spec(declared.name, declared.definition, current)
    if not mentioned_columns(spec) <= set(stored_by_name(current).values()):
        conflict(f"a column that projection '{declared.name}' reads was changed")


def check_entries(
    entries: Iterable[SegmentEntry],
    base: Snapshot,
    since: Sequence[Snapshot],
    properties: TableProperties,
) -> None:
    """Refuse segments whose columns the next version does not have.

    Raises
    ------
    CommitConflictError
        If a restore, or an overwrite with other columns, took columns away since the base.
    InvalidInputError
        PROJSEG_UNKNOWN_COLUMN if the table never had a column.
    """
    known = named_schema(properties).stored_types
    gone = live_stored_names(base.properties) - live_stored_names(properties)
    replaced = any(snapshot.file.change == "overwrite" for snapshot in since)
    for entry in entries:
        unknown = entry.columns.keys() - known.keys()
        lost = entry.columns.keys() & gone
        if replaced and lost:
            conflict(f"column '{min(lost)}' was replaced or taken back by another commit")
        if unknown:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN",
                f"segment {entry.file} has column '{min(unknown)}', which the table has not; add "
                "it with mergeSchema",
            )


def without_forgetting(properties: TableProperties, current: TableProperties) -> TableProperties:
    """Return earlier properties that still know every stored name ever given."""
    if current.stored_columns is UNSET:
        return properties
    plain = tuple((column,) for column in properties.columns)
    stored = properties.stored_columns
    stored = StoredColumns(plain) if stored is UNSET else stored
    known = {form.name for form in stored.every}
    later = tuple(form for form in current.stored_columns.every if form.name not in known)
    if not later:
        return properties
    return replace(properties, stored_columns=replace(stored, retired=(*stored.retired, *later)))


def conflict(what: str) -> NoReturn:
    """Raise the error of a commit that depends on what others changed."""
    raise CommitConflictError(
        "PROJSEG_COMMIT_CONFLICT", f"nothing was committed: {what}; open the table and try again"
    )


def _changed(current: TableProperties, changes: ColumnChanges | NewColumns) -> TableProperties:
    try:
        return with_changes(current, changes)
    except InvalidInputError as error:
        conflict(error.message)


def _meaning(properties: TableProperties, name: str) -> tuple[ColumnDeclaration, Forms] | None:
    """Return a column and its stored names, found regardless of case; None if there is none."""
    stored = properties.stored_columns
    forms = [(c,) for c in properties.columns] if stored is UNSET else stored.columns
    for column, names in zip(properties.columns, forms, strict=True):
        if column.name.casefold() == name.casefold():
            return column, names
    return None

"""Change the columns of a table; see `AlteredTable`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from projseg.declarations import schema_of
from projseg.errors import InvalidInputError
from projseg.table_layer.columns.column_changes import ColumnChanges, find_column
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata.change import ChangeColumns
from projseg.table_layer.metadata.commit_info import CommitNote
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import TableProperties, columns_of
from projseg.table_layer.storage.paths import new_write_id


def adding(properties: TableProperties, columns: Mapping[str, str | pa.DataType]) -> ColumnChanges:
    """Return the change that adds columns, none of which the table has.

    Raises
    ------
    InvalidInputError
        PROJSEG_COLUMN_EXISTS, PROJSEG_BAD_TYPE_NAME.
    """
    known = {column.name.casefold(): column for column in properties.columns}
    for name in columns:
        if (there := known.get(str(name).casefold())) is not None:
            raise InvalidInputError(
                "PROJSEG_COLUMN_EXISTS",
                f"the table has column '{there.name}' as {there.type} already; choose another name "
                "to add a column, or widen that one",
            )
    return ColumnChanges(add=columns_of(schema_of(columns)))


def renaming(properties: TableProperties, old: str, new: str) -> ColumnChanges:
    """Return the change that renames a column."""
    return ColumnChanges(rename=((find_column(properties, old), new),))


def dropping(properties: TableProperties, names: Sequence[str]) -> ColumnChanges:
    """Return the change that drops columns."""
    return ColumnChanges(drop=tuple(find_column(properties, name) for name in names))


def widening(properties: TableProperties, name: str, type: str | pa.DataType) -> ColumnChanges:
    """Return the change that widens a column."""
    column = find_column(properties, name)
    return ColumnChanges(widen=columns_of(schema_of({column: type})))


def change_columns(base: Snapshot, changes: ColumnChanges, note: CommitNote) -> Snapshot:
    """Publish a change of columns, and return the version that has it.

    Parameters
    ----------
    base : Snapshot
        The version that the change was made for.
    changes : ColumnChanges
        The change.
    note : CommitNote
        For the table's history.

    Raises
    ------
    InvalidInputError
        If the columns cannot be changed so.
    CommitError, StorageError
        As of `commit`.
    """
    return commit(
        base.storage,
        base,
        ChangeColumns(changes),
        write_id=new_write_id(),
        operation=_operation(changes),
        note=note.asking(**_parameters(changes)),
    )


def _operation(changes: ColumnChanges) -> str:
    """Return what the history calls the change, in Delta's words."""
    if changes.add:
        return "ADD COLUMNS"
    if changes.drop:
        return "DROP COLUMNS"
    if changes.rename:
        return "RENAME COLUMN"
    return "CHANGE COLUMN" if len(changes.widen) == 1 else "CHANGE COLUMNS"


def _parameters(changes: ColumnChanges) -> dict[str, str]:
    """Return what was asked for, as Delta's history names it."""
    told: dict[str, str] = {}
    if changes.add:
        columns = [{"column": {"name": c.name, "type": c.type}} for c in changes.add]
        told["columns"] = json.dumps(columns)
    if changes.drop:
        told["columns"] = json.dumps(list(changes.drop))
    for old, new in changes.rename:
        told |= {"oldColumnPath": old, "newColumnPath": new}
    widened = [{"name": column.name, "type": column.type} for column in changes.widen]
    if len(widened) == 1:
        told["column"] = json.dumps(widened[0])
    elif widened:
        told["columns"] = json.dumps(widened)
    return told

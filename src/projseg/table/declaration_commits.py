"""Publish changes of what a table declares: its columns, projections and indexes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from projseg.algebra.projection.parse import parse_projection
from projseg.declarations import (
    IndexLike,
    ProjectionLike,
    declaration_of,
    declared_index,
    schema_of,
)
from projseg.errors import InvalidInputError, ProjsegError, one_line
from projseg.segment_format.format_limits import name_key
from projseg.table_layer.column_changes import ColumnChanges, find_column
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata.change import Change, ChangeColumns, CommitNote, SetProperties
from projseg.table_layer.metadata.index_declaration import DeclaredIndex, find_index
from projseg.table_layer.metadata.known_properties import declare_scope, scope_keys
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import (
    ProjectionDeclaration,
    TableProperties,
    columns_of,
)
from projseg.table_layer.renamed_columns import stored_declaration
from projseg.table_layer.storage.paths import new_write_id

if TYPE_CHECKING:
    from projseg.algebra.time.interval import Interval


def adding(properties: TableProperties, columns: Mapping[str, str | pa.DataType]) -> ColumnChanges:
    """Return the change that adds columns, none of which the table has."""
    known = {name_key(column.name): column for column in properties.columns}
    added = columns_of(schema_of(columns))
    for column in added:
        if (there := known.get(name_key(column.name))) is not None:
            raise InvalidInputError(
                "PROJSEG_COLUMN_EXISTS",
                f"the table has column '{there.name}' as {there.type} already; choose another name "
                "to add a column, or widen that one",
            )
    return ColumnChanges(add=added)


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


def change_columns(
    base: Snapshot,
    changes: ColumnChanges,
    note: CommitNote,
    values: Mapping[str, str] | None = None,
) -> Snapshot:
    """Publish a change of columns; `values` are what rows that are there get in new ones."""
    operation, note = _operation(changes), note.asking(**_parameters(changes))
    if values and base.segments:
        # Imported here: a change of columns alone starts without the modules that write rows.
        from projseg.maintenance.row_changes.delete_and_update import add_columns

        return add_columns(base, changes, values, operation, note)
    if changes.drop:
        from projseg.views.refresh_on_commit import check_unused

        check_unused(base, changes.drop)
    return commit(
        base.storage,
        base,
        ChangeColumns(changes),
        write_id=new_write_id(),
        operation=operation,
        note=note,
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
    parameters: dict[str, str] = {}
    if changes.add:
        columns = [{"column": {"name": c.name, "type": c.type}} for c in changes.add]
        parameters["columns"] = json.dumps(columns)
    if changes.drop:
        parameters["columns"] = json.dumps(list(changes.drop))
    for old, new in changes.rename:
        parameters |= {"oldColumnPath": old, "newColumnPath": new}
    widened = [{"name": column.name, "type": column.type} for column in changes.widen]
    if len(widened) == 1:
        parameters["column"] = json.dumps(widened[0])
    elif widened:
        parameters["columns"] = json.dumps(widened)
    return parameters


def add_projection(
    base: Snapshot,
    declaration: ProjectionLike,
    *,
    build: str,
    interval: Interval | None,
    retain: str | None,
    max_row_ratio: float | None,
    max_bytes_ratio: float | None,
    note: CommitNote,
) -> tuple[Snapshot, str]:
    """Declare a projection after the table version `base`; return also its name.

    See `Table.add_projection`.
    """
    properties = base.properties
    scope = declare_scope(
        build=build,
        interval=interval,
        retain=retain,
        max_row_ratio=max_row_ratio,
        max_bytes_ratio=max_bytes_ratio,
    )
    spec = parse_projection(
        declaration_of(declaration),
        properties.schema,
        time_column=properties.time_column,
    )
    stated = scope.to_properties(spec.name)
    others = tuple(key for key in scope_keys(spec.name) if key not in stated)
    stored = stored_declaration(spec, properties)
    own = properties.properties
    is_scoped_so = stated.items() <= own.items() and not own.keys() & set(others)
    if stored in properties.projections and is_scoped_so:
        return base, spec.name
    change = SetProperties(
        add_projections=(stored,),
        properties=stated,
        drop_properties=others,
    )
    note = note.asking(projection=spec.name, **stated)
    return _set_projections(base, change, "add projection", note), spec.name


@contextmanager
def telling_of_declaration(what: str) -> Iterator[None]:
    """Say in an error of what follows a declaration that the declaration stands."""
    try:
        yield
    except ProjsegError as error:
        found = copy(error)
        found.message = one_line(
            f"{what} is declared, and building it for the segments that are there failed: "
            f"{error.message}; build it later by materializing"
        )
        found.args = (found.code, found.message)
        raise found from error


def drop_projection(base: Snapshot, name: str, note: CommitNote) -> Snapshot:
    """Stop embedding a projection in segments written after the table version `base`."""
    gone = (*scope_keys(name), advice_key(name))
    change = SetProperties(drop_projections=(name,), drop_properties=gone)
    return _set_projections(base, change, "drop projection", note.asking(projection=name))


def advice_key(name: str) -> str:
    """Return the table property that keeps the estimate by which a projection was advised."""
    return f"advice.{name}"


class Declarations(NamedTuple):
    """What is declared and dropped together, and the estimates of advice.

    `estimates` are stored by the name of an item, because a view has no other declaration; those of
    names in `forgotten` go.
    """

    projections: tuple[ProjectionDeclaration, ...] = ()
    indexes: tuple[DeclaredIndex, ...] = ()
    estimates: Mapping[str, str] = MappingProxyType({})
    dropped_projections: tuple[str, ...] = ()
    dropped_indexes: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not any(self)

    def dropping(
        self, properties: TableProperties, names: Mapping[str, str | None]
    ) -> Declarations:
        """Return the same with drops, by name the kind of each, of what the table declares."""
        declared = {
            "index": {one.name for one in properties.declared_indexes},
            "projection": {one.name for one in properties.projections},
        }

        def those(kind: str) -> tuple[str, ...]:
            return tuple(n for n, one in names.items() if one == kind and n in declared[kind])

        return self._replace(
            dropped_projections=those("projection"),
            dropped_indexes=those("index"),
            forgotten=tuple(n for n in names if advice_key(n) in properties.properties),
        )


def declare_together(base: Snapshot, declarations: Declarations, note: CommitNote) -> Snapshot:
    """Declare and drop in one commit, and keep the estimates of what was advised."""
    gone = [key for name in declarations.dropped_projections for key in scope_keys(name)]
    change = SetProperties(
        add_projections=declarations.projections,
        drop_projections=declarations.dropped_projections,
        add_indexes=declarations.indexes,
        drop_indexes=declarations.dropped_indexes,
        properties={advice_key(name): text for name, text in declarations.estimates.items()},
        drop_properties=(*gone, *map(advice_key, declarations.forgotten)),
    )
    dropped = (*declarations.dropped_projections, *declarations.dropped_indexes)
    names = {"added": ", ".join(declarations.estimates), "dropped": ", ".join(dropped)}
    note = note.asking(**{key: text for key, text in names.items() if text})
    return _set_projections(base, change, "apply advice", note)


def add_index(
    base: Snapshot,
    index: IndexLike,
    *,
    build: str,
    interval: Interval | None,
    retain: str | None,
    max_bytes_ratio: float | None,
    note: CommitNote,
) -> tuple[Snapshot, str]:
    """Declare an index after the table version `base`; return also its name.

    See `Table.add_index`.
    """
    scope = declare_scope(
        build=build, interval=interval, retain=retain, max_bytes_ratio=max_bytes_ratio
    )
    declared = declared_index(index, base.properties, scope)
    columns = ", ".join(one.column for one in declared.columns)
    note = note.asking(
        index=declared.name, kind=declared.kind, columns=columns, **declared.properties
    )
    change = SetProperties(add_indexes=(declared,))
    return _set_projections(base, change, "add index", note), declared.name


def drop_index(base: Snapshot, name: str, note: CommitNote) -> Snapshot:
    """Drop an index after the table version `base`."""
    known = find_index(base.properties.declared_indexes, name).name
    change = SetProperties(drop_indexes=(known,), drop_properties=(advice_key(known),))
    return _set_projections(base, change, "drop index", note.asking(index=known))


def _set_projections(base: Snapshot, change: Change, operation: str, note: CommitNote) -> Snapshot:
    return commit(
        base.storage, base, change, write_id=new_write_id(), operation=operation, note=note
    )

"""What changes of columns and layouts mean after others' changes, or that they conflict.

Segments name columns by stored names, so rows that were written for columns as they were stay
right after others renamed, widened, added or dropped some: it is as if the rows came first.

The layout that a table takes from a definition of a catalog: SPEC.md "Table", adopted layouts. A
table remembers from which definition it took its layout, and at which version. So an older version,
in the hands of a writer that has not seen the newer one, takes nothing back, and two definitions of
one table do not take turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, NoReturn, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from projseg.algebra.projection.renamed_projection import mentioned_columns
from projseg.errors import CommitConflictError, InvalidInputError
from projseg.segment_format.format_limits import name_key
from projseg.table_layer.column_changes import NO_CHANGES, ColumnChanges, NewColumns, with_changes
from projseg.table_layer.metadata.change import AdoptLayout
from projseg.table_layer.metadata.known_properties import scope_keys
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.stored_columns import ColumnDeclaration, Forms, StoredColumns
from projseg.table_layer.metadata.table_properties import (
    ProjectionDeclaration,
    TableProperties,
    check_projection_count,
    kept_when_replaced,
)
from projseg.table_layer.metadata.table_schema import (
    live_stored_names,
    named_schema,
    stored_by_name,
)
from projseg.table_layer.renamed_columns import stored_spec

DEFINITION: Final = "catalog.definition"
DEFINITION_VERSION: Final = "catalog.definitionVersion"
"""The properties of a table that say which definition it adopted, and at which version."""

_Value = TypeVar("_Value")


def rebased_columns(
    changes: ColumnChanges | NewColumns, base: TableProperties, current: TableProperties
) -> TableProperties:
    """Return what the newest version declares after changes that were made for its base."""
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


def redeclared(
    declared: TableProperties, base: TableProperties, current: TableProperties
) -> TableProperties:
    """Return a declaration in place of the newest version's, which keeps what is not its own."""
    if (base.columns, base.stored_columns) != (current.columns, current.stored_columns):
        conflict("another commit changed the columns to be replaced")
    kept = kept_when_replaced(current)
    return replace(declared, properties={**declared.properties, **kept})


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
    declared: TableProperties | None = None,
) -> None:
    """Refuse segments whose columns the next version does not have, or whose times are others.

    They were written for the declarations of the base, or for `declared`.
    """
    entries = tuple(entries)
    if entries and _stored_time(declared or base.properties) != _stored_time(properties):
        conflict("another commit replaced the time column")
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


def _stored_time(properties: TableProperties) -> str | None:
    """Return the stored name of the time column, which segments state their times of."""
    time = properties.time_column
    return None if time is None else stored_by_name(properties)[time]


def _meaning(properties: TableProperties, name: str) -> tuple[ColumnDeclaration, Forms] | None:
    """Return a column and its stored names, found regardless of case; None if there is none."""
    stored = properties.stored_columns
    forms = [(c,) for c in properties.columns] if stored is UNSET else stored.columns
    for column, names in zip(properties.columns, forms, strict=True):
        if name_key(column.name) == name_key(name):
            return column, names
    return None


class Adopted(NamedTuple):
    """The definition that a table has adopted."""

    definition: str
    version: int


def adopted_by(properties: TableProperties) -> Adopted | None:
    """Return the definition that a table has adopted; None if there is none, or no valid one."""
    definition = properties.properties.get(DEFINITION)
    version = properties.properties.get(DEFINITION_VERSION, "")
    if not definition or not (version.isascii() and version.isdecimal()):
        return None
    return Adopted(definition, int(version))


def may_adopt(properties: TableProperties, definition: str, version: int) -> bool:
    """Whether a table takes its layout from this version of a definition."""
    adopted = adopted_by(properties)
    return adopted is None or (adopted.definition == definition and adopted.version <= version)


def with_layout(current: TableProperties, layout: AdoptLayout) -> TableProperties:
    """Return what a table declares once it has adopted a layout, if it may.

    `current` has the columns that are added in the same commit.
    """
    definition, version = layout.definition, layout.definition_version
    if not layout.takes_over and not may_adopt(current, definition, version):
        return current
    names = {column.name for column in current.columns}
    for name in layout.cluster_by or ():
        if name not in names:
            conflict(f"column '{name}', by which new segments are sorted, was changed")
    declared = {projection.name: projection for projection in current.projections}
    anew = [p for p in layout.projections if declared.get(p.name) != p]
    for projection in anew:
        check_reads(projection, current)
        declared[projection.name] = projection
    scopes = {key for projection in anew for key in scope_keys(projection.name)}
    kept = {key: text for key, text in current.properties.items() if key not in scopes}
    changed = replace(
        current,
        segment_granularity=_or(layout.segment_granularity, current.segment_granularity),
        cluster_by=_or(layout.cluster_by, current.cluster_by),
        target_segment_rows=_or(layout.target_segment_rows, current.target_segment_rows),
        projections=tuple(declared.values()),
        properties={
            **kept,
            **layout.properties,
            DEFINITION: definition,
            DEFINITION_VERSION: str(version),
        },
    )
    if anew:
        check_projection_count(changed)
    return changed


def _or(given: _Value | None, present: _Value) -> _Value:
    return present if given is None else given

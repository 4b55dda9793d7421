"""What a write by name does beside adding rows: columns, layout, and values as declared."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.query.declared_columns import DeclaredColumns
from projseg.catalog.declared_table import (
    bindings_of,
    column_changes,
    layout_of,
)
from projseg.catalog.store.table_metadata import ProjectionStatus, TableMetadata, TableStatus
from projseg.catalog.stored_values import assigned
from projseg.table.writes import OnSegment
from projseg.table_layer.column_changes import NO_CHANGES, ColumnChanges, with_changes
from projseg.table_layer.commits.commit import not_committed
from projseg.table_layer.commits.rebase_declarations import may_adopt, with_layout
from projseg.table_layer.metadata.change import AdoptLayout
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import TableProperties, check_properties
from projseg.table_layer.storage.storage_contract import Storage
from projseg.writer.table_writer import write_segments

Counts: TypeAlias = Literal["now", "sometimes", "never"]
_COUNTED_US: Final = 60_000_000


class Prepared(NamedTuple):
    """What a write by name does beside adding rows.

    Parameters
    ----------
    definition : TableMetadata
        With a binding of each declared column.
    properties : TableProperties
        Of the table after the commit.
    changes : ColumnChanges
        The columns that are added and widened.
    layout : AdoptLayout or None
        The layout that becomes the table's.
    """

    definition: TableMetadata
    properties: TableProperties
    changes: ColumnChanges
    layout: AdoptLayout | None

    @property
    def is_change(self) -> bool:
        """Whether the table declares anything else afterwards."""
        return self.changes != NO_CHANGES or self.layout is not None


def prepared(
    definition: TableMetadata, properties: TableProperties, *, takes_over: bool = False
) -> Prepared:
    """Return what a write by name does to a table with these properties.

    Raises
    ------
    InvalidInputError
        If the definition does not fit the table.
    """
    changes = column_changes(definition, properties)
    changed = with_changes(properties, changes)
    added = {column.name.casefold() for column in changes.add}
    kept = {name: form for name, form in definition.bindings.items() if name not in added}
    definition = replace(definition, bindings=kept)
    definition = replace(definition, bindings=bindings_of(definition, changed))
    layout = None
    if takes_over or may_adopt(changed, definition.id, definition.version):
        layout = layout_of(definition, changed, takes_over=takes_over)
    declared = changed if layout is None else with_layout(changed, layout)
    check_properties(declared)
    return Prepared(definition, declared, changes, layout)


def cast_rows(
    rows: Iterable[pa.RecordBatch],
    declared: DeclaredColumns,
    properties: TableProperties,
    definition: TableMetadata,
) -> Iterator[pa.RecordBatch]:
    """Yield rows under declared names as the table stores them, as `assigned` does."""
    schema = properties.schema
    return assigned(rows, declared, lambda column: schema.field(column.stored).type, definition)


def write_chosen(
    rows: Iterable[pa.RecordBatch],
    properties: TableProperties,
    options: Mapping[str, Any],
    storage: Storage,
    write_id: str,
    on_segment: OnSegment | None,
) -> tuple[Any, ...]:
    """Write rows as segments, in a statement's layout where it chooses one.

    Raises
    ------
    ProjsegError
        As of `write_segments`; nothing is committed.
    """
    chosen = replace(properties, **options)
    check_properties(chosen)
    try:
        storage.check_writable()
        return tuple(
            write_segments(rows, chosen, storage, write_id=write_id, on_segment=on_segment)
        )
    except OSError as error:
        raise not_committed(storage, error) from error


def given_options(
    granularity: str | None, cluster_by: Sequence[str] | None, rows: int | None
) -> dict[str, Any]:
    """Return the layout that a statement chooses for its own segments."""
    given = {
        "segment_granularity": granularity,
        "cluster_by": None if cluster_by is None else tuple(cluster_by),
        "target_segment_rows": rows,
    }
    return {name: value for name, value in given.items() if value is not None}


def metrics_of(entries: Sequence[Any]) -> dict[str, int]:
    """Return what the history counts of an append."""
    rows = sum(entry.live_row_count for entry in entries)
    return {"added_segments": len(entries), "added_rows": rows}


def said_of(layout: AdoptLayout | None) -> dict[str, str]:
    """Return what the history says of a layout that is adopted."""
    if layout is None:
        return {}
    return {
        "definition": layout.definition,
        "definitionVersion": str(layout.definition_version),
    }


def seen_of(definition: TableMetadata, properties: TableProperties) -> dict[str, Any]:
    """Return what a catalog keeps of a definition's table: its id, bindings and columns."""
    return {
        "table_id": properties.table_id,
        "bindings": bindings_of(definition, properties),
        "stored_schema": {column.name: column.type for column in properties.columns},
    }


def is_old(status: TableStatus | None) -> bool:
    """Whether a table's segments were counted more than a minute ago, or never."""
    return status is None or time.time_ns() // 1000 - status.at_us > _COUNTED_US


def status_of(definition: TableMetadata, snapshot: Snapshot) -> TableStatus:
    """Count what became of the projections of a definition and of its table.

    Parameters
    ----------
    definition : TableMetadata
        Projections that it alone declares are missing in all segments.
    snapshot : Snapshot
        The table; no segment file is opened.
    """
    from projseg.table_layer.coverage import projection_stats

    found = []
    for row in projection_stats(snapshot).to_pylist():
        counts = (row[key] for key in ("built", "missing", "failed", "rows", "bytes"))
        found.append(_status(row["projection"], *counts))
    known, segment_count = {one.name.casefold() for one in found}, len(snapshot.segments)
    names = (str(one.get("name")) for one in definition.spec.layout.projections or ())
    found += [
        _status(name, 0, segment_count, 0, 0, 0) for name in names if name.casefold() not in known
    ]
    return TableStatus(
        snapshot.version,
        time.time_ns() // 1000,
        segment_count,
        snapshot.row_count,
        snapshot.data_bytes,
        found,
    )


def _status(name: str, held: int, missing: int, failed: int, *sizes: int) -> ProjectionStatus:
    lacking = "ENABLED" if not missing else "PARTIAL" if held else "DISABLED"
    status = "FAILED" if failed else lacking
    return ProjectionStatus(name, status, held, missing, failed, *sizes)

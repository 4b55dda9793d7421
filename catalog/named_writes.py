"""What a write by name does beside adding rows: columns, layout, and values as declared.

Values are cast as Spark's ANSI mode assigns them to columns.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.query.declared_columns import DeclaredColumn, DeclaredColumns
from projseg.catalog.declared_table import bindings_of, column_changes, layout_of
from projseg.catalog.store.table_metadata import ProjectionStatus, TableMetadata, TableStatus
from projseg.errors import EvaluationError, InvalidInputError, ProjsegError, did_you_mean
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import is_nested, normal_type, type_name
from projseg.table.writes import OnSegment
from projseg.table_layer.column_changes import NO_CHANGES, ColumnChanges, with_changes
from projseg.table_layer.commits.commit import not_committed
from projseg.table_layer.commits.rebase_declarations import may_adopt, with_layout
from projseg.table_layer.metadata.change import AdoptLayout
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import (
    TableProperties,
    check_properties,
    in_own_spelling,
)
from projseg.table_layer.storage.storage_contract import Storage
from projseg.writer.checked_rows import convert_column
from projseg.writer.table_writer import write_segments

Counts: TypeAlias = Literal["now", "sometimes", "never"]
_COUNTED_US: Final = 60_000_000


class Prepared(NamedTuple):
    """What a write by name does beside adding rows: the table's properties are those afterwards."""

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
    """Return what a write by name does to a table with these properties."""
    changes = column_changes(definition, properties)
    changed = with_changes(properties, changes)
    added = {name_key(column.name) for column in changes.add}
    kept = {name: form for name, form in definition.bindings.items() if name not in added}
    definition = replace(definition, bindings=kept)
    definition = replace(definition, bindings=bindings_of(definition, changed))
    layout = None
    if takes_over or may_adopt(changed, definition.id, definition.version):
        layout = layout_of(definition, changed, takes_over=takes_over)
    declared = changed if layout is None else with_layout(changed, layout)
    check_properties(declared)
    return Prepared(definition, declared, changes, layout)


def write_chosen(
    rows: Iterable[pa.RecordBatch],
    properties: TableProperties,
    options: Mapping[str, Any],
    storage: Storage,
    write_id: str,
    on_segment: OnSegment | None,
) -> tuple[Any, ...]:
    """Write rows as segments, in a statement's layout where it chooses one."""
    chosen = replace(properties, **in_own_spelling(options, properties.schema.names))
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
    """Count what became of projections of a definition and of its table; no segment is opened."""
    from projseg.table_layer.coverage import projection_stats

    found = []
    for row in projection_stats(snapshot).to_pylist():
        counts = (row[key] for key in ("built", "missing", "failed", "rows", "bytes"))
        found.append(_status(row["projection"], *counts))
    known, segment_count = {name_key(one.name) for one in found}, len(snapshot.segments)
    names = (str(one.get("name")) for one in definition.spec.layout.projections or ())
    found += [
        _status(name, 0, segment_count, 0, 0, 0) for name in names if name_key(name) not in known
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


def check_names(found: pa.Schema, declared: DeclaredColumns, definition: TableMetadata) -> None:
    """Refuse columns that rows may not have."""
    spec = definition.spec
    visible = {name_key(one.name) for one in declared.columns}
    own = {name_key(column.name) for column in spec.columns}
    for name in found.names:
        folded = name_key(name)
        if folded in spec.hidden:
            raise InvalidInputError(
                "PROJSEG_HIDDEN_COLUMN",
                f"column '{name}' is hidden by definition '{definition.full_name}'; leave it out, "
                "unhide it, or write by path",
            )
        if spec.layout.sealed is True and folded not in own:
            raise InvalidInputError(
                "PROJSEG_SEALED_TABLE",
                f"'{definition.full_name}' is sealed, and does not declare column '{name}'"
                f"{did_you_mean(name, (column.name for column in spec.columns))}; declare it, or "
                "leave it out",
            )
        if folded not in visible:
            names = (one.name for one in declared.columns)
            raise InvalidInputError(
                "PROJSEG_SCHEMA_MISMATCH",
                f"column '{name}' is neither declared nor in the table{did_you_mean(name, names)}; "
                "declare it, or leave it out",
            )


def cast_rows(
    rows: Iterable[pa.RecordBatch],
    declared: DeclaredColumns,
    properties: TableProperties,
    definition: TableMetadata,
) -> Iterator[pa.RecordBatch]:
    """Yield rows under the table's names: cast to the declared types, then to the stored ones."""
    by_name, schema = {name_key(one.name): one for one in declared.columns}, properties.schema
    for batch in rows:
        check_names(batch.schema, declared, definition)
        columns, names = [], []
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            column = by_name[name_key(name)]
            assert column.stored is not None, "declared columns are added before rows are written"
            columns.append(_column(array, column, declared, schema.field(column.stored).type))
            names.append(column.stored)
        yield pa.record_batch(columns, names=names)


def _column(
    array: pa.Array, column: DeclaredColumn, declared: DeclaredColumns, own: pa.DataType
) -> pa.Array:
    wanted, found = declared.schema.field(column.name).type, normal_type(array.type)
    if not may_assign(found, wanted):
        raise InvalidInputError(
            "PROJSEG_SCHEMA_MISMATCH",
            f"column '{column.name}' is declared as {column.type}, and a {type_name(found)} is not "
            "assigned to it; cast it before it is written",
        )
    try:
        shown = _cast(convert_column(array, pa.field(column.name, found)), found, wanted)
    except EvaluationError as error:
        raise EvaluationError(error.code, f"column '{column.name}': {error.message}") from error
    if wanted == own:
        return shown
    problem = (
        f"column '{column.name}' is declared as {column.type} and stored as {type_name(own)}, "
        "which does not hold {}; write with the stored type, or overwrite the table with other "
        "columns (overwriteSchema)"
    )
    if not may_assign(wanted, own):
        raise InvalidInputError("PROJSEG_DECLARED_TYPE", problem.format("such values"))
    try:
        return _cast(shown, wanted, own)
    except EvaluationError as error:
        raise InvalidInputError(
            "PROJSEG_DECLARED_TYPE", problem.format(f"each value ({error.message})")
        ) from error


def may_assign(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark's ANSI store assignment writes values of one type into a column of another."""
    if found == wanted or pa.types.is_null(found):
        return True
    if is_nested(found) or is_nested(wanted):
        # Items are matched, and checked one by one, as in rows that are written by path.
        return bool(found.id == wanted.id)
    if wanted == pa.string():
        return True
    return any(kind(found) and kind(wanted) for kind in (_is_number, _is_time))


def _is_number(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(kind(type_) for kind in kinds)


def _is_time(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))


def _cast(array: pa.Array, found: pa.DataType, wanted: pa.DataType) -> pa.Array:
    """Return values in another type, as Spark's ANSI `CAST` has them."""
    if found == wanted or is_nested(found) or pa.types.is_null(found):
        return array  # what the writer makes of it
    try:
        expression = bind(f"CAST(x AS {type_name(wanted)})", pa.schema([("x", found)]))
    except ProjsegError as error:
        raise InvalidInputError(
            "PROJSEG_SCHEMA_MISMATCH",
            f"a {type_name(found)} is never cast to {type_name(wanted)}: {error.message}",
        ) from error
    return evaluate(expression, {"x": array}, len(array))

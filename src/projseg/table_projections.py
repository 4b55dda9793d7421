"""Change the projections of a table: declare, drop, and build in segments that lack them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projseg.algebra.projection.parse import parse_projection
from projseg.declarations import ProjectionLike, declaration_of
from projseg.table_layer.columns.projection_names import stored_declaration
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata.change import Change, SetProperties
from projseg.table_layer.metadata.commit_info import CommitNote
from projseg.table_layer.metadata.projection_scope import declare_scope, scope_keys
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.paths import new_write_id

if TYPE_CHECKING:
    from projseg.algebra.time.interval import Interval


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
    change = SetProperties(
        add_projections=(stored_declaration(spec, properties),),
        properties=stated,
        drop_properties=others,
    )
    note = note.asking(projection=spec.name, **stated)
    return _set_projections(base, change, "add projection", note), spec.name


def drop_projection(base: Snapshot, name: str, note: CommitNote) -> Snapshot:
    """Stop embedding a projection in segments written after the table version `base`."""
    change = SetProperties(drop_projections=(name,), drop_properties=scope_keys(name))
    return _set_projections(base, change, "drop projection", note.asking(projection=name))


def _set_projections(base: Snapshot, change: Change, operation: str, note: CommitNote) -> Snapshot:
    return commit(
        base.storage, base, change, write_id=new_write_id(), operation=operation, note=note
    )

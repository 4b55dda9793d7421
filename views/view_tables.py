"""What a table says of its views: a row for each, its parts, and all about one."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa
from msgspec import UNSET

from projseg.algebra.time.interval import Interval
from projseg.errors import ProjsegError
from projseg.segment_format.logical_types import TIMESTAMP
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.cover_test import Coverage, coverage
from projseg.views.definitions.definition import define, stored_groups_spec, text_problem, view_spec
from projseg.views.stored_results import holds_rows, table_of_result, tables_of
from projseg.views.view_dimensions import is_built_with, newest_dimensions
from projseg.views.view_records import ViewEntry
from projseg.views.view_store import StoreVersion

_VIEWS: Final = pa.schema(
    [
        ("name", pa.string()),
        ("grade", pa.string()),
        ("status", pa.string()),
        ("state", pa.string()),
        ("segments", pa.int64()),
        ("segments_covered", pa.int64()),
        ("rows_covered", pa.float64()),
        ("parts", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("chunk", pa.string()),
        ("refresh", pa.string()),
        ("refreshed_at", TIMESTAMP),
        ("version", pa.int64()),
        ("last_refresh", pa.map_(pa.string(), pa.int64())),
        ("last_error", pa.string()),
        ("comment", pa.string()),
        ("definition", pa.string()),
    ]
)
_PARTS: Final = pa.schema(
    [
        ("part", pa.string()),
        ("chunk", TIMESTAMP),
        ("segments", pa.int64()),
        ("rows_covered", pa.int64()),
        ("groups", pa.int64()),
        ("bytes", pa.int64()),
        ("file", pa.string()),
        ("is_valid", pa.bool_()),
        ("dimensions", pa.map_(pa.string(), pa.int64())),
    ]
)


def views_table(snapshot: Snapshot, store: StoreVersion | None) -> pa.Table:
    """Return one row for each view; see `Table.views`."""
    views = [] if store is None else list(store.views.values())
    rows = [_view_row(snapshot, store, view) for view in views if store is not None]
    return pa.Table.from_pylist(rows, _VIEWS)


def _view_row(snapshot: Snapshot, store: StoreVersion, view: ViewEntry) -> dict[str, Any]:
    """Return the columns of `Table.views` in one row."""
    refreshed = view.refreshed.get(snapshot.properties.table_id)
    state_of = _state_of_result if view.is_result else _state
    found, state, error = state_of(snapshot, store, view)
    rows = snapshot.row_count
    covered = (sum(part.cover.segment_count for part in found.valid),
               sum(part.cover.live_row_count for part in found.valid))  # fmt: skip
    if view.is_result and state == "fresh":
        covered = (len(snapshot.segments), rows)
    return {
        "name": view.name,
        "grade": view.grade,
        "status": "ENABLED" if view.is_enabled else "DISABLED",
        "state": state,
        "segments": len(snapshot.segments),
        "segments_covered": covered[0],
        "rows_covered": covered[1] / rows if rows else 1.0,
        "parts": view.part_count,
        "rows": view.row_count,
        "bytes": view.byte_count,
        "chunk": view.options.get("chunk"),
        "refresh": view.options.get("refresh"),
        "refreshed_at": None if refreshed is None else refreshed.timestamp_us,
        "version": None if refreshed is None else refreshed.version,
        "last_refresh": list(msgspec.structs.asdict(view.last_refresh).items()),
        "last_error": error,
        "comment": view.comment or None,
        "definition": view.sql,
    }


def _state(
    snapshot: Snapshot, store: StoreVersion, view: ViewEntry
) -> tuple[Coverage, str, str | None]:
    """Return the coverage of a view, the word for its state, and its last error."""
    nothing, said = Coverage((), (), ()), _last_problem(view)
    if view.fact.table_id != snapshot.properties.table_id:
        return nothing, "broken", "the table is another one than the view was made for"
    try:
        spec = view_spec(view, snapshot.properties)
        found = coverage(snapshot, store, view)
        newest = newest_dimensions(snapshot, view)
    except (ProjsegError, OSError) as error:
        return nothing, "broken", str(error)
    if isinstance(spec, str):
        return found, "broken", spec
    if not view.dimensions:
        said = said or text_problem(view, partial(define, properties=snapshot.properties))
    changed = [part for part in found.valid if not is_built_with(part, newest)]
    if said is not None and view.last_error is not None:
        return found, "failed", said
    if not view.manifests and found.uncovered:
        return found, "empty", said
    return found, "behind" if found.uncovered or changed else "fresh", said


def _last_problem(view: ViewEntry) -> str | None:
    """Return the failure of a view's last refresh, or what it left out."""
    if view.last_error is not None:
        return f"[{view.last_error.code}] {view.last_error.message}"
    return "; ".join(f"{chunk}: {reason}" for chunk, reason in view.not_built) or None


def _state_of_result(
    snapshot: Snapshot, store: StoreVersion, view: ViewEntry
) -> tuple[Coverage, str, str | None]:
    """As `_state`, of a stored result, which covers no segment."""
    nothing = Coverage((), (), ())
    try:
        tables = tables_of(snapshot, view)
        if view.result is not UNSET:
            table_of_result(store.storage, view.result)
    except (ProjsegError, OSError) as error:
        return nothing, "broken", str(error)
    if view.last_error is not None:
        return nothing, "failed", _last_problem(view)
    if not view.is_built:
        return nothing, "empty", None
    return nothing, "fresh" if holds_rows(view, tables) else "behind", None


def view_detail(snapshot: Snapshot, store: StoreVersion, view: ViewEntry) -> dict[str, Any]:
    """Return the row of a view with its definition, parts and options."""
    spec = None if view.is_result else stored_groups_spec(view, snapshot.properties)
    return {
        **_view_row(snapshot, store, view),
        "last_refresh": msgspec.structs.asdict(view.last_refresh),
        "view_id": view.view_id,
        "definition_hash": view.definition_hash,
        "group_by": [] if spec is None else [named.name for named in spec.grouping],
        "aggregators": [] if spec is None else [primitive.text for primitive in spec.primitives],
        "tables": {one.alias: one.location for one in view.dimensions},
        "options": dict(view.options),
        "scope": None if view.scope is None else str(Interval(*view.scope)),
        "zone": view.zone,
        "is_ansi": view.is_ansi,
        "uncovered_segments": view.uncovered[0],
        "uncovered_rows": view.uncovered[1],
        "not_built": dict(view.not_built),
        "store_version": store.version,
    }


def parts_table(snapshot: Snapshot, store: StoreVersion, view: ViewEntry) -> pa.Table:
    """Return one row for each part; see `View.parts`."""
    if view.is_result:
        return pa.Table.from_pylist([], _PARTS)
    valid = {part.segment.file for part in coverage(snapshot, store, view).valid}
    rows = [
        {
            "part": part.segment.file.rpartition("/")[2].removesuffix(".pseg"),
            "chunk": part.chunk,
            "segments": part.cover.segment_count,
            "rows_covered": part.cover.live_row_count,
            "groups": part.group_count,
            "bytes": part.segment.byte_count,
            "file": part.segment.file,
            "is_valid": part.segment.file in valid,
            "dimensions": [(path.table_id, path.version) for path in part.paths],
        }
        for part in store.parts(view)
    ]
    return pa.Table.from_pylist(rows, _PARTS)

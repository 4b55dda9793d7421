"""What the engine process does for SQL statements about projections, segments and versions.

Each takes the content of a request and replies with rows, whose columns are in
`spark_datasource/statement_list.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from projseg.algebra.expressions.sql_words import backquoted
from projseg.errors import InvalidInputError, UnsupportedFeatureError, did_you_mean
from projseg.maintenance.auto_compaction import after_commit
from projseg.segment_format.format_limits import name_key
from projseg.spark_datasource.statement_list import PROPERTIES, REPLIES, VERSION
from projseg.spark_engine.replies import (
    Reply,
    columns_reply,
    properties_of,
    rows,
    table_of,
)
from projseg.table import Table
from projseg.table.declaration_commits import (
    adding,
    change_columns,
    dropping,
    renaming,
    telling_of_declaration,
    widening,
)
from projseg.table.segment_edits import bounds_of
from projseg.table_layer.change_feed import effect_of
from projseg.table_layer.column_changes import ColumnChanges
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.known_properties import is_auto_compacted
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.metadata.table_properties import (
    TARGET_SEGMENT_ROWS,
    ProjectionDeclaration,
    TableProperties,
)
from projseg.table_layer.metadata.versions_and_tags import holds_table, latest_version
from projseg.table_layer.metadata_tables import METADATA_TABLES, MetadataTable
from projseg.table_layer.renamed_columns import declared_spec
from projseg.table_layer.storage.locate_storage import open_storage

if TYPE_CHECKING:
    from projseg.maintenance.rewrite_tasks import TaskRunner
    from projseg.spark_engine.rewrite_runner_jvm import RunJob
    from projseg.table_layer.metadata.segment_entry import SegmentEntry

_AFFECTED_ROWS: Final = "num_affected_rows"
_CHANGES: Final = ("updated", "deleted", "inserted")


def _projection(request: Mapping[str, Any]) -> Reply:
    """Tell one projection's properties."""
    table = table_of(request)
    found = {row["name"]: row for row in _declared(table)}
    name = request["name"]
    if name not in found:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_PROJECTION",
            f"{table.location} declares no projection '{name}'{did_you_mean(name, found)}",
        )
    return rows(properties_of(found[name]), PROPERTIES)


def _metadata(table: MetadataTable) -> Callable[[Mapping[str, Any]], Reply]:
    """Return the statement that shows a metadata table."""
    return lambda request: columns_reply(table.rows(table_of(request).snapshot), table.shown)


def _add_projection(request: Mapping[str, Any], run_job: RunJob | None) -> Reply:
    """Declare a projection; tell the version written, or the present one if it is there."""
    table = table_of(request)
    if request["lenient"] and request["name"] in table.projections()["name"].to_pylist():
        return _written(table.version)
    declaration = {"name": request["name"], "sql": request["sql"]}
    version = table.add_projection(declaration, build=request["build"])
    if request["materialize"]:
        with telling_of_declaration("the projection"):
            version = materialized(table, request, run_job)[0].version
    return _written(version)


def _drop_projection(request: Mapping[str, Any]) -> Reply:
    """Drop a projection; tell the version written, or the present one if it is not there."""
    table = table_of(request)
    if request["lenient"] and request["name"] not in table.projections()["name"].to_pylist():
        return _written(table.version)
    return _written(table.drop_projection(request["name"]))


def _materialize_projection(request: Mapping[str, Any], run_job: RunJob | None) -> Reply:
    """Build a projection where it is missing; tell what was written."""
    return _rewritten(materialized(table_of(request), request, run_job))


def materialized(
    table: Table, request: Mapping[str, Any], run_job: RunJob | None
) -> tuple[Snapshot, Sequence[SegmentEntry]]:
    """Build a projection where it is missing; return the version and the segments written."""
    # Imported here and below: a process that only asks starts without the modules that write.
    from projseg.maintenance.materialize_projections import IN_THREADS, Materialization, materialize

    materialization = Materialization(request["name"], _bounds(request))
    runner = runner_of(request, run_job, IN_THREADS)
    return materialize(table.snapshot, materialization, runner=runner)


def _restore(request: Mapping[str, Any]) -> Reply:
    """Bring an earlier version back; tell the version written."""
    made = table_of(request).restore(request.get("version"), timestamp=request.get("timestamp"))
    return _written(made.version)


def _optimize(request: Mapping[str, Any], run_job: RunJob | None) -> Reply:
    """Merge small segments, or tell what would be merged; tell what was written."""
    from projseg.maintenance.compact import IN_THREADS, Compaction, compact

    table, purge = table_of(request), request.get("purge", False)
    if request["dry_run"]:
        planned = table.compact(request.get("interval"), dry_run=True, purge=purge)
        return rows(planned.to_pylist(), REPLIES["optimize dry_run"])
    compaction = Compaction(_bounds(request), purge=purge)
    runner = runner_of(request, run_job, IN_THREADS)
    return _rewritten(compact(table.snapshot, compaction, runner=runner))


def _policy(request: Mapping[str, Any]) -> Reply:
    """Tell the newest version, if commits to the table are followed by a compaction."""
    snapshot = table_of(request).snapshot
    is_automatic = is_auto_compacted(snapshot.properties.properties)
    return ({"since": snapshot.version} if is_automatic else {}), b""


def _compact_by_policy(request: Mapping[str, Any], run_job: RunJob | None) -> Reply:
    """Do what follows the commits since a version; tell the version written, or the newest."""
    from projseg.maintenance.compact import IN_THREADS

    snapshot = table_of(request).snapshot
    added = [
        entry
        for version in range(request["since"] + 1, snapshot.version + 1)
        if (effect := effect_of(open_snapshot(snapshot.storage, version))) is not None
        for entry in effect.entries
    ]
    runner = runner_of(request, run_job, IN_THREADS)
    landed = after_commit(snapshot, added, runner)
    _refresh_views(landed)
    return _written(landed.version)


def _bounds(request: Mapping[str, Any]) -> tuple[int, int] | None:
    interval = request.get("interval")
    return None if interval is None else bounds_of(interval)


def runner_of(
    request: Mapping[str, Any], run_job: RunJob | None, threads: TaskRunner
) -> TaskRunner:
    """Return who writes segments anew for a statement: threads alone if nobody runs jobs."""
    if run_job is None:
        return threads
    from projseg.spark_engine.rewrite_runner_jvm import JobRunner

    options = request.get("storage_options") or {}
    return JobRunner(run_job, options, threads, request["small_bytes"])


def _delete(request: Mapping[str, Any]) -> Reply:
    """Remove rows, and tell how many; tell nothing if that is too much to read, or not for here."""
    from projseg.maintenance.row_changes.matching_rows import Condition, is_whole, planned

    storage_options = request.get("storage_options")
    if not holds_table(request["location"], storage_options):
        return {"counts": {_AFFECTED_ROWS: 0}}, b""
    table = table_of(request)
    condition = Condition(request.get("filter"), timezone=request["timezone"])
    try:
        segments = planned(table.snapshot, condition).segments
    except (InvalidInputError, UnsupportedFeatureError):
        return {"counts": None}, b""
    read_bytes = sum(one.entry.byte_count for one in segments if not is_whole(one))
    if read_bytes > request["max_bytes"]:
        return {"counts": None}, b""
    made = table.delete(condition.filter, timezone=condition.timezone)
    return {"counts": {_AFFECTED_ROWS: made.deleted_rows}}, b""


def _changed(request: Mapping[str, Any]) -> Reply:
    """Return the counts of rows that a write changed, by its id; none if it made no version."""
    options = request.get("storage_options")
    storage = open_storage(request["location"], options)
    first = request.get("since", -1) + 1
    newest = latest_version(storage) if holds_table(storage.location, options) else -1
    for version in range(newest, first - 1, -1):
        snapshot = open_snapshot(storage, version)
        if snapshot.file.write_id == request["write_id"]:
            counts = {name: snapshot.metrics.get(f"{name}_rows", 0) for name in _CHANGES}
            if version == 0:
                counts["inserted"] = snapshot.metrics.get("added_rows", 0)
            metrics = {f"num_{name}_rows": count for name, count in counts.items()}
            return {"counts": {_AFFECTED_ROWS: sum(counts.values()), **metrics}}, b""
    return {"counts": {}}, b""


def _truncate(request: Mapping[str, Any]) -> Reply:
    """Remove all rows; tell how many."""
    count = table_of(request).truncate().deleted_rows
    return rows([{_AFFECTED_ROWS: count}], REPLIES["truncate"])


def _vacuum(request: Mapping[str, Any]) -> Reply:
    """Remove what no kept version needs, or tell it only; tell the files."""
    hours = {name: request[name] for name in ("retention_hours",) if name in request}
    force = request.get("force", False)
    vacuumed = table_of(request).vacuum(**hours, dry_run=request["dry_run"], force=force)
    return rows(vacuumed.files.to_pylist(), REPLIES["vacuum"])


def _change_columns(request: Mapping[str, Any]) -> Reply:
    """Change columns in one commit; return the options that declare the table."""
    table = table_of(request)
    apply_column_changes(table, request["changes"])
    options = options_of(table.properties).items()
    return rows([{"name": name, "text": text} for name, text in options], REPLIES["change_columns"])


def options_of(properties: TableProperties) -> dict[str, str]:
    """Return a table's declarations as the options of the write that would make it so.

    Options that a write would take for granted are left out.
    """
    projections = [_declaration(projection, properties) for projection in properties.projections]
    granularity, rows = properties.segment_granularity, properties.target_segment_rows
    options = {
        "timeColumn": properties.time_column,
        "segmentGranularity": granularity if granularity.casefold() != "all" else None,
        "clusterBy": json.dumps(properties.cluster_by) if properties.cluster_by else None,
        "targetSegmentRows": str(rows) if rows != TARGET_SEGMENT_ROWS else None,
        "projections": json.dumps(projections) if projections else None,
    }
    return {name: text for name, text in options.items() if text is not None}


def _declaration(projection: ProjectionDeclaration, properties: TableProperties) -> dict[str, Any]:
    definition = json.loads(declared_spec(projection, properties).definition)
    texts = {
        key: [f"{text} AS {backquoted(name)}" for name, text in definition[key]]
        for key in ("groupBy", "aggregators")
    }
    where = {} if definition.get("filter") is None else {"filter": definition["filter"]}
    return {"name": projection.name, **texts, **where}


def apply_column_changes(table: Table, changes: Sequence[Mapping[str, Any]]) -> None:
    """Make the changes of one ALTER TABLE, and give new columns values, in one commit.

    A change is `{"add": name, "type": type}`, perhaps with `"value"`, the expression that rows
    which are there get in the column; `{"rename": name, "to": name}`, `{"drop": name, "lenient":
    whether it may be missing}` or `{"widen": name, "type": type}`. The table moves to the version
    written.
    """
    properties = table.properties
    known = {name_key(name) for name in table.schema.names}
    dropped = [
        one["drop"]
        for one in changes
        if "drop" in one and not (one["lenient"] and name_key(one["drop"]) not in known)
    ]
    if not dropped and all("drop" in one for one in changes):
        return
    added = [one["add"] for one in changes if "add" in one]
    if len({name_key(name) for name in added}) < len(added):
        raise InvalidInputError(
            "PROJSEG_DUPLICATE_NAME", f"a column is added twice by one statement: {added}"
        )
    renamed = [renaming(properties, one["rename"], one["to"]) for one in changes if "to" in one]
    widened = [widening(properties, one["widen"], one["type"]) for one in changes if "widen" in one]
    asked = ColumnChanges(
        rename=tuple(pair for one in renamed for pair in one.rename),
        drop=dropping(properties, dropped).drop,
        widen=tuple(column for one in widened for column in one.widen),
        add=adding(properties, {one["add"]: one["type"] for one in changes if "add" in one}).add,
    )
    values = {one["add"]: one["value"] for one in changes if "value" in one}
    changed = change_columns(table.snapshot, asked, CommitNote(), values)
    if values:
        from projseg.views.refresh_on_commit import refresh_after_commit

        refresh_after_commit(changed)
    table.refresh()


def _declared(table: Table) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = table.projections().to_pylist()
    for row in listed:
        row |= {name: ", ".join(row[name] or ()) for name in ("group_by", "aggregators")}
        row |= {name: ", ".join(row[name]) for name in ("columns", "order_by") if row[name]}
    return listed


def _written(version: int) -> Reply:
    return rows([{"version": version}], VERSION)


def _refresh_views(snapshot: Snapshot) -> None:
    if snapshot.properties.is_in_views:
        from projseg.views.refresh_on_commit import refresh_after_commit

        refresh_after_commit(snapshot)


def _rewritten(made: tuple[Snapshot, Sequence[SegmentEntry]]) -> Reply:
    snapshot, entries = made
    _refresh_views(snapshot)
    row_count = sum(entry.row_count for entry in entries)
    committed = {"version": snapshot.version, "segments": len(entries), "rows": row_count}
    return rows([committed], REPLIES["optimize"])


STATEMENTS: Final[dict[str, Callable[[Mapping[str, Any]], Reply]]] = {
    **{name: _metadata(table) for name, table in METADATA_TABLES.items() if table.shown},
    "projection": _projection,
    "drop_projection": _drop_projection,
    "delete": _delete,
    "changed": _changed,
    "truncate": _truncate,
    "restore": _restore,
    "vacuum": _vacuum,
    "change_columns": _change_columns,
    "policy": _policy,
}
REWRITES: Final[dict[str, Callable[[Mapping[str, Any], RunJob | None], Reply]]] = {
    "add_projection": _add_projection,
    "materialize_projection": _materialize_projection,
    "optimize": _optimize,
    "compact_by_policy": _compact_by_policy,
}
"""Statements that write segments anew."""

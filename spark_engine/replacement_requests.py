"""Tables that Spark's statements make whole or replace, in one commit of the table's own log.

CREATE TABLE ... AS SELECT, REPLACE TABLE and their like plan the write before any task runs, so a
statement that is refused, or whose job fails, leaves a table that is there as it was. The request
is `location`, `columns` (names and types), `options` and `properties` as CREATE TABLE declares
them, and whether the table `keeps_all` properties or only those that projseg reads itself;
`StagedCatalog.scala` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from projseg.declarations import check_declared, declare_properties, redeclared
from projseg.errors import CommitConflictError, InvalidInputError, UnsupportedFeatureError
from projseg.segment_format.logical_types import parse_type_name
from projseg.spark_datasource.write_plan import REPLACE_TABLE, WritePlan
from projseg.spark_datasource.write_request import declared_options, parse_write_request
from projseg.spark_engine.replies import Reply, storage_of
from projseg.spark_engine.warehouse import set_properties
from projseg.table import Table
from projseg.table_layer.commits.commit import commit, create_table
from projseg.table_layer.metadata.change import Overwrite
from projseg.table_layer.metadata.known_properties import check_set, check_spelling, known_ones
from projseg.table_layer.metadata.snapshot import open_snapshot, read_version
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.metadata.versions_and_tags import holds_table, latest_version
from projseg.table_layer.removal import remove_table, remove_write
from projseg.table_layer.storage.paths import new_write_id
from projseg.table_layer.storage.storage_contract import Storage

Request = Mapping[str, Any]
LAYOUT_OPTIONS: Final = (
    "timeColumn",
    "segmentGranularity",
    "clusterBy",
    "targetSegmentRows",
    "projections",
    "indexes",
)
"""The options of a write that a table's properties may state."""


def _check(request: Request) -> Reply:
    """Refuse what CREATE TABLE declares if no table can be so, or if the one there is not."""
    schema, declared = _declaration(request)
    if not _is_there(request):
        if schema.names:
            declare_properties(schema, **declared)
        return {}, b""
    declared.pop("properties")
    check_declared(open_snapshot(storage_of(request)).properties, **declared)
    return {}, b""


def _plan(request: Request) -> Reply:
    """Plan the write that makes a table, or that replaces its version `base_version`."""
    schema, declared = _declaration(request)
    base = request.get("base_version")
    if _is_there(request) and not request["replaces"]:
        raise InvalidInputError(
            "PROJSEG_TABLE_EXISTS",
            f"{storage_of(request).location} is a projseg table already; CREATE OR REPLACE it, "
            "INSERT INTO it, or choose another location",
        )
    if base is None and _is_there(request):
        raise CommitConflictError(
            "PROJSEG_COMMIT_CONFLICT",
            f"nothing was written: another writer made the table at {request['location']}; repeat "
            "the statement",
        )
    return planned(storage_of(request), base, declare_properties(schema, **declared)), b""


def planned(storage: Storage, base: int | None, declared: TableProperties) -> dict[str, Any]:
    """Return the plan of a write that makes a table so, in place of a version or of none."""
    properties = declared
    if base is not None:
        properties = redeclared(open_snapshot(storage, base).properties, declared)
    plan = WritePlan(base, properties, write_id=new_write_id(), replaces=base is not None)
    return {
        "location": storage.location,
        "plan": plan.to_json(),
        "layout": layout_options(properties),
        "had_folder": not storage.is_remote and Path(storage.location).is_dir(),
    }


def _change_properties(request: Request) -> Reply:
    """Set and remove the properties that have an effect; what is fixed is refused.

    The declaration of the request is that after the change, for a table that is not made yet.
    """
    given, unset = request["set"], request["unset"]
    check_spelling(given, LAYOUT_OPTIONS)
    check_set(given)
    if not _is_there(request):
        return _check(request)
    table = Table(request["location"], storage_options=request.get("storage_options"))
    by_folded = {name.casefold(): name for name in LAYOUT_OPTIONS}
    for name in (*given, *unset):
        if name.casefold() in by_folded and name not in given:
            raise _is_fixed(by_folded[name.casefold()])
    _, declared = _declaration({**request, "options": _layout_among(given), "columns": []})
    declared.pop("properties")
    check_declared(table.properties, **declared)
    changes = {**known_ones(given), **dict.fromkeys(known_ones(dict.fromkeys(unset, "")))}
    if changes:
        set_properties(table, changes)
    return {}, b""


def _layout_among(properties: Mapping[str, str]) -> dict[str, str]:
    folded = {name.casefold() for name in LAYOUT_OPTIONS}
    return {name: text for name, text in properties.items() if name.casefold() in folded}


def _is_fixed(name: str) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_BAD_OPTION",
        f"property '{name}' is fixed when a table is made; replace the table to change it, or "
        "its projections with ALTER TABLE ... ADD PROJECTION",
    )


def _finish(request: Request) -> Reply:
    """Publish the table of a plan without rows."""
    plan, storage = WritePlan.from_json(request["plan"]), storage_of(request)
    assert plan.write_id is not None
    if plan.base_version is None:
        create_table(storage, plan.properties, write_id=plan.write_id)
        return {}, b""
    base = open_snapshot(storage, plan.base_version)
    change = Overwrite((), declared=plan.properties)
    commit(storage, base, change, write_id=plan.write_id, operation=REPLACE_TABLE)
    return {}, b""


def _discard(request: Request) -> Reply:
    """Remove the files of a plan's write that was not committed; undo the commit if it was."""
    plan, storage = WritePlan.from_json(request["plan"]), storage_of(request)
    assert plan.write_id is not None
    landed = _landed(request, storage, plan)
    if landed is None:
        remove_write(storage, plan.write_id)
    elif plan.base_version is not None:
        Table(request["location"], storage_options=request.get("storage_options")).restore(
            plan.base_version
        )
    elif latest_version(storage) == landed:
        remove_table(storage)
    folder = Path(storage.location)
    if not storage.is_remote and request["had_folder"]:
        folder.mkdir(parents=True, exist_ok=True)
    return {}, b""


def _landed(request: Request, storage: Storage, plan: WritePlan) -> int | None:
    """Return the version that a plan's write has made, if it has."""
    if not _is_there(request):
        return None
    first = 0 if plan.base_version is None else plan.base_version + 1
    for version in range(first, latest_version(storage) + 1):
        snapshot = read_version(storage, version)
        if snapshot is not None and snapshot.file.write_id == plan.write_id:
            return version
    return None


def _is_there(request: Request) -> bool:
    return holds_table(request["location"], request.get("storage_options"))


def _declaration(request: Request) -> tuple[pa.Schema, dict[str, Any]]:
    """Return the columns of a declaration, and the rest as `declare_properties` takes it."""
    columns = [(name, _type_of(name, text)) for name, text in request["columns"]]
    given = parse_write_request({**request["options"], "path": request["location"]})
    properties = request["properties"]
    check_spelling(properties, LAYOUT_OPTIONS)
    check_set(properties)
    kept = properties if request["keeps_all"] else known_ones(properties)
    declared = {**declared_options(given), "properties": kept}
    return pa.schema(columns), declared


def _type_of(column: str, text: str) -> pa.DataType:
    try:
        return parse_type_name(text)
    except InvalidInputError as error:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_TYPE",
            f"column '{column}': {error.message}; leave it out",
        ) from error


def layout_options(properties: TableProperties) -> dict[str, str]:
    """Return the options by which Spark arranges rows before they are written."""
    time = properties.time_column
    found = {"segmentGranularity": properties.segment_granularity}
    return found if time is None else {"timeColumn": time, **found}


REPLACEMENTS: Final[dict[str, Callable[[Request], Reply]]] = {
    "check_declaration": _check,
    "change_properties": _change_properties,
    "plan_replacement": _plan,
    "finish_replacement": _finish,
    "discard_replacement": _discard,
}

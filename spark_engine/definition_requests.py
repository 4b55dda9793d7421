"""What the engine process does for a Spark catalog whose tables are definitions.

Each operation takes the content of a request, with `catalog` (the arguments of `projseg.Catalog`)
and mostly `namespace` and `table`, and replies with `result`; `ProjsegCatalog.scala` asks. The
packages of a catalog are imported by its first request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from msgspec.structs import replace

from projseg.errors import InvalidInputError, ProjsegError, UnsupportedFeatureError
from projseg.extras import require_catalog
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import parse_type_name, type_name
from projseg.spark_datasource.options import parse_list
from projseg.spark_datasource.write_plan import StatementLayout, WritePlan
from projseg.spark_engine.definition_rows import (
    INFORMATION_SCHEMA,
    described_view,
    files_of,
    files_without_catalog,
    given_files,
    metadata_of,
    view_names,
    view_page,
)
from projseg.spark_engine.definition_specs import alter, field_of, shown_fields, spec_of
from projseg.spark_engine.replacement_requests import layout_options, planned
from projseg.spark_engine.replies import Reply
from projseg.table_layer.commits.open_version import version_at
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.storage.locate_storage import open_storage

if TYPE_CHECKING:
    from projseg.catalog.catalog import Catalog
    from projseg.catalog.named_table import CatalogTable
    from projseg.catalog.store.table_metadata import TableMetadata

Request: TypeAlias = Mapping[str, Any]
_opened: dict[str, Catalog] = {}


def _catalog(request: Request) -> Catalog:
    """Return the catalog that a request is for; its connections are kept."""
    key = json.dumps(request["catalog"], sort_keys=True)
    if key not in _opened:
        require_catalog("a Spark catalog with a uri")
        from projseg.catalog.catalog import Catalog

        given = dict(request["catalog"])
        _opened[key] = Catalog(given.pop("uri"), **given)
    return _opened[key]


def _name(request: Request) -> tuple[str, str]:
    return request["namespace"], request["table"]


# ---- what is described


def _described(catalog: Catalog, request: Request) -> dict[str, Any]:
    """Describe a definition with its table, at its newest version, at `version` or at a time."""
    if _is_reserved(request):
        return described_view(request["table"])
    definition = catalog.metadata(_name(request))
    if definition.type != "table":
        return _external(definition)
    version = request.get("version")
    if (instant := request.get("timestamp_us")) is not None:
        version = version_at(catalog.places.storage_of(definition), instant).version
    try:
        return _table(catalog.table(_name(request), version))
    except ProjsegError as error:
        if not request.get("is_shown") or error.code == "PROJSEG_UNKNOWN_TABLE":
            raise
        # The facts about a table whose storage is away; a SELECT has the error.
        return _away(definition)


def _table(table: CatalogTable) -> dict[str, Any]:
    from projseg.catalog.declared_table import declared_columns

    definition, properties = table.definition, table.properties
    comments = {name_key(one.name): one.comment for one in definition.spec.columns}
    own = {} if table.is_unwritten else {one.name: one.type for one in properties.columns}
    columns = [
        {
            "name": one.name,
            "type": one.type,
            "stored": one.stored if one.stored in own else None,
            "storedType": own.get(one.stored or ""),
            "comment": comments.get(name_key(one.name)) or None,
        }
        for one in declared_columns(definition, properties).columns
    ]
    return {
        **shown_fields(definition),
        "columns": columns,
        "stored": [{"name": name, "type": text} for name, text in own.items()],
        "tableVersion": None if table.is_unwritten else table.version,
    }


def _away(definition: TableMetadata) -> dict[str, Any]:
    from projseg.catalog.spec.spec_rules import column_types

    types = column_types(definition.spec)
    columns = [
        {
            "name": one.name,
            "type": type_name(types.get(name_key(one.name), pa.string())),
            "stored": None,
            "storedType": definition.stored_schema.get(one.name),
            "comment": one.comment or None,
        }
        for one in definition.spec.columns
    ]
    return {**shown_fields(definition), "columns": columns, "stored": [], "tableVersion": None}


def _external(definition: TableMetadata) -> dict[str, Any]:
    columns = [
        {
            "name": one.name,
            "type": one.sql_type or "string",
            "stored": None,
            "storedType": None,
            "comment": one.comment or None,
        }
        for one in definition.spec.columns
    ]
    return {**shown_fields(definition), "columns": columns, "stored": [], "tableVersion": None}


# ---- definitions that statements make


def _create(catalog: Catalog, request: Request) -> int:
    if (place := request.get("location")) is not None:
        return catalog.register(_name(request), place, spec_of(request))
    return catalog.create(_name(request), spec_of(request))


def _stage(catalog: Catalog, request: Request) -> dict[str, Any]:
    """Plan the write that makes the table of a new definition, which has no name until then.

    Where it replaces one, the definition and its table stay as they are until the rows are written.
    """
    from projseg.catalog.declared_table import new_properties
    from projseg.catalog.spec.spec_rules import checked
    from projseg.catalog.spec.table_spec import TableSpec

    spec = spec_of(request)
    if spec["type"] != "table":
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_FEATURE",
            "rows are written to a table of projseg, and this is a definition of files from "
            "outside; define it without AS SELECT, and drop the one of its name first",
        )
    columns = [(name, parse_type_name(text)) for name, text, _ in request["columns"]]
    schema, present = pa.schema(columns), _present(catalog, request)
    if present is None:
        if request.get("location") is not None:
            raise UnsupportedFeatureError(
                "PROJSEG_UNSUPPORTED_FEATURE",
                "the table of a query lies where the catalog puts it; define it with its LOCATION "
                "first, and then INSERT",
            )
        staged = catalog.definitions.stage(_name(request), spec)
        found = planned(catalog.places.storage_of(staged), None, new_properties(staged, schema))
        return {**found, "id": staged.id, "staged": staged.to_json()}
    storage = catalog.places.storage_of(present)
    _require_own_place(request.get("location"), storage.location)
    wanted = replace(present, spec=checked(TableSpec.of(spec)))
    found = planned(storage, request.get("base_version"), new_properties(wanted, schema))
    return {**found, "definition_version": present.version}


def _present(catalog: Catalog, request: Request) -> TableMetadata | None:
    """Return the definition that a statement replaces, if there is one."""
    if not request["replaces"] or catalog.store.database.is_missing:
        return None
    if not catalog.exists(_name(request)):
        return None
    found = catalog.metadata(_name(request))
    if found.type != "table":
        raise InvalidInputError(
            "PROJSEG_TABLE_EXISTS", f"'{found.full_name}' is of type {found.type}; drop it first"
        )
    return found


def _require_own_place(asked: str | None, location: str) -> None:
    if asked is not None and open_storage(asked).location != location:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION",
            f"the table lies at {location}, and is replaced there; leave LOCATION {asked} out, or "
            "drop the table first",
        )


def _replace(catalog: Catalog, request: Request) -> int:
    """Replace a definition whose table was replaced, and bind its columns to that table's."""
    from projseg.catalog.named_writes import seen_of, status_of

    version = catalog.create(_name(request), spec_of(request), "replace", request["version"])
    definition = replace(catalog.metadata(_name(request)), bindings={})
    snapshot = open_snapshot(catalog.places.storage_of(definition))
    seen = seen_of(definition, snapshot.properties)
    counted = {"stored_version": snapshot.version, "stored_status": status_of(definition, snapshot)}
    catalog.store.record(definition.id, **seen, **counted)
    catalog.flush()
    return version


def _publish(catalog: Catalog, request: Request) -> int:
    return catalog.definitions.publish(request["id"], replace=request["replace"])


def _discard(catalog: Catalog, request: Request) -> None:
    from projseg.catalog.store.table_metadata import metadata_of_json

    catalog.definitions.abandon(metadata_of_json(request["staged"].encode()))


# ---- writes


def _plan(catalog: Catalog, request: Request) -> dict[str, Any]:
    """Plan a write by name, of columns with their types.

    Returns the plan, and for each column the name and type under which it is stored.
    """
    table = catalog.table(_name(request))
    if request.get("adopts"):
        table.adopt()
        table = catalog.table(_name(request))
    given = [(name, parse_type_name(text)) for name, text in request["columns"]]
    schema = pa.schema(given)
    from projseg.catalog.declared_table import bindings_of, declared_columns, new_properties
    from projseg.catalog.named_writes import check_names, may_assign, prepared, said_of

    definition, statement = table.definition, _statement(request["options"])
    if table.is_unwritten:
        properties = new_properties(definition, schema)
        definition = replace(definition, bindings=bindings_of(definition, properties))
        plan = WritePlan(None, properties, statement=statement)
    else:
        found = prepared(definition, table.properties)
        definition, properties = found.definition, found.properties
        plan = WritePlan(
            table.version,
            properties,
            found.changes,
            found.layout,
            statement,
            said_of(found.layout),
        )
    declared = declared_columns(definition, properties)
    check_names(schema, declared, definition)
    by_name = {name_key(one.name): one for one in declared.columns}
    columns = []
    for name, _ in given:
        column = by_name[name_key(name)]
        own, wanted = properties.schema.field(column.stored).type, parse_type_name(column.type)
        if not may_assign(wanted, own):
            raise InvalidInputError(
                "PROJSEG_DECLARED_TYPE",
                f"column '{column.name}' is declared as {column.type} and stored as "
                f"{type_name(own)}, which does not hold such values; write with the stored type",
            )
        columns.append({"stored": column.stored, "type": type_name(own)})
    return {
        "location": definition.location,
        "plan": plan.to_json(),
        "columns": columns,
        "layout": layout_options(properties),
    }


def _statement(options: Mapping[str, str]) -> StatementLayout:
    by_name = {name.lower(): text for name, text in options.items()}
    keys, rows = by_name.get("clusterby"), by_name.get("targetsegmentrows")
    return StatementLayout(
        by_name.get("segmentgranularity"),
        None if keys is None else parse_list("clusterBy", keys),
        None if rows is None else field_of("targetSegmentRows", rows),
    )


def _changeable(catalog: Catalog, request: Request) -> dict[str, Any]:
    """Bring a table to its definition, so that its rows can be changed in place."""
    table = catalog.table(_name(request))
    table.adopt()
    found = _table(catalog.table(_name(request)))
    for column in found["columns"]:
        if (column["name"], column["type"]) != (column["stored"], column["storedType"]):
            raise UnsupportedFeatureError(
                "PROJSEG_UNSUPPORTED_FEATURE",
                f"column '{column['name']}' is declared as {column['type']} and stored as "
                f"'{column['stored']}' of type {column['storedType']}: DELETE, UPDATE and MERGE of "
                "Spark change rows as they are stored; use Python's methods, or rewrite the column",
            )
    return found


# ---- namespaces and the rest


def _is_reserved(request: Request) -> bool:
    return str(request["namespace"]).casefold() == INFORMATION_SCHEMA


def _namespace(catalog: Catalog, request: Request) -> dict[str, Any]:
    if _is_reserved(request):
        return {"name": INFORMATION_SCHEMA, "comment": None, "owner": None, "properties": {}}
    wanted = str(request["namespace"]).casefold()
    for found in catalog.store.namespaces():
        if found["name"].casefold() == wanted:
            return found
    raise InvalidInputError(
        "PROJSEG_UNKNOWN_NAMESPACE", f"the catalog has no namespace '{request['namespace']}'"
    )


def _tables(catalog: Catalog, request: Request) -> list[str]:
    namespace = _namespace(catalog, request)["name"]
    if namespace == INFORMATION_SCHEMA:
        return view_names()
    return [one.name for one in catalog.store.names(namespace, ("", ""), 2**31 - 1)]


def _summaries(catalog: Catalog, request: Request) -> list[tuple[str, str]]:
    """Return each name of a namespace with the kind of its table; none is opened."""
    namespace = _namespace(catalog, request)["name"]
    if namespace == INFORMATION_SCHEMA:
        return [(name, "VIEW") for name in view_names()]
    from projseg.catalog.information_schema import table_type

    return [(one.name, table_type(one)) for one in catalog.tables(namespace)]


def _drop(catalog: Catalog, request: Request) -> bool:
    return catalog.drop(_name(request), data=request["data"])


def _add_projection(catalog: Catalog, request: Request) -> int:
    """Declare a projection by name; if it may be there, what the table lacks of it is completed."""
    table = catalog.table(_name(request))
    if request["lenient"] and _declares(table, request["name"]):
        table.adopt()
        return table.version
    declaration = {"name": request["name"], "sql": request["sql"]}
    return table.add_projection(declaration, request["materialize"], request["build"])


def _drop_projection(catalog: Catalog, request: Request) -> int:
    table = catalog.table(_name(request))
    stored = table.projections()["name"].to_pylist()
    if request["lenient"] and not (_declares(table, request["name"]) or request["name"] in stored):
        return table.version
    return table.drop_projection(request["name"])


def _declares(table: CatalogTable, name: str) -> bool:
    declared = table.definition.spec.layout.projections or ()
    return any(name_key(str(one.get("name"))) == name_key(name) for one in declared)


def _hide(catalog: Catalog, request: Request) -> int:
    verb = catalog.hide_columns if request["hides"] else catalog.unhide_columns
    return verb(_name(request), request["columns"])


_ACTS: Final[dict[str, Callable[[Catalog, Request], object]]] = {
    "defined_table": _described,
    "defined_tables": _tables,
    "defined_summaries": _summaries,
    "defined_create": _create,
    "defined_alter": lambda c, r: alter(c, _name(r), r["changes"]),
    "defined_plan": _plan,
    "defined_stage": _stage,
    "defined_replace": _replace,
    "defined_publish": _publish,
    "defined_discard": _discard,
    "defined_changeable": _changeable,
    "defined_drop": _drop,
    "defined_undrop": lambda c, r: c.undrop(_name(r)),
    "defined_hide": _hide,
    "defined_add_projection": _add_projection,
    "defined_drop_projection": _drop_projection,
    "defined_rename": lambda c, r: c.rename(_name(r), (r["new_namespace"], r["new_table"])),
    "defined_files": lambda c, r: files_of(c.allowed_places, given_files(c, r), r["timezone"]),
    "defined_begun": lambda c, _: not c.store.database.is_missing,
    "defined_namespaces": lambda c, _: [*c.namespaces(), INFORMATION_SCHEMA],
    "defined_namespace": _namespace,
    "defined_create_namespace": lambda c, r: c.create_namespace(
        r["namespace"], r.get("comment"), r.get("properties")
    ),
    "defined_drop_namespace": lambda c, r: c.drop_namespace(r["namespace"], r["cascade"]),
}


def _operation(act: Callable[[Catalog, Request], object]) -> Callable[[Request], Reply]:
    return lambda request: ({"result": act(_catalog(request), request)}, b"")


DEFINITIONS: Final = {
    **{name: _operation(act) for name, act in _ACTS.items()},
    "defined_view": lambda request: view_page(_catalog(request), request),
    "defined_metadata": lambda request: metadata_of(
        _catalog(request).table(_name(request)), request
    ),
    "external_files": files_without_catalog,
}

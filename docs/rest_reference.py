"""docs/catalog-rest.json: the REST interface of a catalog as OpenAPI, from its table of routes."""

import inspect
import json
import re
from typing import Any

import msgspec

from projseg.catalog import rest_server
from projseg.catalog.spec.table_spec import SPECS, ColumnSpec
from projseg.catalog.store.store_contract import Changes, DroppedTables, SeenTable
from projseg.catalog.store.table_metadata import _MetadataJson

_REF = "#/components/schemas/{name}"
_TEXT, _NUMBER, _FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}
_QUERY: dict[str, tuple[str, ...]] = {
    "create": ("action", "version"),
    "register": ("action",),
    "merge": ("version",),
    "drop": ("ifExists", "data", "version"),
    "drop_schema": ("cascade",),
    "publish": ("replace",),
    "changes": ("since", "pageToken"),
    "history": ("pageToken",),
    "listed": ("principal", "pageSize", "pageToken"),
} | dict.fromkeys(
    ("table_names", "tables", "information_schema", "schema_names", "schemas", "trash"),
    ("pageSize", "pageToken"),
)
_TYPES = {
    "version": _NUMBER,
    "since": _NUMBER,
    "pageSize": _NUMBER | {"minimum": 1},
} | dict.fromkeys(("ifExists", "cascade", "replace"), _FLAG)
_CHOICES = {"action": ["New", "IfNew", "Replace", "Force"], "data": ["keep", "trash", "now"]}


def _named(name: str) -> dict[str, str]:
    return {"$ref": _REF.format(name=name)}


def _fields(**types: Any) -> dict[str, Any]:
    return {"type": "object", "properties": types, "additionalProperties": False}


_BODIES: dict[str, Any] = {
    "create": _named("TableSpec"),
    "merge": _named("TableSpec"),
    "stage": _named("TableSpec"),
    "register": _fields(location=_TEXT, spec=_named("TableSpec")),
    "rename": _fields(source=_TEXT, target=_TEXT),
    "move_column": _fields(column=_TEXT, where=_TEXT, anchor=_TEXT),
    "drop_columns": _TEXTS,
    "hide_columns": _fields(hide=_TEXTS, unhide=_TEXTS),
    "create_schema": _fields(comment=_TEXT, properties={"type": "object"}),
    "record": _named("SeenTable"),
    "create_principal": _fields(name=_TEXT, admin=_FLAG),
    "create_token": _fields(principal=_TEXT, expires=_NUMBER),
    "create_grant": _fields(principal=_TEXT, action=_TEXT, pattern=_TEXT, externalType=_TEXT),
}
_REPLIES: dict[str, tuple[tuple[int, ...], Any]] = {
    "create": ((200, 201), _fields(version=_NUMBER)),
    "register": ((201,), _fields(version=_NUMBER)),
    "create_schema": ((201,), _fields(version=_NUMBER)),
    "drop": ((202, 204), None),
    "stage": ((201,), _named("TableMetadata")),
    "spec_of": ((200, 304), _named("TableSpec")),
    "metadata_of": ((200, 304), _named("TableMetadata")),
    "history": ((200,), _named("Changes")),
    "changes": ((200,), _named("Changes")),
    "trash": ((200,), _named("DroppedTables")),
    "create_principal": ((201,), _fields(name=_TEXT)),
    "create_token": ((201,), _fields(id=_TEXT, token=_TEXT)),
    "create_grant": ((201,), _fields(id=_TEXT)),
    "table_names": ((200,), _fields(names=_TEXTS, nextPageToken=_TEXT)),
    "schema_names": ((200,), _fields(names=_TEXTS, nextPageToken=_TEXT)),
    "begin_removal": ((200,), _fields(begun=_FLAG)),
    "tables": (
        (200,),
        _fields(tables={"type": "array", "items": _named("TableMetadata")}, nextPageToken=_TEXT),
    ),
} | dict.fromkeys(
    ("drop_schema", "discard", "forget", "record", "flush", "drop_principal", "revoke"),
    ((204,), None),
)
_VERSION = ((200,), _fields(version=_NUMBER))
_OBJECT = ((200,), {"type": "object"})


def rest_page() -> str:
    """Return the file: each route with what it takes, and what it may answer."""
    paths: dict[str, Any] = {f"{rest_server.BASE}/health": {"get": _health()}}
    for verb, path, handler in rest_server._ROUTES:
        paths.setdefault(rest_server.BASE + path, {})[verb.lower()] = _operation(
            verb, path, handler
        )
    found = {
        "openapi": "3.1.0",
        "info": {
            "title": "projseg catalog",
            "version": "1",
            "description": "Made by `python docs/make_reference.py`; see docs/catalog.md.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _health() -> dict[str, Any]:
    answer = {"200": {"description": "It answers."}, "503": _problem()}
    return {"summary": "Say whether the database answers.", "security": [], "responses": answer}


def _operation(verb: str, path: str, handler: Any) -> dict[str, Any]:
    name = handler.__name__
    summary = (inspect.getdoc(handler) or "List who may use the catalog.").split("\n")[0]
    statuses, content = _REPLIES.get(name, _OBJECT if verb == "GET" else _VERSION)
    made: dict[str, Any] = {"summary": summary, "parameters": _parameters(verb, path, name)}
    if name in _BODIES:
        made["requestBody"] = {"content": {"application/json": {"schema": _BODIES[name]}}}
    made["responses"] = {str(status): _answer(status, content) for status in statuses}
    made["responses"]["default"] = _problem()
    return made


def _parameters(verb: str, path: str, name: str) -> list[dict[str, Any]]:
    found = [
        {"name": one, "in": "path", "required": True, "schema": _TEXT}
        for one in re.findall(r"{(\w+)}", path)
    ]
    for one in _QUERY.get(name, ()):
        type_ = {**_TEXT, "enum": _CHOICES[one]} if one in _CHOICES else _TYPES.get(one, _TEXT)
        found.append({"name": one, "in": "query", "schema": type_})
    if verb != "GET":
        found.append({"name": "Idempotency-Key", "in": "header", "schema": _TEXT})
    if name in ("spec_of", "metadata_of"):
        found.append({"name": "If-None-Match", "in": "header", "schema": _TEXT})
    return found


def _answer(status: int, content: Any) -> dict[str, Any]:
    words = {201: "Made.", 202: "Files are to be removed.", 204: "Done.", 304: "As it is known."}
    made: dict[str, Any] = {"description": words.get(status, "Found, or done.")}
    if content is not None and status != 304:
        made["content"] = {"application/json": {"schema": content}}
    return made


def _problem() -> dict[str, Any]:
    content = {"application/json": {"schema": _named("Problem")}}
    return {"description": "Refused, by code; see docs/errors.md.", "content": content}


def _schemas() -> dict[str, Any]:
    records = (
        *SPECS.values(),
        ColumnSpec,
        Changes,
        DroppedTables,
        SeenTable,
        _MetadataJson,
    )
    _, found = msgspec.json.schema_components(records, ref_template=_REF)
    found["TableMetadata"] = found.pop("_MetadataJson")
    found["TableMetadata"]["title"] = "TableMetadata"
    found["TableMetadata"]["properties"]["spec"] = _named("TableSpec")
    kinds = [_named(kind.__name__) for kind in SPECS.values()]
    found["TableSpec"] = _fields(
        type={**_TEXT, "enum": list(SPECS)},
        properties={"anyOf": kinds},
        columns={"type": "array", "items": _named("ColumnSpec")},
    )
    error = _fields(code=_TEXT, type=_TEXT, message=_TEXT, status=_NUMBER, version=_NUMBER)
    found["Problem"] = _fields(error=error)
    return dict(sorted(found.items()))

"""docs/catalog-rest.json: the REST interface of a catalog as OpenAPI, from its operations."""

import inspect
import json
import re
from typing import Any

import msgspec

from projseg.catalog import rest_handlers
from projseg.catalog.spec.table_spec import SPECS, ColumnSpec, TableSpec
from projseg.catalog.store.operations import OPERATIONS, RestOperation
from projseg.catalog.store.rest_client import BASE
from projseg.catalog.store.store_contract import Changes, DroppedTables, SeenTable
from projseg.catalog.store.table_metadata import TableMetadata, _MetadataJson

_REF = "#/components/schemas/{name}"
_TEXT, _NUMBER, _FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_COMPONENTS = (TableSpec, TableMetadata, Changes, DroppedTables, SeenTable)
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


_RAW = {
    "spec": _named("TableSpec"),
    "tables": {"type": "array", "items": _named("TableMetadata")},
}
"""Fields that the server passes on as it has them."""


def rest_page() -> str:
    """Return the file: each route with what it takes, and what it may answer."""
    paths: dict[str, Any] = {f"{BASE}/health": {"get": _health()}}
    for name, operation in OPERATIONS.items():
        for path in operation.paths:
            found = paths.setdefault(BASE + path, {})
            found[operation.method.lower()] = _described(name, path, operation)
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


def _described(name: str, path: str, operation: RestOperation) -> dict[str, Any]:
    summary = (inspect.getdoc(getattr(rest_handlers, name)) or "").split("\n")[0]
    made: dict[str, Any] = {"summary": summary, "parameters": _parameters(path, operation)}
    if operation.body is not None:
        content = {"application/json": {"schema": _schema(operation.body)}}
        made["requestBody"] = {"content": content}
    answer = None if operation.reply is None else _schema(operation.reply)
    made["responses"] = {str(status): _answer(status, answer) for status in operation.statuses}
    made["responses"]["default"] = _problem()
    return made


def _schema(form: Any) -> dict[str, Any]:
    """Return the schema of a record or of a list."""
    if form in _COMPONENTS:
        return _named(form.__name__)
    if isinstance(form, type) and issubclass(form, msgspec.Struct):
        fields = {one.encode_name: one.type for one in msgspec.structs.fields(form)}
        return _fields(**{name: _RAW.get(name) or _schema(one) for name, one in fields.items()})
    return msgspec.json.schema(form)


def _parameters(path: str, operation: RestOperation) -> list[dict[str, Any]]:
    found = [
        {"name": one, "in": "path", "required": True, "schema": _TEXT}
        for one in re.findall(r"{(\w+)}", path)
    ]
    for one in operation.query:
        type_ = {**_TEXT, "enum": _CHOICES[one]} if one in _CHOICES else _TYPES.get(one, _TEXT)
        found.append({"name": one, "in": "query", "schema": type_})
    if operation.method != "GET":
        found.append({"name": "Idempotency-Key", "in": "header", "schema": _TEXT})
    if 304 in operation.statuses:
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

"""Druid's way to write a definition, as a spec: one spelling for what its catalog says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from projseg.catalog.spec.spec_rules import checked
from projseg.catalog.spec.table_spec import TableSpec, bad_spec, spec_bytes

TIME_COLUMN: Final = "__time"

_TYPES: Final = {"datasource": "table", "table": "table", "extern": "", "input": ""}
_SOURCES: Final = {"inline": "inline", "local": "files", "files": "files", "http": "http"}
_SQL_TYPES: Final = {
    "VARCHAR": "string",
    "STRING": "string",
    "LONG": "bigint",
    "BIGINT": "bigint",
    "INTEGER": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "TIMESTAMP": "timestamp",
}
_FIELDS: Final = {
    "skipHeaderRows": "skipRows",
    "findColumnsFromHeader": "header",
    "hidden": "hiddenColumns",
    "fileFilter": "filePattern",
    "filter": "filePattern",
    "file": "files",
    "uri": "uris",
    "template": "uriTemplate",
    "userNameProperty": "userName",
}
_LISTS: Final = ("files", "uris")
_ARRAY: Final = re.compile(r"(?:ARRAY<(.+)>|(.+?)\s+ARRAY)", re.IGNORECASE)


def from_druid(given: Mapping[str, Any] | str) -> TableSpec:
    """Return the spec that a table spec of Druid's catalog means.

    Parameters
    ----------
    given : mapping or str
        `{"type": "datasource", "properties": {...}, "columns": [...]}`, or the like with `extern`
        or `input` and a `source`. The time column is `__time`.
    """
    try:
        written = json.loads(spec_bytes(given))
    except (ValueError, RecursionError) as error:
        raise bad_spec("$", str(error)[:500]) from error
    if not isinstance(written, dict):
        raise bad_spec("$", "Expected `object`")
    kind = str(written.get("type", "datasource"))
    properties = written.get("properties") or {}
    columns = written.get("columns") or []
    if not isinstance(properties, dict) or not isinstance(columns, list):
        raise bad_spec("$", "properties is an object, and columns an array")
    found = {_FIELDS.get(key, key): value for key, value in properties.items()}
    for key in _LISTS:
        if isinstance(found.get(key), str):
            found[key] = [name.strip() for name in found[key].split(",")]
    spec_type = _TYPES.get(kind, kind)
    if not spec_type:
        source = str(found.pop("source", ""))
        spec_type = _SOURCES.get(source, source)
    names = [column.get("name") for column in columns if isinstance(column, dict)]
    if spec_type == "table":
        found.setdefault("timeColumn", TIME_COLUMN)
    spec: dict[str, Any] = {
        "type": spec_type,
        "properties": found,
        "columns": [_column(column, place) for place, column in enumerate(columns)],
    }
    if spec_type == "table" and TIME_COLUMN not in names:
        # Every datasource has it, declared or not.
        spec["columns"].insert(0, {"name": TIME_COLUMN, "sqlType": "timestamp"})
    return checked(TableSpec.of(spec))


def _column(column: object, place: int) -> dict[str, Any]:
    path = f"$.columns[{place}]"
    if not isinstance(column, dict):
        raise bad_spec(path, "Expected `object`")
    found = {key: value for key, value in column.items() if key not in ("dataType", "sqlType")}
    given = column.get("sqlType", column.get("dataType"))
    if given is not None:
        found["sqlType"] = _type(str(given), f"{path}.sqlType")
    elif column.get("name") == TIME_COLUMN:
        found["sqlType"] = "timestamp"
    return found


def _type(text: str, path: str) -> str:
    array = _ARRAY.fullmatch(text.strip())
    if array is not None:
        return f"array<{_type(array[1] or array[2], path)}>"
    bare = text.strip().upper().removesuffix(" NOT NULL")
    if bare.startswith(("COMPLEX", "SUM(", "MIN(", "MAX(", "COUNT(")):
        raise bad_spec(path, f"'{text[:80]}' holds states of aggregates; declare a projection")
    return _SQL_TYPES.get(bare, text)

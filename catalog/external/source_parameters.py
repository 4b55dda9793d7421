"""External definitions made whole: what a template leaves open is given when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projseg.algebra.expressions.sql_words import parse_type
from projseg.catalog.spec.spec_rules import checked
from projseg.catalog.spec.table_spec import SPECS, TableSpec
from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.logical_types import type_name

_SCHEMA: Final = "schema"
_OPEN: Final = {
    "inline": (),
    "files": ("files", "filePattern"),
    "http": ("uris", "userName", "passwordEnvVar"),
}
_NEEDED: Final = {"files": (("files", "filePattern"),), "http": (("uris",),)}
_LISTS: Final = ("files", "uris")
_FLAGS: Final = ("header", "keepNulls")
_OF_FORMAT: Final = (
    *("format", "onError", "delimiter", "listDelimiter", "skipRows", "nullValue"),
    *_FLAGS,
)


def whole_spec(name: str, spec: TableSpec, given: Mapping[str, Any]) -> TableSpec:
    """Return an external definition with its parameters filled in, checked as a whole.

    It may be complete, a template, or a connection, whose format and columns are open too. `schema`
    is given as DDL text; lists may be comma-separated texts.
    """
    if spec.type == "spark":
        return _spark_spec(name, spec, given)
    content = spec.to_dict()
    fixed = content["properties"]
    is_connection = "format" not in fixed and spec.type in _OPEN
    open_ones = [key for key in _OPEN.get(spec.type, ()) if key not in fixed]
    if {"files", "filePattern"} & set(fixed):
        open_ones = [key for key in open_ones if key not in _OPEN["files"]]
    if is_connection:
        open_ones += [key for key in _OF_FORMAT if key not in fixed]
        open_ones += [_SCHEMA] if not spec.columns else []
    for key in given:
        if key not in open_ones:
            is_fixed = "fixes it" if key in fixed else "has no such parameter"
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_PARAMETER",
                f"parameter '{key[:80]}' of '{name}': the definition {is_fixed}; it takes "
                f"{', '.join(open_ones) or 'none'}{did_you_mean(key, open_ones)}",
            )
    properties = {**fixed, **{key: _plain(key, given[key]) for key in given if key != _SCHEMA}}
    missing = [
        " or ".join(keys)
        for keys in _NEEDED.get(spec.type, ())
        if not any(key in properties for key in keys)
    ]
    missing += [] if "format" in properties else ["format"]
    if missing:
        raise InvalidInputError(
            "PROJSEG_MISSING_PARAMETER", f"'{name}' needs {', '.join(missing)}; give each by name"
        )
    columns = _schema_columns(given[_SCHEMA]) if _SCHEMA in given else content["columns"]
    if spec.type == "http" and "uriTemplate" in properties and "uris" in properties:
        template = properties.pop("uriTemplate")
        properties["uris"] = [template.replace("{}", uri) for uri in properties["uris"]]
    return checked(TableSpec.of({"type": spec.type, "properties": properties, "columns": columns}))


def _spark_spec(name: str, spec: TableSpec, given: Mapping[str, Any]) -> TableSpec:
    """Return the definition of a Spark source with further options that it leaves open."""
    content = spec.to_dict()
    properties, more = content["properties"], dict(given)
    if _SCHEMA in more and not spec.columns:
        content["columns"] = _schema_columns(more.pop(_SCHEMA))
    if "format" in more and "format" not in properties:
        properties["format"] = more.pop("format")
    options = properties.setdefault("options", {})
    fixed = {key.casefold() for key in (*options, "format", _SCHEMA)}
    for key in more:
        if key.casefold() in fixed:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_PARAMETER",
                f"parameter '{key[:80]}' of '{name}': the definition fixes it",
            )
    options |= {key: str(value) for key, value in more.items()}
    return checked(TableSpec.of(content))


def given_spec(given: Mapping[str, Any]) -> TableSpec:
    """Return the spec of a source that is given by its parameters alone."""
    rest = dict(given)
    source = rest.pop("source", None)
    if source not in _OPEN:
        raise InvalidInputError(
            "PROJSEG_MISSING_PARAMETER", f"source is one of {', '.join(_OPEN)}; found {source!r}"
        )
    schema = rest.pop(_SCHEMA, None)
    columns = [] if schema is None else _schema_columns(schema)
    known = SPECS[source].__struct_encode_fields__
    for key in rest:
        if key not in known:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_PARAMETER",
                f"source '{source}' has no parameter '{key[:80]}'{did_you_mean(key, known)}",
            )
    properties = {key: _plain(key, value) for key, value in rest.items()}
    template = properties.get("uriTemplate") if "uris" in properties else None
    uris = properties.pop("uris") if template is not None else None
    spec = checked(TableSpec.of({"type": source, "properties": properties, "columns": columns}))
    return whole_spec(source, spec, {} if uris is None else {"uris": uris})


def _schema_columns(text: str) -> list[dict[str, str]]:
    """Return the columns of a DDL text, `x STRING, z BIGINT`."""
    found = parse_type(f"struct<{text}>")
    return [{"name": field.name, "sqlType": type_name(field.type)} for field in found]


def _plain(key: str, value: Any) -> Any:
    """Return a parameter as a spec has it; a door of texts gives lists, flags and numbers so."""
    if not isinstance(value, str):
        return list(value) if isinstance(value, tuple) else value
    if key in _LISTS:
        return [part.strip() for part in value.split(",")]
    if key in _FLAGS and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if key == "skipRows" and value.isdecimal():
        return int(value)
    return value

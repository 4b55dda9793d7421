"""Specs as Spark's statements write them, and definitions as Spark shows them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from projseg.errors import InvalidInputError
from projseg.spark_datasource.options import parse_list

if TYPE_CHECKING:
    from projseg.catalog.store.table_metadata import TableMetadata

Request: TypeAlias = Mapping[str, Any]
_GRANULARITIES: Final = {"years": "year", "months": "month", "days": "day", "hours": "hour"}
PROPERTIES: Final = {
    "timecolumn": "timeColumn",
    "segmentgranularity": "segmentGranularity",
    "targetsegmentrows": "targetSegmentRows",
    "clusterby": "clusterKeys",
    "hiddencolumns": "hiddenColumns",
    "projections": "projections",
    "retention": "retention",
    "sealed": "sealed",
    "comment": "description",
}
"""The properties of Spark's statements, in lower case, that are fields of a spec."""


def spec_of(request: Request) -> dict[str, Any]:
    """Return the spec that a CREATE TABLE declares.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError
        PROJSEG_BAD_OPTION for partitions, and for what is declared twice.
    """
    provider = (request.get("provider") or "projseg").lower()
    columns = [
        {"name": name, "sqlType": text, **({"comment": comment} if comment else {})}
        for name, text, comment in request["columns"]
    ]
    given = dict(request["properties"])
    layout: dict[str, Any] = {}
    if provider != "projseg":
        return _external_spec(provider, request, columns)
    for transform, names in request["transforms"]:
        layout |= _layout_of(transform, names)
    if request.get("comment"):
        layout["description"] = request["comment"]
    of_columns = json.loads(given.pop("columnProperties", None) or "{}")
    for column in columns:
        if column["name"] in of_columns:
            column["properties"] = of_columns[column["name"]]
    fields, free = fields_of(given)
    for field in fields:
        if field in layout and fields[field] != layout[field]:
            raise InvalidInputError(
                "PROJSEG_BAD_OPTION", f"property {field} and a clause both say it, and differently"
            )
    if free:
        fields["tableProperties"] = free
    return {"type": "table", "properties": {**layout, **fields}, "columns": columns}


def _layout_of(transform: str, names: list[str]) -> dict[str, Any]:
    """Return the fields of a spec that a clause of CREATE TABLE says."""
    if transform == "cluster_by":
        return {"clusterKeys": [{"column": name} for name in names]}
    if transform in _GRANULARITIES and len(names) == 1:
        return {"timeColumn": names[0], "segmentGranularity": _GRANULARITIES[transform]}
    raise InvalidInputError(
        "PROJSEG_BAD_OPTION",
        f"projseg has no partitions by {transform} of {', '.join(names)}; write PARTITIONED BY "
        "(days(time)), with years, months, days or hours, or CLUSTER BY (a, b)",
    )


def fields_of(given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of a spec among the properties of a statement, and the free ones."""
    fields: dict[str, Any] = {}
    free = {}
    for name, text in given.items():
        field = PROPERTIES.get(name.lower())
        if field is None:
            free[name] = text
        else:
            fields[field] = field_of(field, text)
    return fields, free


def field_of(field: str, text: str) -> Any:
    """Return the value of a spec's field that a property's text says.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_OPTION.
    """
    try:
        if field == "targetSegmentRows":
            return int(text)
        if field == "projections":
            found = json.loads(text)
            return found if isinstance(found, list) else [found]
    except ValueError as error:
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION", f"property {field} is '{text[:200]}': {error}"
        ) from error
    if field == "clusterKeys":
        return [{"column": name} for name in parse_list("clusterBy", text)]
    if field == "hiddenColumns":
        return list(parse_list("clusterBy", text))
    return text.lower() == "true" if field == "sealed" else text


def _external_spec(
    provider: str, request: Request, columns: list[dict[str, Any]]
) -> dict[str, Any]:
    from projseg.catalog.spec.table_spec import SPECS

    options = {name.lower(): text for name, text in request["options"].items()}
    source = options.pop("source", "files")
    if source not in SPECS or source == "table":
        raise InvalidInputError(
            "PROJSEG_BAD_OPTION", f"option source is '{source[:80]}', not inline, files or http"
        )
    known = {field.lower(): field for field in SPECS[source].__struct_encode_fields__}
    properties: dict[str, Any] = {"format": provider}
    for name, text in options.items():
        field = known.get(name, name)
        if field in ("files", "uris"):
            properties[field] = list(parse_list("clusterBy", text))
        elif field == "headers":
            properties[field] = json.loads(text)
        elif field in ("header", "keepNulls"):
            properties[field] = text.lower() == "true"
        else:
            properties[field] = int(text) if field == "skipRows" else text
    if request.get("comment"):
        properties["description"] = request["comment"]
    return {"type": source, "properties": properties, "columns": columns}


def shown(definition: TableMetadata) -> dict[str, Any]:
    """Return what Spark shows of a definition, its columns apart."""
    spec = definition.spec.to_dict()
    properties, options = spec["properties"], {}
    if definition.type != "table":
        form = str(properties.pop("format", ""))
        given = {"source": definition.type, **properties}
        options = {key: _text(value) for key, value in given.items() if key != "description"}
        provider = form or "projseg"
    else:
        provider = "projseg"
        for folded, field in PROPERTIES.items():
            if field in properties and field != "description":
                value = properties[field]
                if field == "clusterKeys":
                    value = [key["column"] for key in value]
                options[_spelt(folded, field)] = _text(value)
        options |= properties.get("tableProperties", {})
    extra = {one["name"]: one["properties"] for one in spec["columns"] if one.get("properties")}
    if extra:
        options["columnProperties"] = json.dumps(extra)
    return {
        "type": definition.type,
        "location": definition.location,
        "managed": definition.managed,
        "version": definition.version,
        "state": definition.state,
        "owner": definition.owner,
        "comment": properties.get("description"),
        "provider": provider,
        "options": options,
    }


def _spelt(folded: str, field: str) -> str:
    return "clusterBy" if folded == "clusterby" else field


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

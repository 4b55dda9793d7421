"""Specs as Spark's statements write and alter them, and definitions as Spark shows them.

ALTER TABLE changes a definition and, if values are affected, its table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import parse_type_name
from projseg.segment_format.page_directory import may_widen
from projseg.spark_datasource.options import parse_list
from projseg.table_layer.metadata.known_properties import check_spelling
from projseg.table_layer.metadata.text_bounds import check_comment

if TYPE_CHECKING:
    from projseg.catalog.catalog import Catalog
    from projseg.catalog.spec.table_spec import TableSpec
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
    """Return the spec that a CREATE TABLE declares."""
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
    properties = {**layout, **fields}
    if columns and request.get("location") is None:  # a table that is there may have others
        _require_columns(properties, [column["name"] for column in columns])
    return {"type": "table", "properties": properties, "columns": columns}


def _require_columns(properties: Mapping[str, Any], names: Iterable[str]) -> None:
    """Refuse a layout that names a column which a table does not have."""
    keys = [key["column"] for key in properties.get("clusterKeys", ())]
    known = {name_key(name): name for name in names}
    time = properties.get("timeColumn")
    for field, name in [("timeColumn", time), *(("clusterBy", key) for key in keys)]:
        if name is not None and name_key(name) not in known:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN",
                f"{field} names '{name}', which is not a column"
                f"{did_you_mean(name, known.values())}",
            )


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
    check_spelling(free, PROPERTIES.values())
    return fields, free


def field_of(field: str, text: str) -> Any:
    """Return the value of a spec's field that a property's text says."""
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


def alter(catalog: Catalog, name: tuple[str, str], changes: list[Request]) -> None:
    """Make the changes of one ALTER TABLE, in their order; none if a comment is too long."""
    for change in changes:
        check_comment(f"the comment of column '{change.get('column')}'", change.get("comment"))
    for change in changes:
        _CHANGES[change["kind"]](catalog, name, change)
        if change.get("where"):
            place = change["where"], change.get("anchor")
            catalog.move_column(name, change["column"], *place)


def _has_column(catalog: Catalog, name: tuple[str, str], column: str) -> bool:
    known = catalog.table(name).schema.names
    return name_key(column) in {name_key(one) for one in known}


def _add(catalog: Catalog, name: tuple[str, str], change: Request) -> None:
    column, comment = change["column"], change.get("comment")
    if _has_column(catalog, name, column):
        raise InvalidInputError("PROJSEG_COLUMN_EXISTS", f"there is a column '{column}'")
    said = {"comment": comment} if comment else {}
    part = {"name": column, "sqlType": change["type"], **said}
    catalog.merge(name, {"columns": [part]})


def _drop_column(catalog: Catalog, name: tuple[str, str], change: Request) -> None:
    if not change["lenient"] or _has_column(catalog, name, change["column"]):
        catalog.table(name).drop_column(change["column"])


def _cluster(catalog: Catalog, name: tuple[str, str], change: Request) -> None:
    keys = [{"column": one} for one in change["columns"]] or None
    catalog.merge(name, {"properties": {"clusterKeys": keys}})


def _comment(catalog: Catalog, name: tuple[str, str], change: Request) -> None:
    part = {"name": change["column"], "comment": change["comment"] or None}
    catalog.merge(name, {"columns": [part]})


def _retype(catalog: Catalog, name: tuple[str, str], change: Request) -> None:
    """Declare a type, and widen the stored column where nothing is lost."""
    from projseg.catalog.declared_table import stored_columns

    column, text = change["column"], change["type"]
    table = catalog.table(name)
    wanted = parse_type_name(text)
    stored = None if table.is_unwritten else stored_columns(table.definition, table.properties)
    name_there = (stored or {}).get(name_key(column), column)
    if stored is not None and name_there in table.properties.schema.names:
        own = table.properties.schema.field(name_there).type
        if own != wanted and may_widen(own, wanted):
            table.widen_column(column, wanted)
            return
    catalog.merge(name, {"columns": [{"name": column, "sqlType": text}]})


def _set_properties(catalog: Catalog, name: tuple[str, str], change: Request) -> None:
    given, gone = change["set"], change["unset"]

    def edited(spec: TableSpec) -> dict[str, Any]:
        found = spec.to_dict()
        fields, free = fields_of(given)
        properties = {**found["properties"], **fields}
        texts = {**properties.pop("tableProperties", {}), **free}
        for one in gone:
            properties.pop(PROPERTIES.get(one.lower(), one), None)
            texts.pop(one, None)
        if texts:
            properties["tableProperties"] = texts
        return {**found, "properties": properties}

    _require_fitting(catalog, name, fields_of(given)[0])
    catalog.edit(name, edited)


def _require_fitting(catalog: Catalog, name: tuple[str, str], fields: Mapping[str, Any]) -> None:
    """Refuse a time column that a table does not have, or that is not the one that it has."""
    if not {"timeColumn", "clusterKeys"} & set(fields):
        return
    from projseg.catalog.declared_table import check_time_column, stored_columns

    table = catalog.table(name)
    own = [*(column.name for column in table.definition.spec.columns), *table.schema.names]
    if table.is_unwritten:
        _require_columns(fields, own)
        return
    properties = table.properties
    names = {name_key(one): one for one in properties.schema.names}
    _require_columns(fields, [*own, *names.values()])
    declared = stored_columns(table.definition, properties)
    names |= {folded: one for folded, one in declared.items() if one is not None}
    check_time_column(fields.get("timeColumn"), names, properties)


def shown_fields(definition: TableMetadata) -> dict[str, Any]:
    """Return the fields of a definition that Spark shows, its columns apart."""
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
                options["clusterBy" if folded == "clusterby" else field] = _text(value)
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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_CHANGES: Final[dict[str, Callable[[Catalog, tuple[str, str], Request], object]]] = {
    "add": _add,
    "move": lambda *_: None,
    "comment": _comment,
    "type": _retype,
    "rename": lambda c, n, r: c.table(n).rename_column(r["column"], r["to"]),
    "drop": _drop_column,
    "properties": _set_properties,
    "cluster": _cluster,
}

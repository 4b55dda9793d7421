"""The changes of ALTER TABLE, in a definition and, where values are concerned, in its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from projseg.errors import InvalidInputError
from projseg.segment_format.logical_types import parse_type_name
from projseg.segment_format.page_directory import may_widen
from projseg.spark_engine.definition_specs import PROPERTIES, fields_of

if TYPE_CHECKING:
    from projseg.catalog.catalog import Catalog
    from projseg.catalog.spec.table_spec import TableSpec

Request: TypeAlias = Mapping[str, Any]


def alter(catalog: Catalog, name: tuple[str, str], changes: list[Request]) -> None:
    """Make the changes of one ALTER TABLE, in their order."""
    for change in changes:
        _CHANGES[change["kind"]](catalog, name, change)
        if change.get("where"):
            place = change["where"], change.get("anchor")
            catalog.move_column(name, change["column"], *place)


def _has_column(catalog: Catalog, name: tuple[str, str], column: str) -> bool:
    known = catalog.table(name).schema.names
    return column.casefold() in {one.casefold() for one in known}


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
    name_there = (stored or {}).get(column.casefold(), column)
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

    catalog.edit(name, edited)


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

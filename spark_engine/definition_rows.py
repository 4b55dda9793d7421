"""Rows that Spark reads of a catalog: files from outside, and `information_schema`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from projseg.errors import InvalidInputError
from projseg.segment_format.logical_types import normal_type, type_name
from projseg.spark_datasource.shared_lists import ddl_of
from projseg.spark_engine.replies import Reply, arrow_stream
from projseg.table_layer.metadata_tables import METADATA_TABLES

if TYPE_CHECKING:
    from projseg.catalog.catalog import Catalog
    from projseg.catalog.external.allowed_places import AllowedPlaces
    from projseg.catalog.named_table import CatalogTable
    from projseg.catalog.spec.table_spec import TableSpec

INFORMATION_SCHEMA: Final = "information_schema"


def files_of(places: AllowedPlaces, spec: TableSpec, timezone: str) -> dict[str, Any]:
    """Return the columns of files from outside, and what tasks read them by."""
    from projseg.catalog.external.source_reader import parts_of, read_source

    if spec.type == "spark":
        from projseg.catalog.external.source_reader import spark_source

        columns = [(one.name, str(one.sql_type or "string")) for one in spec.columns]
        shown = [{"name": name, "type": text} for name, text in columns]
        return {"columns": shown, "spark": spark_source(spec, places)}
    parts = parts_of(spec, places)
    if not parts:
        raise InvalidInputError("PROJSEG_BAD_INPUT_FILE", "no file is named; name one")
    schema = read_source(parts[0], places, timezone).schema
    read = {
        "parts": [one.to_json() for one in parts],
        "roots": places.roots,
        "hosts": places.hosts,
        "timezone": timezone,
    }
    return {"columns": _columns(schema), "files": json.dumps(read)}


def given_files(catalog: Catalog, request: Mapping[str, Any]) -> TableSpec:
    """Return a whole definition of files: a name with parameters, or parameters alone."""
    from projseg.catalog.external.source_parameters import given_spec, whole_spec

    if not request["table"]:
        return given_spec(request["parameters"])
    definition = catalog.metadata((request["namespace"], request["table"]))
    return whole_spec(str(definition.full_name), definition.spec, request["parameters"])


def files_without_catalog(request: Mapping[str, Any]) -> Reply:
    """Return files that parameters alone describe; the environment says which may be read."""
    from projseg.catalog.external.allowed_places import AllowedPlaces
    from projseg.catalog.external.source_parameters import given_spec

    spec = given_spec(request["parameters"])
    return {"result": files_of(AllowedPlaces.of((), ()), spec, request["timezone"])}, b""


def metadata_of(table: CatalogTable, request: Mapping[str, Any]) -> Reply:
    """Return a metadata table of a defined table, with its columns as Spark's DDL.

    It has no rows if the table was never written.
    """
    rows = METADATA_TABLES[request["kind"]].rows(table.snapshot)
    return {"result": ddl_of(rows.schema)}, arrow_stream(rows)


def view_names() -> list[str]:
    """Return the names of the views of `information_schema`."""
    from projseg.catalog.information_schema import VIEWS

    return list(VIEWS)


def described_view(name: str) -> dict[str, Any]:
    """Describe a view of `information_schema` as a definition is described."""
    from projseg.catalog.information_schema import VIEWS, view_of

    columns = _columns(VIEWS[view_of(name)])
    unknown = dict.fromkeys(("location", "version", "owner", "comment", "tableVersion"))
    rest = {"stored": None, "storedType": None, "comment": None}
    return {
        **unknown,
        "type": "view",
        "managed": False,
        "state": "ACTIVE",
        "provider": "projseg",
        "options": {},
        "columns": [{**column, **rest} for column in columns],
        "stored": [],
    }


def view_page(catalog: Catalog, request: Mapping[str, Any]) -> Reply:
    """Return rows of a view of `information_schema`, and the key after which there are more.

    The request has the wanted `columns`; `schemas` and `tables`, names that WHERE lets through, or
    None for any; and `after`, the key of the page before.
    """
    from projseg.catalog.information_schema import view_of

    among = tuple(
        None if names is None else frozenset(names)
        for names in (request["schemas"], request["tables"])
    )
    after = tuple(request["after"] or ("", ""))
    rows, last = catalog.information_schema.page(view_of(request["table"]), among, after)  # type: ignore[arg-type]
    return {"result": last}, arrow_stream(rows.select(request["columns"]))


def _columns(schema: pa.Schema) -> list[dict[str, str]]:
    return [{"name": field.name, "type": type_name(normal_type(field.type))} for field in schema]

"""Rows that Spark reads of a catalog: files from outside, and `information_schema`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from projseg.errors import InvalidInputError
from projseg.segment_format.layout.logical_types import normal_type, type_name

if TYPE_CHECKING:
    from projseg.catalog.catalog import Catalog

INFORMATION_SCHEMA: Final = "information_schema"


def files_of(
    catalog: Catalog, name: tuple[str, str] | None, request: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the columns of files from outside, and what tasks read them by.

    Parameters
    ----------
    catalog : Catalog
        With the places that the reader allows.
    name : (str, str) or None
        A definition; None: the parameters say everything.
    request : mapping
        With `parameters`, by the names of a spec's properties, and `timezone`.

    Raises
    ------
    ProjsegError
        As of `Catalog.read`.
    """
    from projseg.catalog.external.source_parameters import given_spec, whole_spec
    from projseg.catalog.external.source_reader import parts_of, read_source

    parameters = request["parameters"]
    if name is None:
        spec = given_spec(parameters)
    else:
        definition = catalog.metadata(name)
        spec = whole_spec(str(definition.full_name), definition.spec, parameters)
    parts, zone, places = parts_of(spec, catalog._places), request["timezone"], catalog._places
    if not parts:
        raise InvalidInputError("PROJSEG_BAD_INPUT_FILE", "no file is named; name one")
    schema = read_source(parts[0], places, zone).schema
    read = {
        "parts": [one.to_json() for one in parts],
        "roots": places.roots,
        "hosts": places.hosts,
        "timezone": zone,
    }
    return {"columns": _columns(schema), "files": json.dumps(read)}


def view_names() -> list[str]:
    """Return the names of the views of `information_schema`."""
    from projseg.catalog.information_schema import VIEWS

    return list(VIEWS)


def described_view(name: str) -> dict[str, Any]:
    """Describe a view of `information_schema` as a definition is described.

    Raises
    ------
    InvalidInputError
        PROJSEG_UNKNOWN_TABLE.
    """
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


def view_of(catalog: Catalog, request: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a view of `information_schema`."""
    from projseg.catalog.information_schema import VIEWS
    from projseg.catalog.information_schema import view_of as name_of

    view = name_of(request["table"])
    return pa.Table.from_batches(catalog._view_batches(view), VIEWS[view])


def _columns(schema: pa.Schema) -> list[dict[str, str]]:
    return [{"name": field.name, "type": type_name(normal_type(field.type))} for field in schema]

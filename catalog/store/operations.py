"""The operations of the REST interface: a record for each, from which all sides derive.

The server has a function of each name in `rest_handlers`, the client asks by name, and the page of
OpenAPI is made from the records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from projseg.catalog.spec.table_spec import TableSpec
from projseg.catalog.store.store_contract import Changes, DroppedTables, SeenTable, Tables
from projseg.catalog.store.table_metadata import TableMetadata


class Register(msgspec.Struct, forbid_unknown_fields=True):
    """A table at a location, and its spec."""

    location: str
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class Rename(msgspec.Struct, forbid_unknown_fields=True):
    """The name of a definition, and its new one."""

    source: str | list[str]
    target: str | list[str]


class MoveColumn(msgspec.Struct, forbid_unknown_fields=True):
    """A column and its new place: `FIRST`, `LAST`, or beside another."""

    column: str
    where: str
    anchor: str | None = None


class HideColumns(msgspec.Struct, forbid_unknown_fields=True):
    """Columns to hide, and columns to show again."""

    hide: list[str] | None = None
    unhide: list[str] | None = None


class NewSchema(msgspec.Struct, forbid_unknown_fields=True):
    """What a namespace has besides its name."""

    comment: str | None = None
    properties: dict[str, str] | None = None


class NewPrincipal(msgspec.Struct, forbid_unknown_fields=True):
    """A principal of the tenant."""

    name: str
    admin: bool = False


class NewToken(msgspec.Struct, forbid_unknown_fields=True):
    """Whose token, and when it expires, in milliseconds since 1970."""

    principal: str
    expires: int | None = None


class NewGrant(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """An action that a principal may do where a pattern matches."""

    principal: str
    action: str
    pattern: str
    external_type: str | None = None


class Version(msgspec.Struct):
    """The version that an edit made."""

    version: int


class Names(msgspec.Struct, rename="camel"):
    """A page of names."""

    names: list[str]
    next_page_token: str | None


class RestOperation(msgspec.Struct, frozen=True):
    """An operation.

    Parameters
    ----------
    method : str
        Of HTTP.
    paths : tuple of str
        Below the interface's base; the client uses the first.
    body, reply : type, mapping of types by field, or None
        As JSON; None: there is none.
    query : tuple of str
        Parameters.
    statuses : tuple of int
        Of replies that are no error.
    is_for_admins : bool
        Whether others are refused.
    """

    method: str
    paths: tuple[str, ...]
    body: Any = None
    reply: Any = Version
    query: tuple[str, ...] = ()
    statuses: tuple[int, ...] = (200,)
    is_for_admins: bool = False

    def address(self, parts: tuple[str, ...]) -> str:
        """Return the path with names in place of its fields."""
        names = iter(parts)
        return re.sub(r"/{\w+}", lambda _: quoted(next(names)), self.paths[0])


def quoted(*parts: str) -> str:
    """Return names as parts of a path."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


_TABLE: Final = "/tables/{ns}/{name}"
_PAGE: Final = ("pageSize", "pageToken")
_OBJECT: Final = dict[str, Any]


def _read(*paths: str, reply: Any = _OBJECT, query: tuple[str, ...] = ()) -> RestOperation:
    return RestOperation("GET", paths, None, reply, query)


def _conditional_read(*paths: str, reply: Any) -> RestOperation:
    """Return a read that is answered by 304 if the client has what it asks for."""
    return RestOperation("GET", paths, None, reply, statuses=(200, 304))


def _removal(
    *paths: str, query: tuple[str, ...] = (), is_for_admins: bool = False
) -> RestOperation:
    return RestOperation("DELETE", paths, None, None, query, (204,), is_for_admins)


def _creation(path: str, body: Any, reply: Any) -> RestOperation:
    """Return what admins make."""
    return RestOperation("POST", (path,), body, reply, (), (201,), is_for_admins=True)


OPERATIONS: Final[Mapping[str, RestOperation]] = {
    "rename": RestOperation("POST", ("/tables/rename",), Rename),
    "create": RestOperation(
        "POST", (_TABLE,), TableSpec, Version, ("action", "version"), (200, 201)
    ),
    "merge": RestOperation("PUT", (_TABLE,), TableSpec, Version, ("version",)),
    "spec_of": _conditional_read(_TABLE, f"{_TABLE}/sync", reply=TableSpec),
    "drop": RestOperation(
        "DELETE", (_TABLE,), None, None, ("ifExists", "data", "version"), (202, 204)
    ),
    "move_column": RestOperation("POST", (f"{_TABLE}/moveColumn",), MoveColumn),
    "drop_columns": RestOperation("POST", (f"{_TABLE}/dropColumn",), list[str]),
    "hide_columns": RestOperation("POST", (f"{_TABLE}/hideColumns",), HideColumns),
    "register": RestOperation(
        "POST", (f"{_TABLE}/register",), Register, Version, ("action",), (201,)
    ),
    "history": _read(f"{_TABLE}/history", reply=Changes, query=("pageToken",)),
    "record": RestOperation("PUT", ("/definitions/{id}/seen",), SeenTable, None, (), (204,)),
    "schema_names": _read("/list/schemas/names", reply=Names, query=_PAGE),
    "table_names": _read("/schemas/{ns}/names", "/list/tables/names", reply=Names, query=_PAGE),
    "tables": _read("/schemas/{ns}/tables", "/schemas/{ns}/sync", reply=Tables, query=_PAGE),
    "metadata_of": _conditional_read("/schemas/{ns}/tables/{name}", reply=TableMetadata),
    "schemas": _read("/schemas", query=_PAGE),
    "schema_of": _read("/schemas/{ns}"),
    "create_schema": _creation("/schemas/{ns}", NewSchema, Version),
    "drop_schema": _removal("/schemas/{ns}", query=("cascade",), is_for_admins=True),
    "information_schema": _read("/information_schema/{view}", query=_PAGE),
    "trash": _read("/trash", reply=DroppedTables, query=_PAGE),
    "undrop": RestOperation("POST", ("/trash/{id}/undrop",)),
    "publish": RestOperation("POST", ("/staged/{id}/publish",), query=("replace",)),
    "stage": RestOperation("POST", ("/staged/{ns}/{name}",), TableSpec, TableMetadata, (), (201,)),
    "discard": _removal("/staged/{id}"),
    "begin_removal": RestOperation("POST", ("/trash/{id}/removal",), None, {"begun": bool}),
    "forget": _removal("/trash/{id}"),
    "changes": _read("/changes", reply=Changes, query=("since", "pageToken")),
    "config": _read("/config"),
    "flush": RestOperation("POST", ("/flush",), None, None, (), (204,)),
    "principals": _read("/principals", query=("principal", *_PAGE)),
    "create_principal": _creation("/principals", NewPrincipal, {"name": str}),
    "drop_principal": _removal("/principals/{id}", is_for_admins=True),
    "tokens": _read("/tokens", query=("principal", *_PAGE)),
    "create_token": _creation("/tokens", NewToken, {"id": str, "token": str}),
    "grants": _read("/grants", query=("principal", *_PAGE)),
    "create_grant": _creation("/grants", NewGrant, {"id": str}),
    "revoke": _removal("/grants/{id}", "/tokens/{id}"),
}
"""By the names of their functions; of two paths that fit an address, the first is meant."""

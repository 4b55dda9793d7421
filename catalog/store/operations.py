"""The operations of the REST interface: a record for each, from which all sides derive.

The server has a function of each name in `rest_handlers`, the client asks by name, and the page of
OpenAPI is made from the records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

import msgspec

from projseg.catalog.spec.table_spec import TableSpec
from projseg.catalog.store.store_contract import Changes, DroppedTables, SeenTable, Tables
from projseg.catalog.store.table_metadata import (
    ACTIVE,
    DELETED,
    DELETING,
    STAGED,
    TableMetadata,
)

Needed: TypeAlias = Literal["TOKEN", "SHOWN", "READ", "WRITE", "ADMIN"]


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


class Begun(msgspec.Struct):
    """Whether files are about to be removed; not if their definition was brought back."""

    begun: bool


class MadePrincipal(msgspec.Struct):
    """The name of a principal that was made."""

    name: str


class MadeToken(msgspec.Struct):
    """A token, which nobody sees again, and its id."""

    id: str
    token: str


class MadeGrant(msgspec.Struct):
    """The id of a grant."""

    id: str


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
    needs : str
        What the caller needs: a `TOKEN`; a grant to `READ` or `WRITE` the definitions that are
        named; `SHOWN`: a token, and the list has what may be read; or to be an `ADMIN`.
    body, reply : type or None
        As JSON; None if there is none.
    query : tuple of str
        Parameters.
    statuses : tuple of int
        Of replies that are no error; the first is usual.
    states : tuple of str
        Of the definition that the path names by its id; none: it names no id of a definition.
    keeps_reply : bool
        Whether the reply is kept with the edit for an Idempotency-Key. What is not kept may be done
        again, or is a secret.
    """

    method: str
    paths: tuple[str, ...]
    needs: Needed
    body: Any = None
    reply: Any = Version
    query: tuple[str, ...] = ()
    statuses: tuple[int, ...] = (200,)
    states: tuple[str, ...] = ()
    keeps_reply: bool = False

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
_IN_TRASH: Final = (DELETED, DELETING)


def _read(
    *paths: str, needs: Needed = "TOKEN", reply: Any = _OBJECT, query: tuple[str, ...] = ()
) -> RestOperation:
    return RestOperation("GET", paths, needs, None, reply, query)


def _conditional_read(*paths: str, reply: Any) -> RestOperation:
    """Return a read that is answered by 304 if the client already has the newest reply."""
    return RestOperation("GET", paths, "READ", None, reply, statuses=(200, 304))


def _edit(
    method: str,
    path: str,
    body: Any = None,
    reply: Any = Version,
    query: tuple[str, ...] = (),
    statuses: tuple[int, ...] = (200,),
    states: tuple[str, ...] = (),
) -> RestOperation:
    """Return an edit of definitions, which is done once for an Idempotency-Key."""
    return RestOperation(
        method, (path,), "WRITE", body, reply, query, statuses, states, keeps_reply=True
    )


def _step(
    method: str, path: str, *states: str, body: Any = None, reply: Any = None
) -> RestOperation:
    """Return a step with one definition, which is the same when it is done twice."""
    statuses = (204,) if reply is None else (200,)
    return RestOperation(method, (path,), "WRITE", body, reply, (), statuses, states)


def _administration(
    method: str,
    *paths: str,
    body: Any = None,
    reply: Any = None,
    query: tuple[str, ...] = (),
    keeps_reply: bool = True,
) -> RestOperation:
    """Return what admins make, or remove."""
    statuses = (204,) if reply is None else (201,)
    return RestOperation(
        method, paths, "ADMIN", body, reply, query, statuses, keeps_reply=keeps_reply
    )


def _access(path: str) -> RestOperation:
    """Return a list of those who may use the catalog."""
    return _read(path, needs="ADMIN", query=("principal", *_PAGE))


OPERATIONS: Final[Mapping[str, RestOperation]] = {
    "rename": _edit("POST", "/tables/rename", Rename),
    "create": _edit("POST", _TABLE, TableSpec, Version, ("action", "version"), (200, 201)),
    "merge": _edit("PUT", _TABLE, TableSpec, query=("version",)),
    "spec_of": _conditional_read(_TABLE, f"{_TABLE}/sync", reply=TableSpec),
    "drop": _edit("DELETE", _TABLE, None, None, ("ifExists", "data", "version"), (202, 204)),
    "move_column": _edit("POST", f"{_TABLE}/moveColumn", MoveColumn),
    "drop_columns": _edit("POST", f"{_TABLE}/dropColumn", list[str]),
    "hide_columns": _edit("POST", f"{_TABLE}/hideColumns", HideColumns),
    "register": _edit("POST", f"{_TABLE}/register", Register, Version, ("action",), (201,)),
    "history": _read(f"{_TABLE}/history", needs="READ", reply=Changes, query=("pageToken",)),
    "record": _step("PUT", "/definitions/{id}/seen", ACTIVE, body=SeenTable),
    "schema_names": _read("/list/schemas/names", reply=Names, query=_PAGE),
    "table_names": _read(
        "/schemas/{ns}/names", "/list/tables/names", needs="SHOWN", reply=Names, query=_PAGE
    ),
    "tables": _read(
        "/schemas/{ns}/tables", "/schemas/{ns}/sync", needs="SHOWN", reply=Tables, query=_PAGE
    ),
    "metadata_of": _conditional_read("/schemas/{ns}/tables/{name}", reply=TableMetadata),
    "schemas": _read("/schemas", query=_PAGE),
    "schema_of": _read("/schemas/{ns}"),
    "create_schema": _administration("POST", "/schemas/{ns}", body=NewSchema, reply=Version),
    "drop_schema": _administration("DELETE", "/schemas/{ns}", query=("cascade",)),
    "information_schema": _read("/information_schema/{view}", needs="SHOWN", query=_PAGE),
    "trash": _read("/trash", needs="SHOWN", reply=DroppedTables, query=_PAGE),
    "undrop": _edit("POST", "/trash/{id}/undrop", states=_IN_TRASH),
    "publish": _edit("POST", "/staged/{id}/publish", query=("replace",), states=(STAGED,)),
    "stage": _edit("POST", "/staged/{ns}/{name}", TableSpec, TableMetadata, (), (201,)),
    "discard": _step("DELETE", "/staged/{id}", STAGED),
    "begin_removal": _step("POST", "/trash/{id}/removal", *_IN_TRASH, reply=Begun),
    "forget": _step("DELETE", "/trash/{id}", *_IN_TRASH),
    "changes": _read("/changes", needs="SHOWN", reply=Changes, query=("since", "pageToken")),
    "config": _read("/config"),
    "flush": RestOperation("POST", ("/flush",), "TOKEN", None, None, (), (204,)),
    "principals": _access("/principals"),
    "create_principal": _administration(
        "POST", "/principals", body=NewPrincipal, reply=MadePrincipal
    ),
    "drop_principal": _administration("DELETE", "/principals/{id}"),
    "tokens": _access("/tokens"),
    "create_token": _administration(
        "POST", "/tokens", body=NewToken, reply=MadeToken, keeps_reply=False
    ),
    "grants": _access("/grants"),
    "create_grant": _administration("POST", "/grants", body=NewGrant, reply=MadeGrant),
    "revoke": _administration("DELETE", "/grants/{id}", "/tokens/{id}", keeps_reply=False),
}
"""By the names of their functions; of two paths that fit an address, the first is meant."""

"""What each request of the REST interface does, by the same library that Python uses.

Handlers are plain functions of a `RestRequest`; they open no table and no file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from projseg.catalog.information_schema import view_of, view_rows
from projseg.catalog.service.rest_request import RestReply, RestRequest, page_of, unknown
from projseg.catalog.spec.spec_edits import with_hidden
from projseg.catalog.spec.spec_rules import checked
from projseg.catalog.spec.table_spec import TableSpec
from projseg.catalog.store.definition_store import ACTIONS, Action
from projseg.catalog.store.table_metadata import Name, parse_name
from projseg.catalog.store.tenant_edits import now_us
from projseg.catalog.upkeep import DATA, DAY_US, TRASH_DAYS
from projseg.errors import InvalidInputError

_NAMES_MAX: Final = 10_000
_SPECS_MAX: Final = 100
_ACTIONS: Final[dict[str, Action]] = {action.casefold(): action for action in ACTIONS}


def create(request: RestRequest) -> RestReply:
    """Write a whole definition."""
    spec, name = _spec_for(request, request.body), request.name
    action = _ACTIONS.get(request.query.get("action", "New").casefold())
    if action is None:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "action is New, IfNew, Replace or Force")
    is_new = request.catalog.store.find(name) is None
    version = request.catalog.create(name, spec, action, request.number("version"))
    return RestReply({"version": version}, 201 if is_new else 200)


def register(request: RestRequest) -> RestReply:
    """Define a table at a location below one of the tenant's roots."""
    location, spec = request.fields("location", "spec")
    if not isinstance(location, str):
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "location is a text")
    text = msgspec.json.encode(spec or {})
    whole = _spec_for(request, text)
    _check_location(location, request.caller.roots)
    return RestReply({"version": request.catalog.register(request.name, location, whole)}, 201)


def merge(request: RestRequest) -> RestReply:
    """Merge a part of a spec into a definition."""
    name = _writable(request)
    part = request.json()
    return RestReply({"version": request.catalog.merge(name, part, request.number("version"))})


def spec_of(request: RestRequest) -> RestReply:
    """Return a spec, unless the client has this version."""
    found = request.readable(request.name)
    if request.known_version in (f'"{found.version}"', f'W/"{found.version}"'):
        return RestReply(None, 304, found.version)
    return RestReply(found.spec.to_json(), version=found.version)


def metadata_of(request: RestRequest) -> RestReply:
    """Return a definition with what the catalog knows of it."""
    found = request.readable(request.name)
    return RestReply(found.to_json(), version=found.version)


def drop(request: RestRequest) -> RestReply:
    """Drop a definition; its files are removed by `gc`, with rights that a server lacks."""
    name, data = request.require("WRITE", request.name), request.query.get("data", "keep")
    if data not in DATA:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", f"data is one of {', '.join(DATA)}")
    if request.flag("ifExists") and request.catalog.store.find(name) is None:
        return RestReply(None, 204)
    due_us = now_us() + (0 if data == "now" else TRASH_DAYS * DAY_US)
    request.catalog.store.remove(
        name, due_us, removes_files=data != "keep", version=request.number("version")
    )
    return RestReply(None, 202 if data == "now" else 204)


def move_column(request: RestRequest) -> RestReply:
    """Move a declared column."""
    column, where, anchor = request.fields("column", "where", "anchor")
    name = _writable(request)
    return RestReply({"version": request.catalog.move_column(name, column, where, anchor)})


def drop_columns(request: RestRequest) -> RestReply:
    """Declare columns no longer."""
    return RestReply(
        {"version": request.catalog.drop_columns(_writable(request), _texts(request.json()))}
    )


def hide_columns(request: RestRequest) -> RestReply:
    """Hide columns, and show others again, in one edit."""
    hide, unhide = (_texts(found or []) for found in request.fields("hide", "unhide"))
    name = _writable(request)
    version = request.catalog.store.change(
        name, lambda found: with_hidden(found.spec, hide, unhide)
    )
    return RestReply({"version": version})


def rename(request: RestRequest) -> RestReply:
    """Give a definition another name."""
    source, target = (parse_name(one) for one in request.fields("source", "target"))
    request.require("WRITE", source)
    request.require("WRITE", target)
    return RestReply({"version": request.catalog.rename(source, target)})


def history(request: RestRequest) -> RestReply:
    """Return who changed a definition."""
    found = request.readable(request.name)
    return RestReply(
        {"changes": [_change(row) for row in request.catalog.store.changes(-1, found.id)]}
    )


def changes(request: RestRequest) -> RestReply:
    """Return what changed after a version, of what the caller may read."""
    since = request.number("since") or 0
    if 0 < since < request.caller.since:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_VERSION", "grants changed since then; list the definitions anew"
        )
    rows = request.catalog.store.changes(since)
    head = request.catalog.store.head()
    shown = [
        _change(row)
        for row in rows
        if (row["definition"] is None and row["kind"].endswith("namespace"))
        or (row["definition"] is not None and request.may_read(parse_name(row["name"])))
    ]
    return RestReply({"head": head, "changes": shown})


def table_names(request: RestRequest) -> RestReply:
    """Return names of definitions, a page at a time."""
    found, token = page_of(request, _NAMES_MAX)
    is_one = "ns" in request.path
    return RestReply(
        {"names": [one.name if is_one else str(one) for one in found], "nextPageToken": token}
    )


def tables(request: RestRequest) -> RestReply:
    """Return definitions of a namespace, a page at a time."""
    names, token = page_of(request, _SPECS_MAX)
    found = (request.catalog.store.find(name) for name in names)
    rows = [json.loads(one.to_json()) for one in found if one is not None]
    return RestReply({"tables": rows, "nextPageToken": token})


def schema_names(request: RestRequest) -> RestReply:
    """Return the names of all namespaces."""
    return RestReply({"names": request.catalog.namespaces(), "nextPageToken": None})


def schema_of(request: RestRequest) -> RestReply:
    """Return a namespace."""
    wanted = request.path["ns"].casefold()
    for found in request.catalog.store.namespaces():
        if found["name"].casefold() == wanted:
            return RestReply(found)
    raise InvalidInputError("PROJSEG_UNKNOWN_NAMESPACE", f"there is no namespace '{wanted[:80]}'")


def create_schema(request: RestRequest) -> RestReply:
    """Make a namespace."""
    request.require_admin()
    comment, properties = request.fields("comment", "properties")
    version = request.catalog.create_namespace(request.path["ns"], comment, properties)
    return RestReply({"version": version}, 201)


def drop_schema(request: RestRequest) -> RestReply:
    """Drop a namespace."""
    request.require_admin()
    request.catalog.drop_namespace(request.path["ns"], request.flag("cascade"))
    return RestReply(None, 204)


def trash(request: RestRequest) -> RestReply:
    """Return dropped definitions."""
    items = [
        {
            "id": found.id,
            "name": str(found.full_name),
            "deletedAt": found.updated_us // 1000,
            "dueAt": due // 1000,
        }
        for found, due, _ in request.catalog.store.trash()
        if request.may_read(found.full_name)
    ]
    return RestReply({"items": items, "nextPageToken": None})


def undrop(request: RestRequest) -> RestReply:
    """Bring a dropped definition back."""
    id_ = request.path["id"]
    for found, _, _ in request.catalog.store.trash():
        if found.id == id_ and request.may_read(found.full_name):
            name = request.require("WRITE", found.full_name)
            return RestReply({"version": request.catalog.undrop(name, id_)})
    raise InvalidInputError("PROJSEG_UNKNOWN_TABLE", "the trash holds no such definition")


def config(request: RestRequest) -> RestReply:
    """Return what a client needs to know."""
    caller = request.caller
    return RestReply(
        {
            "tenant": caller.tenant,
            "principal": caller.principal,
            "admin": caller.is_admin,
            "warehouse": caller.warehouse,
            "head": request.catalog.store.head(),
        }
    )


def information_schema(request: RestRequest) -> RestReply:
    """Return rows of a view of `information_schema`, a page of definitions at a time."""
    view = view_of(request.path["view"])
    found: Iterable[Any] = request.catalog.store.namespaces()
    token = None
    if view != "schemata":
        names, token = page_of(request, _SPECS_MAX)
        loaded = map(request.catalog.store.find, names)
        found = [one for one in loaded if one is not None]
    rows = list(view_rows(view, request.caller.tenant, found))
    return RestReply({"rows": rows, "nextPageToken": token})


def flush(request: RestRequest) -> RestReply:
    """Forget what was read."""
    request.catalog.flush()
    return RestReply(None, 204)


def listed_access(what: str) -> Callable[[RestRequest], RestReply]:
    """Return the handler that lists `principals`, `tokens` or `grants`."""

    def listed(request: RestRequest) -> RestReply:
        return RestReply(
            {"items": request.access.listed_access(what, request.query.get("principal"))}
        )

    return listed


def create_principal(request: RestRequest) -> RestReply:
    """Make a principal."""
    name, admin = request.fields("name", "admin")
    request.access.create_principal(str(name), is_admin=admin is True)
    return RestReply({"name": name}, 201)


def drop_principal(request: RestRequest) -> RestReply:
    """Drop a principal with its tokens and grants."""
    request.access.drop_principal(request.path["id"])
    return RestReply(None, 204)


def create_token(request: RestRequest) -> RestReply:
    """Make a token, the only time that it is seen."""
    principal, expires = request.fields("principal", "expires")
    if expires is not None and not isinstance(expires, int):
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "expires is a time in milliseconds")
    expires_us = None if expires is None else expires * 1000
    id_, token = request.access.create_token(str(principal), expires_us)
    return RestReply({"id": id_, "token": token}, 201)


def create_grant(request: RestRequest) -> RestReply:
    """Grant an action on the definitions that a pattern matches."""
    principal, action, pattern, kind = request.fields(
        "principal", "action", "pattern", "externalType"
    )
    id_ = request.access.grant(str(principal), str(action), str(pattern), kind)
    return RestReply({"id": id_}, 201)


def revoke(request: RestRequest) -> RestReply:
    """Take a token or a grant away."""
    request.access.revoke(request.path["id"])
    return RestReply(None, 204)


def _spec_for(request: RestRequest, body: bytes) -> TableSpec:
    request.require("WRITE", request.name)
    spec = checked(TableSpec.of(body.decode("utf-8", "strict")))
    if spec.type != "table":
        request.require("EXTERNAL", request.name, spec.type)
    return spec


def _writable(request: RestRequest) -> Name:
    """Return the name of a definition to be edited; of files it needs more than WRITE."""
    name = request.require("WRITE", request.name)
    found = request.catalog.store.find(name)
    if found is None:
        raise unknown(name)
    if found.type != "table":
        request.require("EXTERNAL", name, found.type)
    return name


def _texts(found: Any) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "columns are a list of names")
    return found


def _change(row: Mapping[str, Any]) -> dict[str, Any]:
    spec = row["spec"]
    return {
        "version": row["version"],
        "name": row["name"],
        "kind": row["kind"],
        "at": row["at_us"] // 1000,
        "by": row["by"],
        "spec": None if spec is None else json.loads(spec),
    }


def _check_location(location: str, roots: tuple[str, ...]) -> None:
    """Refuse a location that is not below a root, compared by parts as it is written."""
    found = _parts(location)
    for root in roots:
        own = _parts(root)
        if found is not None and own is not None and found[: len(own)] == own:
            return
    raise InvalidInputError(
        "PROJSEG_OUTSIDE_ROOTS", f"{location[:200]} is below none of the tenant's roots"
    )


def _parts(location: str) -> tuple[str, ...] | None:
    scheme, mark, rest = location.removeprefix("file://").rpartition("://")
    path = PurePosixPath(rest)
    strange = ("..", ".") if mark else ("..",)
    has_strange = any(part in strange or "%" in part or "\\" in part for part in path.parts)
    is_whole = bool(mark) or path.is_absolute()
    odd = any(letter in location for letter in "?#\0") or "@" in rest or not location.isprintable()
    return None if has_strange or not is_whole or odd else (scheme, *path.parts)

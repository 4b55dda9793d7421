"""What each request of the REST interface does, by the same library that Python uses.

Handlers are plain functions of a `RestRequest`; they open no table and no file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from projseg.catalog.external.allowed_places import check_location
from projseg.catalog.information_schema import view_of, view_rows
from projseg.catalog.rest_request import (
    DEFINITIONS_MAX,
    ROWS_MAX,
    RestReply,
    RestRequest,
    definitions_of,
    filled,
    page_after,
    page_of,
    page_size,
)
from projseg.catalog.spec.spec_edits import drop_of, hide_of, merge_of, move_of
from projseg.catalog.spec.spec_rules import checked
from projseg.catalog.spec.table_spec import TableSpec
from projseg.catalog.store.operations import (
    Begun,
    HideColumns,
    MadeGrant,
    MadePrincipal,
    MadeToken,
    MoveColumn,
    NewGrant,
    NewPrincipal,
    NewSchema,
    NewToken,
    Register,
    Rename,
)
from projseg.catalog.store.store_contract import (
    Change,
    Changes,
    DroppedTable,
    DroppedTables,
    SeenTable,
    Tables,
    check_seen,
    page_token,
)
from projseg.catalog.store.table_metadata import (
    ACTIONS,
    Action,
    parse_name,
)
from projseg.catalog.store.tenant_edits import PAGE
from projseg.catalog.trash import DATA, due_of
from projseg.errors import InvalidInputError

_ACTIONS: Final[dict[str, Action]] = {action.casefold(): action for action in ACTIONS}


def create(request: RestRequest) -> RestReply:
    """Write a whole definition."""
    spec, name = _spec_of(request.whole_body()), request.name
    action, version = _action(request), request.number("version")
    found = request.store.find(name)
    return request.edited(
        lambda own: own.put(name, spec, action, version),
        status=201 if found is None else 200,
    )


def register(request: RestRequest) -> RestReply:
    """Define a table at a location below one of the tenant's roots."""
    asked = request.record(Register)
    whole = _spec_of(bytes(asked.spec))
    check_location(asked.location, request.caller.roots)
    name, action, place = request.name, _action(request), asked.location.removeprefix("file://")
    return request.edited(lambda own: own.register(name, place, whole, action))


def merge(request: RestRequest) -> RestReply:
    """Merge a part of a spec into a definition."""
    name = request.name
    part, version = request.json(), request.number("version")
    return request.edited(lambda own: own.change(name, merge_of(part), version))


def spec_of(request: RestRequest) -> RestReply:
    """Return a spec, unless the client has this version."""
    found = request.definition
    return request.unless_known(str(found.version), found.spec.to_json)


def metadata_of(request: RestRequest) -> RestReply:
    """Return a definition with what the catalog knows of it."""
    found = request.definition
    return request.unless_known(found.tag, found.to_json)


def drop(request: RestRequest) -> RestReply:
    """Drop a definition; its files are removed by `gc`, with rights that a server lacks."""
    name, data = request.name, request.query.get("data", "keep")
    if data not in DATA:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", f"data is one of {', '.join(DATA)}")
    due_us = due_of(data)
    version, removes = request.number("version"), data != "keep"
    try:
        return request.edited(
            lambda own: own.store.remove(name, due_us, removes_files=removes, version=version),
            status=202 if data == "now" else 204,
        )
    except InvalidInputError as error:
        if error.code == "PROJSEG_UNKNOWN_TABLE" and request.flag("ifExists"):
            return RestReply(None, 204)
        raise


def move_column(request: RestRequest) -> RestReply:
    """Move a declared column."""
    name, asked = request.name, msgspec.structs.astuple(request.record(MoveColumn))
    return request.edited(lambda own: own.change(name, move_of(*asked)))


def drop_columns(request: RestRequest) -> RestReply:
    """Declare columns no longer."""
    name, columns = request.name, request.record(list[str])
    return request.edited(lambda own: own.change(name, drop_of(columns)))


def hide_columns(request: RestRequest) -> RestReply:
    """Hide columns, and show others again, in one edit."""
    name, asked = request.name, request.record(HideColumns)
    edit = hide_of(asked.hide or (), asked.unhide or ())
    return request.edited(lambda own: own.change(name, edit))


def rename(request: RestRequest) -> RestReply:
    """Give a definition another name."""
    asked = request.record(Rename)
    source, target = parse_name(asked.source), parse_name(asked.target)
    return request.edited(lambda own: own.rename(source, target))


def history(request: RestRequest) -> RestReply:
    """Return who changed a definition."""
    after, _ = page_after(request, (-1, ""))
    rows, is_all = request.store.changes_page(after, request.definition.id)
    return RestReply(_changes(request, rows, is_all))


def changes(request: RestRequest) -> RestReply:
    """Return what changed after a version, of what the caller may read."""
    granted = str(request.caller.since)
    since, known = page_after(request, (request.number("since") or 0, granted))
    is_first = "pageToken" not in request.query
    if known != granted or (is_first and 0 < since < request.caller.since):
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_VERSION", "grants changed since then; list the definitions anew"
        )
    # The head first: what is committed in between is then sent twice, and never left out.
    head, epoch = request.store.head(), request.store.epoch()
    rows, is_all = request.store.changes_page(since)
    return RestReply(_changes(request, rows, is_all, head, epoch))


def table_names(request: RestRequest) -> RestReply:
    """Return names of definitions, a page at a time."""
    found, token = page_of(request)
    is_one = "ns" in request.path
    return RestReply(
        {"names": [one.name if is_one else str(one) for one in found], "nextPageToken": token}
    )


def tables(request: RestRequest) -> RestReply:
    """Return definitions of a namespace, a page at a time."""
    texts = ((one.to_json().encode(), one.full_name.folded) for one in definitions_of(request))
    rows = ((msgspec.Raw(text), len(text), page_token(key)) for text, key in texts)
    return RestReply(Tables(*filled(rows, page_size(request, DEFINITIONS_MAX))))


def schema_names(request: RestRequest) -> RestReply:
    """Return the names of all namespaces, a page at a time."""
    found, token = _schemas(request)
    return RestReply({"names": [one["name"] for one in found], "nextPageToken": token})


def schemas(request: RestRequest) -> RestReply:
    """Return all namespaces, a page at a time."""
    found, token = _schemas(request)
    return RestReply({"schemas": found, "nextPageToken": token})


def _schemas(request: RestRequest) -> tuple[list[dict[str, Any]], str | None]:
    size, (after, _) = page_size(request, PAGE), page_after(request, ("", ""))
    found, is_all = request.store.namespaces_page(after, size + 1)
    shown = found[:size]
    is_last = is_all and len(shown) == len(found)
    return shown, None if is_last else page_token((shown[-1]["name"].casefold(), ""))


def schema_of(request: RestRequest) -> RestReply:
    """Return a namespace."""
    wanted = request.path["ns"]
    found = request.store.namespace(wanted)
    if found is None:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_NAMESPACE", f"there is no namespace '{wanted[:80]}'"
        )
    return RestReply(found)


def create_schema(request: RestRequest) -> RestReply:
    """Make a namespace."""
    name, asked = request.path["ns"], request.record(NewSchema)
    return request.edited(lambda own: own.create_namespace(name, asked.comment, asked.properties))


def drop_schema(request: RestRequest) -> RestReply:
    """Drop a namespace."""
    name, cascade = request.path["ns"], request.flag("cascade")
    return request.edited(lambda own: own.drop_namespace(name, cascade))


def trash(request: RestRequest) -> RestReply:
    """Return dropped definitions, a page at a time."""
    size, after = page_size(request, DEFINITIONS_MAX), page_after(request, (-1, ""))
    dropped = request.store.trash(page=size + 1, after=after)
    rows = (
        (
            DroppedTable(
                id=found.id,
                name=str(found.full_name),
                deleted_at=found.updated_us // 1000,
                due_at=due // 1000,
                removes_files=removes,
                table=msgspec.Raw(text),
            ),
            len(text),
            page_token((found.version, found.id)),
        )
        for found, due, removes in dropped
        if request.caller.may("READ", found.full_name)
        for text in (found.to_json().encode(),)
    )
    return RestReply(DroppedTables(*filled(rows, size)))


def undrop(request: RestRequest) -> RestReply:
    """Bring a dropped definition back."""
    found = request.definition
    return request.edited(lambda own: own.undrop(found.full_name, found.id))


def stage(request: RestRequest) -> RestReply:
    """Make a definition without a name, whose first rows a client is writing."""
    spec, name = _spec_of(request.whole_body()), request.name
    return request.edited(lambda own: own.stage(name, spec), lambda found: found.to_json())


def publish(request: RestRequest) -> RestReply:
    """Give a staged definition its name."""
    found, replaces = request.definition, request.flag("replace")
    return request.edited(lambda own: own.publish(found.id, replace=replaces))


def discard(request: RestRequest) -> RestReply:
    """Forget a staged definition."""
    return request.edited(lambda own: own.store.discard(request.definition.id))


def begin_removal(request: RestRequest) -> RestReply:
    """Mark a dropped definition whose files the client is about to remove."""
    return request.edited(
        lambda own: own.store.begin_removal(request.definition.id),
        Begun,
    )


def forget(request: RestRequest) -> RestReply:
    """Remove a dropped definition whose files are gone, or stay."""
    return request.edited(lambda own: own.store.forget(request.definition.id))


def record(request: RestRequest) -> RestReply:
    """Write what a client saw of a definition's table; the definition's version stays."""
    seen = request.record(SeenTable)
    check_seen(seen)
    facts = msgspec.structs.asdict(seen)
    if seen.stored_status is None:
        del facts["stored_status"]  # what was counted before stays
    return request.edited(lambda own: own.store.record(request.definition.id, **facts))


def config(request: RestRequest) -> RestReply:
    """Return what a client needs to know."""
    caller = request.caller
    return RestReply(
        {
            "tenant": caller.tenant,
            "principal": caller.principal,
            "admin": caller.is_admin,
            "warehouse": request.places.warehouse,
            "roots": caller.roots,
            "epoch": request.store.epoch(),
            "head": request.store.head(),
        }
    )


def information_schema(request: RestRequest) -> RestReply:
    """Return rows of a view of `information_schema`, a page of definitions at a time."""
    view = view_of(request.path["view"])
    tenant = request.caller.tenant
    if view == "schemata":
        found, token = _schemas(request)
        return RestReply({"rows": list(view_rows(view, tenant, found)), "nextPageToken": token})
    texts = (
        (msgspec.json.encode(list(view_rows(view, tenant, [one])))[1:-1], one.full_name.folded)
        for one in definitions_of(request)
    )
    pages = ((text, len(text), page_token(key)) for text, key in texts)
    shown, token = filled(pages, page_size(request, DEFINITIONS_MAX))
    rows = msgspec.Raw(b"[%b]" % b",".join(filter(None, shown)))
    return RestReply({"rows": rows, "nextPageToken": token})


def flush(request: RestRequest) -> RestReply:
    """Forget all definitions that were read."""
    return request.edited(lambda own: own.flush())


def _listed_access(what: str) -> Callable[[RestRequest], RestReply]:
    """Return the handler that lists `principals`, `tokens` or `grants`."""

    def listed(request: RestRequest) -> RestReply:
        """List who may use the catalog."""
        size, after = page_size(request, ROWS_MAX), page_after(request, ("", ""))
        rows = request.store.access().listed(
            what, request.query.get("principal"), after=after, most=size + 1
        )
        keys = (
            (row["name"], row["name"]) if what == "principals" else (row["principal"], row["id"])
            for row in rows
        )
        items, token = filled(
            ((row, 0, page_token(key)) for row, key in zip(rows, keys, strict=True)), size
        )
        return RestReply({"items": items, "nextPageToken": token})

    return listed


principals, tokens, grants = map(_listed_access, ("principals", "tokens", "grants"))


def create_principal(request: RestRequest) -> RestReply:
    """Make a principal."""
    asked = request.record(NewPrincipal)
    return request.edited(
        lambda own: own.store.access().create_principal(asked.name, asked.admin),
        lambda _: MadePrincipal(asked.name),
    )


def drop_principal(request: RestRequest) -> RestReply:
    """Drop a principal with its tokens and grants."""
    return request.edited(lambda own: own.store.access().drop_principal(request.path["id"]))


def create_token(request: RestRequest) -> RestReply:
    """Make a token, the only time that it is seen: its reply is not kept."""
    asked = request.record(NewToken)
    try:
        until = None if asked.expires is None else datetime.fromtimestamp(asked.expires / 1000, UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", f"expires: {error}") from error
    return request.edited(
        lambda own: own.store.access().create_token(asked.principal, until),
        lambda made: MadeToken(*made),
    )


def create_grant(request: RestRequest) -> RestReply:
    """Grant an action on the definitions that a pattern matches."""
    asked = msgspec.structs.astuple(request.record(NewGrant))
    return request.edited(lambda own: own.store.access().grant(*asked), MadeGrant)


def revoke(request: RestRequest) -> RestReply:
    """Take a token or a grant away."""
    return request.edited(lambda own: own.store.access().revoke(request.path["id"]))


def _spec_of(body: bytes) -> TableSpec:
    return checked(TableSpec.of(body.decode("utf-8", "strict")))


def _action(request: RestRequest) -> Action:
    found = _ACTIONS.get(request.query.get("action", "New").casefold())
    if found is None:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "action is New, IfNew, Replace or Force")
    return found


def _changes(
    request: RestRequest,
    rows: Sequence[Mapping[str, Any]],
    is_all: bool,
    head: int | None = None,
    epoch: str | None = None,
) -> Changes:
    """Return a page of changes, of namespaces and of names that the caller may read."""
    allowed = request.caller.allowed("READ", [row["name"] for row in rows])
    shown = [
        Change.of(row)
        for row, is_readable in zip(rows, allowed, strict=True)
        if (is_readable if row["definition"] else str(row["kind"]).endswith("namespace"))
    ]
    key = None if is_all else (rows[-1]["version"], str(request.caller.since))
    return Changes(shown, head, epoch, key and page_token(key))

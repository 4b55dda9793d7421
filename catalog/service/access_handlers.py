"""Requests for principals, tokens and grants; for admins of a tenant."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from projseg.catalog.service.rest_request import RestReply, RestRequest
from projseg.errors import InvalidInputError


def listed_access(what: str) -> Callable[[RestRequest], RestReply]:
    """Return the handler that lists `principals`, `tokens` or `grants`."""

    def listed(request: RestRequest) -> RestReply:
        return RestReply({"items": request.access.listed(what, request.query.get("principal"))})

    return listed


def create_principal(request: RestRequest) -> RestReply:
    """Make a principal."""
    name, admin = request.fields("name", "admin")
    request.require_admin()
    return request.edited(
        lambda _: request.access.create_principal(str(name), admin is True),
        lambda _: RestReply({"name": name}, 201),
    )


def drop_principal(request: RestRequest) -> RestReply:
    """Drop a principal with its tokens and grants."""
    request.require_admin()
    return request.edited(
        lambda _: request.access.drop_principal(request.path["id"]), lambda _: RestReply(None, 204)
    )


def create_token(request: RestRequest) -> RestReply:
    """Make a token, the only time that it is seen: its reply is not kept."""
    principal, expires = request.fields("principal", "expires")
    if expires is not None and type(expires) is not int:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "expires is a time in milliseconds")
    try:
        until = None if expires is None else datetime.fromtimestamp(expires / 1000, UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", f"expires: {error}") from error
    id_, token = request.access.create_token(str(principal), until)
    return RestReply({"id": id_, "token": token}, 201)


def create_grant(request: RestRequest) -> RestReply:
    """Grant an action on the definitions that a pattern matches."""
    principal, action, pattern, kind = request.fields(
        "principal", "action", "pattern", "externalType"
    )
    request.require_admin()
    return request.edited(
        lambda _: request.access.grant(str(principal), str(action), str(pattern), kind),
        lambda made: RestReply({"id": made}, 201),
    )


def revoke(request: RestRequest) -> RestReply:
    """Take a token or a grant away."""
    request.access.revoke(request.path["id"])
    return RestReply(None, 204)

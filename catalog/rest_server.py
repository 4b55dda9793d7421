"""The REST interface as an ASGI application, and the server that runs it."""

from __future__ import annotations

import hashlib
import logging
import unicodedata
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

import anyio
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from projseg.catalog import rest_handlers
from projseg.catalog.rest_limits import Turns, body_of, limited, send_reply
from projseg.catalog.rest_request import RestReply, RestRequest
from projseg.catalog.store.access_store import caller_of
from projseg.catalog.store.databases import Database
from projseg.catalog.store.definition_store import DefinitionStore
from projseg.catalog.store.grants import Caller
from projseg.catalog.store.kept_replies import RepeatedRequestError, RequestKey
from projseg.catalog.store.operations import OPERATIONS
from projseg.catalog.store.rest_client import BASE
from projseg.errors import (
    CatalogConflictError,
    InvalidInputError,
    PermissionDeniedError,
    ProjsegError,
    UnsupportedFeatureError,
    http_status,
)

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from projseg.catalog.catalog import Catalog

LOGGER: Final = logging.getLogger("projseg.catalog")
_OF_DATABASE: Final = {
    "PROJSEG_CATALOG_UNAVAILABLE": "the catalog's database does not answer; nothing was changed: "
    "ask again later",
    "PROJSEG_CATALOG_STATE_UNKNOWN": "the catalog's database was lost while it committed; read the "
    "definition before you edit it again",
    "PROJSEG_CATALOG_NEEDS_MIGRATION": "the catalog's database is of an older release than its "
    "server; whoever runs it migrates it",
    "PROJSEG_UNSUPPORTED_CATALOG_VERSION": "the catalog's database is of a later release than its "
    "server; whoever runs it updates that",
}
"""What clients read of the database: not where it is. The log has the rest."""
_KEY_CHARACTERS_MAX: Final = 200
_TOKEN_CHARACTERS_MAX: Final = 200
_THREADS: Final = 12
"""Requests at once: as many as connections of the database's pool."""


def application(catalog: Catalog) -> Starlette:
    """Return the ASGI application over a catalog's database, for all its tenants.

    The tenant, user and external places of `catalog` are not used.
    """
    database = _database(catalog)
    database.close()
    database.pool_size = _THREADS
    limiter: list[anyio.CapacityLimiter] = []

    async def run(function: Callable[..., Response], *given: Any) -> Response:
        if not limiter:
            limiter.append(anyio.CapacityLimiter(_THREADS))
        return await anyio.to_thread.run_sync(function, *given, limiter=limiter[0])

    turns = Turns()
    routes = [Route(f"{BASE}/health", _Health(catalog, run), methods=["GET"])]
    routes += [
        Route(BASE + path, _Endpoint(catalog, run, turns, name), methods=[operation.method])
        for name, operation in OPERATIONS.items()
        for path in operation.paths
    ]
    made = Starlette(routes=routes, exception_handlers={HTTPException: _unknown})
    made.router.redirect_slashes = False  # a redirect repeats what the Host header says
    return made


class _Health:
    """Answers, without a token, whether the database does."""

    def __init__(self, catalog: Catalog, run: Callable[..., Awaitable[Response]]) -> None:
        self._catalog, self._run = catalog, run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_reply(await self._run(self._answer), send)

    def _answer(self) -> Response:
        try:
            self._catalog.store.head()
        except ProjsegError as error:
            return _error(error)
        return JSONResponse({"status": "ok"})


class _Endpoint:
    """One route: the token first, then the tenant's turn, the body, the answer."""

    def __init__(
        self,
        catalog: Catalog,
        run: Callable[..., Awaitable[Response]],
        turns: Turns,
        name: str,
    ) -> None:
        self._catalog, self._run, self._turns, self._name = catalog, run, turns, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        http = HttpRequest(scope, receive)
        known: list[Caller] = []
        if {"content-length", "transfer-encoding"} <= set(http.headers):
            await send_reply(_two_lengths(), send)
            return
        refused = await self._run(_enter, self._catalog, http, known)
        if not known:
            await send_reply(refused, send)
            return
        try:
            async with self._turns.of(known[0].tenant):
                body = await body_of(http)
                found = await self._run(_answer, self._catalog, self._name, http, known[0], body)
                await send_reply(found, send)
        except ProjsegError as error:
            refused = _error(error)
            refused.headers["Connection"] = "close"  # the body is not read
            await send_reply(refused, send)


def _two_lengths() -> Response:
    """Return the reply to a request whose end others may see elsewhere; its connection ends."""
    refused = InvalidInputError(
        "PROJSEG_BAD_ARGUMENT",
        "a request has Content-Length or Transfer-Encoding, not both",
    )
    reply = _error(refused)
    reply.headers["Connection"] = "close"
    return reply


def serve(
    catalog: Catalog,
    host: str = "127.0.0.1",
    port: int = 8181,
    *,
    certificate: str | None = None,
    key: str | None = None,
    is_insecure: bool = False,
) -> None:
    """Serve a catalog until the process is interrupted.

    Parameters
    ----------
    host, port : str, int
        Where; another host than this machine needs a certificate.
    is_insecure : bool
        Whether another host may be served without.
    """
    import uvicorn

    is_own = host in ("127.0.0.1", "::1", "localhost")
    if not is_own and not is_insecure and (certificate is None or key is None):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"host {host} is reached by others, and tokens would travel in clear; give a "
            "certificate and its key, or say that it is insecure",
        )
    catalog.store.head()
    config = limited(
        application(catalog),
        host,
        port,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        log_level="warning",
        access_log=False,
    )
    uvicorn.Server(config).run()


def _enter(catalog: Catalog, http: HttpRequest, known: list[Caller]) -> Response:
    """Put whoever asks into a list, or return the refusal."""
    try:
        known.append(caller_of(_database(catalog), _token(http)))
    except ProjsegError as error:
        return _error(error)
    return Response()


def _answer(
    catalog: Catalog,
    name: str,
    http: HttpRequest,
    caller: Caller,
    body: bytes,
) -> Response:
    request: RestRequest | None = None
    try:
        _check_address(http)
        key = _key(http, body, caller)
        if key is not None:
            with _database(catalog).reading() as connection:
                kept = key.reply(connection)
            if kept is not None:
                return _response(RestReply(kept.content, kept.status))
        store = DefinitionStore(_database(catalog), caller.tenant, caller.principal, caller=caller)
        request = RestRequest(
            OPERATIONS[name],
            store,
            catalog.places.of_store(store, caller.warehouse),
            caller,
            http.path_params,
            http.query_params,
            body,
            _known_tags(http),
            key,
        ).judged()
        handler: Callable[[RestRequest], RestReply] = getattr(rest_handlers, name)
        return _response(handler(request))
    except RepeatedRequestError as repeated:
        return _response(RestReply(repeated.reply.content, repeated.reply.status))
    except ProjsegError as error:
        return _error(error, version=_version_of(error, request))
    except UnicodeDecodeError:
        return _error(InvalidInputError("PROJSEG_BAD_SPEC", "$: the body is not UTF-8"))


def _check_address(http: HttpRequest) -> None:
    """Refuse a path or parameter with control characters, or that is not UTF-8."""
    for part in (http.scope["raw_path"], http.scope["query_string"]):
        try:
            text = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            text = "\0"
        if any(unicodedata.category(letter) == "Cc" for letter in text):
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                "the address holds a control character, or what is not UTF-8, as %-escapes",
            )


def _known_tags(http: HttpRequest) -> tuple[str, ...]:
    """Return the tags of the replies that the client has; `*` is any."""
    stated = ",".join(http.headers.getlist("if-none-match"))
    return tuple(tag.strip().removeprefix("W/") for tag in stated.split(",") if tag.strip())


def _key(http: HttpRequest, body: bytes, caller: Caller) -> RequestKey | None:
    """Return by what an edit is known again, with a digest of all that it says."""
    key = http.headers.get("idempotency-key")
    if key is None or http.method == "GET":
        return None
    if not key or len(key) > _KEY_CHARACTERS_MAX or not key.isprintable():
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"an Idempotency-Key has 1 to {_KEY_CHARACTERS_MAX} printable characters",
        )
    said = "\n".join((http.method, http.url.path, http.url.query)).encode() + b"\n" + body
    return RequestKey(caller.tenant, caller.principal, key, hashlib.sha256(said).hexdigest())


def _token(http: HttpRequest) -> str:
    scheme, _, token = http.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or len(token) > _TOKEN_CHARACTERS_MAX:
        raise PermissionDeniedError("PROJSEG_BAD_TOKEN", "no token; send Authorization: Bearer ...")
    return token.strip()


def _database(catalog: Catalog) -> Database:
    """Return the database of a catalog that is served, which is behind no server itself."""
    if not isinstance(catalog.store, DefinitionStore):
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_STORAGE",
            f"catalog {catalog.store.database} has no database that could be served",
        )
    return catalog.store.database


def _response(reply: RestReply) -> Response:
    headers = {} if reply.tag is None else {"ETag": f'"{reply.tag}"'}
    if reply.content is None:
        return Response(status_code=reply.status, headers=headers)
    is_text = isinstance(reply.content, str)
    content = reply.content if is_text else msgspec.json.encode(reply.content)
    return Response(content, reply.status, headers, "application/json")


def _version_of(error: ProjsegError, request: RestRequest | None) -> int | None:
    """Return the version that an edit in conflict met."""
    if not isinstance(error, CatalogConflictError) or request is None or "ns" not in request.path:
        return None
    found = request.store.find(request.name)
    return None if found is None else found.version


async def _unknown(http: HttpRequest, error: Exception) -> Response:
    """Return the reply to a request that is none of the routes."""
    asked, known = f"{http.method} {http.url.path}", "docs/catalog-rest.json lists all"
    refused = InvalidInputError("PROJSEG_BAD_ARGUMENT", f"there is no {asked}; {known}")
    return _error(refused, getattr(error, "status_code", 404))


def _error(error: ProjsegError, status: int | None = None, version: int | None = None) -> Response:
    found = status or http_status(error)
    message = _OF_DATABASE.get(error.code, error.message)
    if found == 500 or message != error.message:
        LOGGER.error("a request failed: %s", error)
    content = {
        "code": error.code,
        "type": type(error).__name__,
        "message": message,
        "status": found,
        "version": version,
    }
    headers = {"Retry-After": "1"} if found == 503 else {}
    if found == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": content}, found, headers)

"""Requests to a catalog's server: sent again after a lost connection, and errors as they were.

So are those for principals, tokens and grants of a tenant behind the server.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from projseg.catalog.store.operations import (
    OPERATIONS,
    MadeGrant,
    MadeToken,
    NewGrant,
    NewPrincipal,
    NewToken,
    Version,
)
from projseg.catalog.store.store_contract import CatalogAdmin, milliseconds_of
from projseg.errors import (
    CatalogError,
    CatalogStateUnknownError,
    CatalogUnavailableError,
    InvalidInputError,
    PermissionDeniedError,
    ProjsegError,
    UnsupportedFeatureError,
    error_class,
)
from projseg.extras import require

if TYPE_CHECKING:
    import urllib3

BASE: Final = "/v1/catalog"
TOKEN_ENVIRONMENT: Final = "PROJSEG_CATALOG_TOKEN"  # noqa: S105 - a name
_RANDOM: Final = random.SystemRandom()
_LONGEST_PAUSE_SECONDS: Final = 1.0
_TIMEOUT_SECONDS_MAX: Final = 3600  # far below the day for which the server keeps replies
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_SENT_AGAIN: Final = (502, 503, 504)
_Query = Mapping[str, str | int | None]
R = TypeVar("R")

_EXPECTED: Final = (CatalogError, InvalidInputError, PermissionDeniedError, UnsupportedFeatureError)


class _Page(msgspec.Struct, rename="camel"):
    """What all pages of lists have."""

    next_page_token: str | None = None


class _Items(msgspec.Struct):
    """A page of principals, tokens or grants."""

    items: list[dict[str, Any]]


class Received(NamedTuple):
    """A reply: its status, its body, and the tag of that."""

    status: int
    content: bytes
    tag: str | None

    def record(self, form: type[R]) -> R:
        """Return the body as a record."""
        decode: Callable[[bytes], R] = partial(msgspec.json.decode, type=form)
        return decoded(self.content, decode)

    @property
    def version(self) -> int:
        """The version that an edit made."""
        return self.record(Version).version


class RestConnection:
    """The connections to one server, `https://host[:port][/path]`; picklable, without them.

    `http://` is only for this machine, as the token, the environment's without one, is in clear.
    `timeout` has the seconds to wait for the server, over all repetitions; at most an hour.
    """

    path: Path | None = None
    is_missing = False

    def __init__(self, uri: str, token: str | None, timeout: float) -> None:
        require("urllib3", "a catalog behind a server")
        parts = urlsplit(uri)
        token = os.environ.get(TOKEN_ENVIRONMENT) if token is None else token
        if parts.username or parts.password or parts.query or parts.fragment or not parts.hostname:
            raise _bad("a server's address is https://host[:port][/path], without a password")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise _bad(f"the token would reach {parts.hostname} in clear; use https://")
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise _bad(f"a server asks for a token; give one, or set {TOKEN_ENVIRONMENT}")
        self.uri, self.timeout = uri, min(timeout, _TIMEOUT_SECONDS_MAX)
        self._address = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}{BASE}"
        self._token = token
        self._pool: tuple[int, urllib3.PoolManager] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}

    def __repr__(self) -> str:
        return self.uri

    def close(self) -> None:
        """Close all connections; the next request opens others."""
        if self._pool is not None and self._pool[0] == os.getpid():
            self._pool[1].clear()
        self._pool = None

    def make(self) -> None:
        """Ask whether the server is there: the catalog is its own affair."""
        self.call("config")

    def _refuse(self, *_: object) -> NoReturn:
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_STORAGE",
            f"catalog {self} is behind a server; do it with the address of the server's database",
        )

    migrate = copy_to = restore_from = _refuse

    def call(
        self,
        operation: str,
        *parts: str,
        body: Any = None,
        query: _Query | None = None,
        tag: str | None = None,
    ) -> Received:
        """Send a request of `OPERATIONS` until it is answered; the server does an edit once.

        Parts are the names in its path; the body JSON's values or JSON as bytes; a parameter that
        is None is left out; 304 confirms the reply of a tag. Raises what the server raised,
        CatalogUnavailableError if it does not answer and nothing was changed, and
        CatalogStateUnknownError if an edit was sent and none of its repetitions had an answer.
        """
        import urllib3

        asked = OPERATIONS[operation]
        verb, path = asked.method, asked.address(parts)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if tag is not None:
            headers["If-None-Match"] = tag
        if verb != "GET":
            headers["Idempotency-Key"] = uuid.uuid4().hex
        content = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        given = {key: text for key, text in (query or {}).items() if text is not None}
        address = f"{self._address}{path}{'?' if given else ''}{urlencode(given)}"
        deadline, tries, may_be_done = time.monotonic() + self.timeout, 0, False
        while True:
            left = max(0.05, deadline - time.monotonic())
            try:
                found = self._own_pool().request(
                    verb,
                    address,
                    body=content,
                    headers=headers,
                    retries=False,
                    redirect=False,
                    timeout=left,
                )
            except (urllib3.exceptions.HTTPError, OSError) as error:
                was_sent = not isinstance(error, _not_sent())
                may_be_done = may_be_done or (was_sent and verb != "GET")
                problem: ProjsegError = self._unanswered(
                    f"{type(error).__name__}: {error}"[:300], may_be_done
                )
            else:
                if found.status not in _SENT_AGAIN:
                    return self._answered(found)
                problem = self._problem(found.status, found.data)
                if isinstance(problem, CatalogStateUnknownError):
                    may_be_done = True
                elif may_be_done:
                    problem = self._unanswered(problem.message, may_be_done)
            tries += 1
            pause = _RANDOM.uniform(0, min(_LONGEST_PAUSE_SECONDS, 0.02 * 2**tries))
            if time.monotonic() + pause > deadline:
                raise problem
            time.sleep(pause)

    def _answered(self, found: Any) -> Received:
        if found.status < 300 or found.status == 304:
            return Received(found.status, found.data, found.headers.get("ETag"))
        raise self._problem(found.status, found.data)

    def _problem(self, status: int, content: bytes) -> ProjsegError:
        """Return the error that a reply is, of the class that the server raised."""
        try:
            stated = json.loads(content)["error"]
            code, message, name = (str(stated[key]) for key in ("code", "message", "type"))
        except (ValueError, TypeError, KeyError, RecursionError):
            return CatalogUnavailableError(
                "PROJSEG_CATALOG_UNAVAILABLE",
                f"{self} answered {status}, and not as a catalog's server does; check the address",
            )
        made = error_class(name)
        is_expected = made is not None and issubclass(made, _EXPECTED)
        return (made if is_expected and made else CatalogError)(code, message)

    def _unanswered(self, cause: str, may_be_done: bool) -> CatalogError:
        if may_be_done:
            return CatalogStateUnknownError(
                "PROJSEG_CATALOG_STATE_UNKNOWN",
                f"catalog {self} got an edit and did not answer ({cause}); read the definition "
                "before you edit it again",
            )
        return CatalogUnavailableError(
            "PROJSEG_CATALOG_UNAVAILABLE",
            f"catalog {self} does not answer: {cause}; tables can be used by path",
        )

    def _own_pool(self) -> urllib3.PoolManager:
        """Return this process's connections: none is for a forked child."""
        import urllib3

        if self._pool is None or self._pool[0] != os.getpid():
            self._pool = (os.getpid(), urllib3.PoolManager(num_pools=1, maxsize=8))
        return self._pool[1]


def _not_sent() -> tuple[type[Exception], ...]:
    """Return the errors after which a server certainly has nothing of a request."""
    from urllib3 import exceptions

    return (
        exceptions.NewConnectionError,
        exceptions.NameResolutionError,
        exceptions.ConnectTimeoutError,
        exceptions.SSLError,
    )


def decoded(content: bytes, decode: Callable[[bytes], R]) -> R:
    """Return what the content of a reply is."""
    try:
        return decode(content)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise CatalogUnavailableError(
            "PROJSEG_CATALOG_UNAVAILABLE",
            f"the catalog's server answered as none of this release does: {str(error)[:200]}",
        ) from error


def pages(
    call: Callable[..., Received], operation: str, *parts: str, query: _Query | None = None
) -> Iterator[Received]:
    """Yield the replies that have the pages of a list, by the token that each has for the next."""
    token: str | None = ""
    while token is not None:
        reply = call(operation, *parts, query={**(query or {}), "pageToken": token or None})
        yield reply
        token = reply.record(_Page).next_page_token


def _bad(problem: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_ARGUMENT", problem)


class RestAccess(CatalogAdmin):
    """Who may use a catalog, asked of its server; for admins of the tenant."""

    def __init__(self, call: Callable[..., Received]) -> None:
        self._call = call

    def create_tenant(
        self, name: str, warehouse: str | None = None, roots: Sequence[str] = ()
    ) -> None:
        """Refuse: tenants are made by whoever has the database."""
        raise _beside_the_server()

    def tenants(self) -> list[dict[str, Any]]:
        """Refuse: nobody sees another tenant through a server."""
        raise _beside_the_server()

    def create_principal(self, name: str, admin: bool = False) -> None:
        """Make a principal."""
        self._call("create_principal", body=NewPrincipal(name, admin))

    def drop_principal(self, name: str) -> None:
        """Drop a principal with its tokens and grants."""
        self._call("drop_principal", name)

    def create_token(
        self, principal: str, expires: datetime.datetime | None = None
    ) -> tuple[str, str]:
        """Make a token, and return its id and itself, which nobody sees again."""
        body = NewToken(principal, milliseconds_of(expires))
        made = self._call("create_token", body=body).record(MadeToken)
        return made.id, made.token

    def grant(
        self, principal: str, action: str, pattern: str, external_type: str | None = None
    ) -> str:
        """Grant an action on all definitions whose `namespace.name` a pattern matches."""
        body = NewGrant(principal, action, pattern, external_type)
        return self._call("create_grant", body=body).record(MadeGrant).id

    def revoke(self, id: str) -> None:
        """Take a token or a grant away; one that is not there stays away."""
        self._call("revoke", id)

    def listed(self, what: str, principal: str | None = None) -> list[dict[str, Any]]:
        """Return `principals`, `tokens` (never themselves) or `grants`."""
        replies = pages(self._call, what, query={"principal": principal})
        return [one for page in replies for one in page.record(_Items).items]


def _beside_the_server() -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        "PROJSEG_UNSUPPORTED_STORAGE",
        "tenants are seen and made by whoever has the server's database, not through the server",
    )

"""What the server bears of any one: connections without a request, long bodies, slow readers.

| bound | of what |
|---|---|
| `CONNECTIONS_MAX` | connections; beyond it the one that waited longest for a request ends |
| `HEADER_SECONDS` | the headers of a request, from their first byte or that of the connection |
| `BODY_SECONDS`, `SPEC_BYTES_MAX` | the body, which is read after the token was found right |
| `REPLY_SECONDS` | the reply, until the client has taken it |
| `AT_ONCE`, `WAITING_MAX` | requests of a tenant at work, and those that wait for them |
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from projseg.catalog.spec.table_spec import SPEC_BYTES_MAX
from projseg.errors import CatalogError, InvalidInputError, LimitExceededError

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp, Send

CONNECTIONS_MAX: Final = 500
HEADER_SECONDS: Final = 10.0
BODY_SECONDS: Final = 30.0
REPLY_SECONDS: Final = 60.0
AT_ONCE: Final = 8
WAITING_MAX: Final = 64
_PIECE_BYTES: Final = 1 << 18


class Turns:
    """The requests at once of each tenant, which leave threads and memory to the others."""

    def __init__(self) -> None:
        self._of: dict[str, anyio.CapacityLimiter] = {}

    @asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[None]:
        """Wait for a tenant's turn, and hold it."""
        own = self._of.setdefault(tenant, anyio.CapacityLimiter(AT_ONCE))
        if own.statistics().tasks_waiting >= WAITING_MAX:
            raise CatalogError(
                "PROJSEG_CATALOG_BUSY",
                f"{AT_ONCE} requests of the tenant are at work and {WAITING_MAX} wait; ask again "
                "when some are answered",
            )
        try:
            async with own:
                yield
        finally:
            found = own.statistics()
            if not found.borrowed_tokens and not found.tasks_waiting:
                self._of.pop(tenant, None)


async def body_of(http: HttpRequest) -> bytes:
    """Return the body of a request whose sender is known."""
    too_long = LimitExceededError(
        "PROJSEG_LIMIT_EXCEEDED", f"a body has at most {SPEC_BYTES_MAX} bytes; send less"
    )
    stated = http.headers.get("content-length", "0")
    if stated.isdecimal() and int(stated[:20]) > SPEC_BYTES_MAX:
        raise too_long
    body = bytearray()
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for part in http.stream():
                body += part
                if len(body) > SPEC_BYTES_MAX:
                    raise too_long
    except TimeoutError as error:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"the body did not arrive in {BODY_SECONDS:g} seconds"
        ) from error
    return bytes(body)


async def send_reply(response: Response, send: Send) -> None:
    """Send a reply in pieces, each when the client has taken those before it.

    A client that takes too long loses its connection.
    """
    start = {"type": "http.response.start", "status": response.status_code}
    body, more = memoryview(response.body), True
    with anyio.move_on_after(REPLY_SECONDS):
        await send({**start, "headers": response.raw_headers})
        while more:
            piece, body = bytes(body[:_PIECE_BYTES]), body[_PIECE_BYTES:]
            more = len(body) > 0
            await send({"type": "http.response.body", "body": piece, "more_body": more})


class LimitedConnection(H11Protocol):
    """A connection that ends if no request comes, or its reply is not taken."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request; end another connection if there are too many."""
        super().connection_made(transport)
        self.waits_since = self.loop.time()
        self._awaited: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._watch()
        if len(self.connections) > CONNECTIONS_MAX:
            self._longest_waiting().transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        for timer in (self._awaited, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive data, which may end the headers of one request and begin those of another."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.waits_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Stop sending until the client has received what was sent."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(REPLY_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Continue sending: the client has received what was sent."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        """Give the headers of the next request their time, from their first byte."""
        if not self.is_waiting and self._awaited is not None:
            self._awaited.cancel()
            self._awaited = None
        elif self.is_waiting and self._awaited is None:
            self._awaited = self.loop.call_later(HEADER_SECONDS, self._end_unless_answering)

    def _end_unless_answering(self) -> None:
        self._awaited = None
        if self.is_waiting:
            self.transport.abort()

    def _longest_waiting(self) -> LimitedConnection:
        """Return the connection that waits longest for a request; this one if none does."""
        others = (one for one in self.connections if one is not self)
        waiting: list[Any] = [one for one in others if one.is_waiting]  # type: ignore[union-attr]
        found: LimitedConnection = min(waiting, key=lambda one: one.waits_since, default=self)
        return found


def limited(application: ASGIApp, host: str, port: int, **more: Any) -> Config:
    """Return how an application is served within these bounds."""
    return Config(application, host=host, port=port, http=LimitedConnection, ws="none", **more)

"""Who may ask the page: the token, the Host header, and requests that other pages forge.

A browser on this machine visits hostile pages, too, so a loopback address protects nothing.
"""

from __future__ import annotations

import hmac
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MAX: Final = 128 << 10
_LOOPBACK: Final = ("127.0.0.1", "localhost")
_SAFE: Final = ("GET", "HEAD")
_HTTP: Final = 80
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HOW_IN: Final = (
    "Open the address with ?token= that `projseg ui` printed, or send the token as Bearer."
)
_FORGED: Final = "This request does not come from the page itself."


class Guard:
    """Lets requests through to an application that come from who has the token.

    Cookies are named by the port, as other services of the machine have theirs; `host` is a name or
    an address besides those of this machine.
    """

    def __init__(self, application: ASGIApp, token: str, port: int, host: str) -> None:
        self._application, self._token = application, token
        self._cookie = f"projseg_{port}"
        names = {*_LOOPBACK, f"[{host}]" if ":" in host else host}
        if host == "::":
            names.add("[::1]")
        self._hosts = {f"{name}:{port}".casefold() for name in names}
        if port == _HTTP:
            self._hosts |= {name.casefold() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._application(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refused = self._refusal(scope, Headers(scope=scope))
        if refused is None:
            await self._application(scope, _Body(receive), guarded)
        else:
            await refused(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a request that does not come through; None if it does."""
        named = [one.casefold() for one in headers.getlist("host")]
        if len(named) != 1 or named[0] not in self._hosts:
            return PlainTextResponse("The Host header names another server.", 421)
        method, query = scope["method"], dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if method in _SAFE and "token" in query and self._is_token(query.pop("token")):
            return self._entered(scope["path"], query)
        is_bearer = self._is_token(_bearer(headers))
        cookies = cookie_parser(headers.get("cookie", ""))
        stated = headers.get("content-length", "0")
        if not is_bearer and not self._is_token(cookies.get(self._cookie, "")):
            found = PlainTextResponse(_HOW_IN, 401, {"WWW-Authenticate": "Bearer"})
        elif method not in (*_SAFE, "POST"):
            found = PlainTextResponse("Only GET, HEAD and POST are answered.", 405)
        elif self._is_forged(scope, headers, is_bearer=is_bearer or method in _SAFE):
            found = PlainTextResponse(_FORGED, 403)
        elif not stated.isdecimal() or int(stated[:20]) > BODY_BYTES_MAX:
            found = PlainTextResponse(f"A body has at most {BODY_BYTES_MAX} bytes.", 413)
        else:
            return None
        return found

    def _entered(self, path: str, query: dict[str, str]) -> Response:
        """Return a redirect to the address without the token, which a cookie has now."""
        target = "/" + path.lstrip("/\\") + (f"?{urlencode(query)}" if query else "")
        entered = RedirectResponse(target, 303)
        entered.set_cookie(self._cookie, self._token, path="/", httponly=True, samesite="strict")
        return entered

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    def _is_forged(self, scope: Scope, headers: Headers, *, is_bearer: bool) -> bool:
        """Whether a page of another address sent it; a bearer's request and a GET may say less."""
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        own = f"{scope['scheme']}://{headers['host']}".casefold()
        is_own = origin is not None and origin.casefold() == own
        if origin is not None and not is_own and not (origin == "null" and site == "same-origin"):
            return True
        return not (is_bearer or (is_own if site is None else site == "same-origin"))


def _bearer(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.casefold() == "bearer" else ""


class _Body:
    """The body of a request, which ends where it is too long."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self._left = receive, BODY_BYTES_MAX

    async def __call__(self) -> Message:
        """Return the next part."""
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            return {"type": "http.disconnect"}
        return message


def steerless_text(value: str) -> str:
    """Return a text with escapes of SQL for characters that steer how the others are shown."""
    if value.isprintable():
        return value
    return "".join(
        one
        if one in "\n\t\r" or unicodedata.category(one) not in ("Cc", "Cf")
        else f"\\u{ord(one):04x}"
        if ord(one) < 0x10000
        else f"\\U{ord(one):08x}"
        for one in value
    )


def shown_text(value: str, kept: Iterable[str] = "\n\t") -> str:
    """Return a text whose control and direction characters are shown as escapes."""
    if value.isprintable():
        return value
    return "".join(
        one if one.isprintable() or one in kept else one.encode("unicode_escape").decode()
        for one in value
    )

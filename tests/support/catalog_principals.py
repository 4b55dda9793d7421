"""Principals who ask a catalog's server without a wire."""

import contextlib
import json
import re
from urllib.parse import unquote

import sqlalchemy as sa
from anyio.from_thread import start_blocking_portal

import projseg

SPACES = ("hr", "HR2", "Sales", "a", "a.b", "ß")


class Principal:
    """A client without a wire, and the grants by which a plain engine judges what it may do."""

    def __init__(self, ask, token, grants):
        self._ask, self.grants = ask, grants
        self._headers = [(b"authorization", f"Bearer {token}".encode())]

    def ask(self, verb, path, body=None, key=None):
        """Return the status and the content of a reply; `key` is an Idempotency-Key."""
        content = b"" if body is None else json.dumps(body).encode()
        address, _, query = f"/v1/catalog{path}".partition("?")
        scope = {
            "type": "http", "http_version": "1.1", "method": verb, "path": unquote(address),
            "raw_path": address.encode(), "query_string": query.encode(),
            "headers": [*self._headers, *([] if key is None else [(b"idempotency-key", key)])],
            "scheme": "http", "server": ("127.0.0.1", 80), "root_path": "",
        }  # fmt: skip
        return self._ask(scope, content)

    def may(self, action, text, kind=None):
        return any(
            (granted in (action, "ADMIN") or (granted, action) == ("WRITE", "READ"))
            and of in (None, kind)
            and re.fullmatch(pattern, text)
            for granted, pattern, of in self.grants
        )


@contextlib.contextmanager
def served_without_wire(uri):
    """Yield a catalog with namespaces, and what asks its server's application."""
    from projseg.catalog.rest_server import application

    with contextlib.ExitStack() as held:
        own = held.enter_context(projseg.Catalog(uri, tenant=f"t{id(held)}", warehouse="/w"))
        own.init()
        own.admin.create_tenant(own.store.tenant, "/w", ["/data"])
        for space in SPACES:
            own.create_namespace(space)
        app, portal = application(own), held.enter_context(start_blocking_portal())

        async def ask(scope, content):
            sent = []

            async def receive():
                return {"type": "http.request", "body": content, "more_body": False}

            async def send(message):
                sent.append(message)

            await app(scope, receive, send)
            said = b"".join(one.get("body", b"") for one in sent)
            return sent[0]["status"], json.loads(said) if said else None

        yield own, lambda *given: portal.call(ask, *given)


def empty_trash(own):
    """Forget what was dropped, of which lists would grow."""
    gone = sa.text("DELETE FROM definitions WHERE state != 'ACTIVE'")
    own.store.database.edit(lambda connection: connection.execute(gone), lambda _: True)

"""Principals, tokens and grants of a tenant behind a server."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

from projseg.catalog.store.rest_connection import quoted
from projseg.catalog.store.store_contract import CatalogAdmin, milliseconds_of
from projseg.errors import UnsupportedFeatureError


class RestAccess(CatalogAdmin):
    """Who may use a catalog, asked of its server; for admins of the tenant."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

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
        self._ask("POST", "/principals", {"name": name, "admin": admin})

    def drop_principal(self, name: str) -> None:
        """Drop a principal with its tokens and grants."""
        self._ask("DELETE", f"/principals{quoted(name)}")

    def create_token(
        self, principal: str, expires: datetime.datetime | None = None
    ) -> tuple[str, str]:
        """Make a token, and return its id and itself, which nobody sees again."""
        body = {"principal": principal, "expires": milliseconds_of(expires)}
        made = self._ask("POST", "/tokens", body).json()
        return made["id"], made["token"]

    def grant(
        self, principal: str, action: str, pattern: str, external_type: str | None = None
    ) -> str:
        """Grant an action on all definitions whose `namespace.name` a pattern matches."""
        body = {
            "principal": principal,
            "action": action,
            "pattern": pattern,
            "externalType": external_type,
        }
        return str(self._ask("POST", "/grants", body).json()["id"])

    def revoke(self, id: str) -> None:
        """Take a token or a grant away; one that is not there stays away."""
        self._ask("DELETE", f"/grants{quoted(id)}")

    def listed(self, what: str, principal: str | None = None) -> list[dict[str, Any]]:
        """Return `principals`, `tokens` (never themselves) or `grants`."""
        reply = self._ask("GET", f"/{what}", query={"principal": principal})
        return list(reply.json()["items"])


def _beside_the_server() -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        "PROJSEG_UNSUPPORTED_STORAGE",
        "tenants are seen and made by whoever has the server's database, not through the server",
    )

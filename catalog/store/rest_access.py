"""Principals, tokens and grants of a tenant behind a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from projseg.catalog.store.rest_connection import quoted
from projseg.errors import UnsupportedFeatureError


class RestAccess:
    """What `Access` does, asked by REST; for admins of the tenant."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    def create_tenant(self, warehouse: str | None, roots: Sequence[str]) -> None:
        """Refuse: tenants are made by whoever has the database."""
        raise _beside_the_server()

    def tenants(self) -> list[Mapping[str, Any]]:
        """Refuse: nobody sees another tenant through a server."""
        raise _beside_the_server()

    def create_principal(self, name: str, *, is_admin: bool) -> None:
        """Make a principal."""
        self._ask("POST", "/principals", {"name": name, "admin": is_admin})

    def drop_principal(self, name: str) -> None:
        """Drop a principal with its tokens and grants."""
        self._ask("DELETE", f"/principals{quoted(name)}")

    def create_token(self, principal: str, expires_us: int | None) -> tuple[str, str]:
        """Make a token, and return its id and itself, which nobody sees again."""
        expires = None if expires_us is None else expires_us // 1000
        made = self._ask("POST", "/tokens", {"principal": principal, "expires": expires}).json()
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

    def revoke(self, id_: str) -> None:
        """Take a token or a grant away; one that is not there stays away."""
        self._ask("DELETE", f"/grants{quoted(id_)}")

    def listed_access(self, what: str, principal: str | None = None) -> list[dict[str, Any]]:
        """Return `principals`, `tokens` (never themselves) or `grants`."""
        reply = self._ask("GET", f"/{what}", query={"principal": principal})
        return list(reply.json()["items"])


def _beside_the_server() -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        "PROJSEG_UNSUPPORTED_STORAGE",
        "tenants are seen and made by whoever has the server's database, not through the server",
    )

"""`CatalogAdmin`: tenants, principals, tokens and grants, for whoever serves a catalog."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from projseg.catalog.store.table_metadata import check_name
from projseg.errors import InvalidInputError

if TYPE_CHECKING:
    from projseg.catalog.store.store_contract import Store


class CatalogAdmin:
    """Who may use a catalog through its server; made by `Catalog.admin`.

    Whoever has the database's password needs none of this, and is bound by none of it.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._access = store, store.access()

    def create_tenant(
        self, name: str, warehouse: str | None = None, roots: Sequence[str] = ()
    ) -> None:
        """Make a tenant, or change where its tables lie: managed ones, and registered ones."""
        self._store.of_tenant(check_name(name)).access().create_tenant(warehouse, roots)

    def tenants(self) -> list[dict[str, Any]]:
        """Return tenant, head, warehouse and roots of each."""
        return [dict(row) for row in self._access.tenants()]

    def create_principal(self, name: str, admin: bool = False) -> None:
        """Make a principal of the catalog's tenant."""
        self._access.create_principal(name, is_admin=admin)

    def drop_principal(self, name: str) -> None:
        """Drop a principal with its tokens and grants."""
        self._access.drop_principal(name)

    def principals(self) -> list[dict[str, Any]]:
        """Return the principals by name."""
        return self._access.listed_access("principals")

    def create_token(
        self, principal: str, expires: datetime.datetime | None = None
    ) -> tuple[str, str]:
        """Return a token's id and the token, which is shown this once."""
        if expires is not None and expires.tzinfo is None:
            raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "expires needs a time zone")
        return self._access.create_token(
            principal, None if expires is None else int(expires.timestamp() * 1_000_000)
        )

    def tokens(self, principal: str | None = None) -> list[dict[str, Any]]:
        """Return the tokens, by id and never themselves."""
        return self._access.listed_access("tokens", principal)

    def revoke_token(self, id: str) -> None:
        """Take a token away."""
        self._access.revoke(id)

    def grant(
        self, principal: str, action: str, pattern: str, external_type: str | None = None
    ) -> str:
        """Grant `READ`, `WRITE`, `EXTERNAL` or `ADMIN` where a pattern matches; returns an id."""
        return self._access.grant(principal, action, pattern, external_type)

    def grants(self, principal: str | None = None) -> list[dict[str, Any]]:
        """Return the grants."""
        return self._access.listed_access("grants", principal)

    def revoke(self, id: str) -> None:
        """Take a grant away."""
        self._access.revoke(id)

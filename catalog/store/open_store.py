"""Which store an address means: a file, PostgreSQL, a server, or that of another package."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Final

from projseg.catalog.store.databases import Database
from projseg.catalog.store.definition_store import DefinitionStore
from projseg.catalog.store.rest_store import RestStore
from projseg.catalog.store.store_contract import Store
from projseg.errors import InvalidInputError

ENTRY_POINTS: Final = "projseg.catalog_stores"
"""Of packages that offer stores: the name is the scheme of an address, the object makes a `Store`
from `uri`, `tenant`, `user`, `token` and `timeout`."""


def open_store(uri: str, tenant: str, user: str | None, token: str | None, timeout: float) -> Store:
    """Return the store that an address means: a file, PostgreSQL, a server, or a package's own."""
    scheme, found, _ = uri.partition("://")
    if found and scheme in ("http", "https"):
        if user is not None:
            raise _bad("through a server the user is the token's principal; leave user out")
        return RestStore(uri, token, timeout, None if tenant == "default" else tenant)
    if found and scheme not in ("sqlite", "postgresql", "postgres"):
        for entry in entry_points(group=ENTRY_POINTS, name=scheme):
            made: Store = entry.load()(
                uri=uri, tenant=tenant, user=user, token=token, timeout=timeout
            )
            return made
    if token is not None:
        raise _bad("a token is for a server, https://…; a database has users of its own")
    return DefinitionStore(Database(uri, timeout), tenant, user)


def _bad(problem: str) -> InvalidInputError:
    return InvalidInputError("PROJSEG_BAD_ARGUMENT", problem)

"""The tables that metadata of a table names, and which of them a process follows.

Whoever may write to a table's folder may write any location into it, and a refresh after somebody's
commit reads with the rights of that somebody. So a location is followed only beside the table, or
below a root that the process itself names. A table there must have the id of the link.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import Final

from projseg.errors import InvalidInputError
from projseg.table_layer.storage.locate_storage import storage_beside
from projseg.table_layer.storage.storage_contract import Storage

ROOTS: Final = "PROJSEG_TABLE_ROOTS"
"""Folders and prefixes of stores, separated as in PATH."""
_SEPARATOR: Final = re.compile(f"{re.escape(os.pathsep)}(?!//)")

_NAMED: Final[set[tuple[str, str]]] = set()


def seen_from(location: str, base: str) -> str:
    """Return the way from one folder to another; in full if nothing but the root is above both."""
    (scheme, there), (own, here) = _split(location), _split(base)
    if scheme != own or posixpath.commonpath([there, here]) in ("", "/"):
        return location
    return posixpath.relpath(there, here)


def location_from(way: str, base: str) -> str:
    """Return where a way leads from a folder."""
    if way.startswith("/") or "://" in way:
        return way
    scheme, here = _split(base)
    path = posixpath.normpath(posixpath.join(here, way))
    return f"{scheme}://{path[1:]}" if scheme else path


def _split(location: str) -> tuple[str, str]:
    scheme, found, path = location.partition("://")
    return (scheme, f"/{path}") if found else ("", scheme)


def name_linked(table: Storage, location: str) -> None:
    """Have this process follow a location from a table, because its own code names both."""
    _NAMED.add((table.location, location))


def linked_storage(table: Storage, location: str, who: str) -> Storage:
    """Return the storage of a location that a table's metadata names."""
    if (table.location, location) in _NAMED or _is_followed(table.location, location):
        return storage_beside(table, location)
    raise InvalidInputError(
        "PROJSEG_OUTSIDE_ROOTS",
        f"{who} names a table at {location[:200]}, which is not beside {table.location}, and a "
        f"location in metadata is followed only there or below a root that {ROOTS} names in the "
        "environment; name one if you trust who writes to the folder",
    )


def _is_followed(table: str, location: str) -> bool:
    (scheme, there), (own, here) = _resolved(location), _resolved(table)
    if scheme == own and posixpath.dirname(there) == posixpath.dirname(here):
        return True
    roots = [_resolved(root) for root in _SEPARATOR.split(os.environ.get(ROOTS, "")) if root]
    return any(
        kind == scheme and posixpath.commonpath([there, root]) == root for kind, root in roots
    )


def _resolved(location: str) -> tuple[str, str]:
    """Return a location's scheme and path; links of a file system are followed."""
    scheme, path = _split(location)
    return scheme, posixpath.normpath(path) if scheme else os.path.realpath(path)

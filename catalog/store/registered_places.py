"""Where tables may lie that a catalog did not place: below a root of the tenant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from projseg.errors import InvalidInputError


def check_location(location: str, roots: Sequence[str]) -> None:
    """Refuse a location that is not below a root, compared by parts as it is written.

    Raises
    ------
    InvalidInputError
        PROJSEG_OUTSIDE_ROOTS.
    """
    found = _parts(location)
    for root in roots:
        own = _parts(root)
        if found is not None and own is not None and found[: len(own)] == own:
            return
    raise InvalidInputError(
        "PROJSEG_OUTSIDE_ROOTS", f"{location[:200]} is below none of the tenant's roots"
    )


def _parts(location: str) -> tuple[str, ...] | None:
    scheme, mark, rest = location.removeprefix("file://").rpartition("://")
    path = PurePosixPath(rest)
    strange = ("..", ".") if mark else ("..",)
    has_strange = any(part in strange or "%" in part or "\\" in part for part in path.parts)
    is_whole = bool(mark) or path.is_absolute()
    odd = any(letter in location for letter in "?#\0") or "@" in rest or not location.isprintable()
    return None if has_strange or not is_whole or odd else (scheme, *path.parts)

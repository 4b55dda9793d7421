"""The properties of a table that projseg reads itself, and what each may say.

All others are the user's own. A text is checked where it is set, and again where it is read: an
earlier release may have stored it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from projseg.errors import InvalidInputError
from projseg.table_layer.metadata.projection_scope import KEYS, scope_of

AUTO_COMPACT: Final = "autoCompact"
"""Whether each commit compacts the time chunks that it wrote to."""
COMPACT_MIN_SEGMENTS: Final = "compactMinSegments"
"""How many segments of a time chunk are worth merging."""
MAX_DELETED_RATIO: Final = "maxDeletedRatio"
"""Which share of a segment's rows a deletion vector may name."""

_MAX_DELETED_RATIO: Final = 0.2
_SCOPE: Final = re.compile(rf"projection\.(.+)\.({'|'.join(KEYS)})", re.DOTALL)


def is_auto_compacted(properties: Mapping[str, str]) -> bool:
    """Whether commits to a table are followed by a compaction.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_OPTION if the table's property is neither true nor false.
    """
    text = properties.get(AUTO_COMPACT, "false").lower()
    if text not in ("true", "false"):
        raise _bad(AUTO_COMPACT, properties, "'true' or 'false'")
    return text == "true"


def compact_min_segments(properties: Mapping[str, str]) -> int | None:
    """Return how few segments are left as they are; None if a table does not say.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_OPTION if the property is no such number.
    """
    text = properties.get(COMPACT_MIN_SEGMENTS)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or int(text[:9]) < 2:
        raise _bad(COMPACT_MIN_SEGMENTS, properties, "a whole number from 2 on")
    return int(text)


def max_deleted_ratio(properties: Mapping[str, str]) -> float:
    """Return the share of a segment's rows that a deletion vector may name.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_OPTION if the property is no share.
    """
    try:
        share = float(properties.get(MAX_DELETED_RATIO, _MAX_DELETED_RATIO))
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise _bad(MAX_DELETED_RATIO, properties, "a number from 0 to 1")
    return share


_READERS: Final = {
    AUTO_COMPACT: is_auto_compacted,
    COMPACT_MIN_SEGMENTS: compact_min_segments,
    MAX_DELETED_RATIO: max_deleted_ratio,
}
_BY_FOLDED: Final = {name.casefold(): name for name in _READERS}


def check_set(properties: Mapping[str, str]) -> None:
    """Refuse properties that a table is to have, unless each is a text and means something.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_OPTION, PROJSEG_BAD_INTERVAL.
    """
    for name, text in properties.items():
        for what, given in (("name", name), ("value", text)):
            if not isinstance(given, str):
                raise InvalidInputError(
                    "PROJSEG_BAD_OPTION",
                    f"property {name!r} has the {what} {given!r}, which is of type "
                    f"{type(given).__name__}; names and values of properties are texts",
                )
        known = _BY_FOLDED.get(name.casefold())
        if known is not None and known != name:
            raise InvalidInputError(
                "PROJSEG_BAD_OPTION", f"property '{name}' has no effect; write it '{known}'"
            )
        if known is not None:
            _READERS[known](properties)
        scope = _SCOPE.fullmatch(name)
        if scope is not None:
            scope_of(properties, scope[1])


def _bad(name: str, properties: Mapping[str, str], wanted: str) -> InvalidInputError:
    return InvalidInputError(
        "PROJSEG_BAD_OPTION",
        f"the table's property {name} is {properties[name]!r}; it takes {wanted}",
    )

"""What texts may take that users keep in metadata: comments, and properties with their names.

A text is checked where it is set, never where it is read: an earlier release may have stored it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from projseg.errors import InvalidInputError, LimitExceededError
from projseg.table_layer.metadata.metadata_limits import (
    COMMENT_BYTES_MAX,
    PROPERTIES_BYTES_MAX,
    PROPERTY_BYTES_MAX,
)

_COLUMN = "column."
"""Begins the properties in which Spark's catalogs keep a column as JSON, with its comments."""


def comment_problem(text: str) -> str | None:
    """Return why a comment may not be kept, or None if it may."""
    if "\0" in text:
        return "it has the character U+0000, which not every database and tool takes"
    size = _size(text)
    return None if size <= COMMENT_BYTES_MAX else _beyond(size, COMMENT_BYTES_MAX)


def check_comment(what: str, comment: object) -> None:
    """Refuse a comment, or a description, that is no text or that may not be kept."""
    if comment is None:
        return
    if not isinstance(comment, str):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"{what} is {type(comment).__name__}; give a text"
        )
    if (problem := comment_problem(comment)) is not None:
        raise LimitExceededError("PROJSEG_METADATA_TOO_LARGE", f"{what}: {problem}")


def check_property_sizes(what: str, given: Mapping[str, str]) -> None:
    """Refuse properties of which one is too long, or a comment in one."""
    for name, text in given.items():
        if (size := _size(name) + _size(text)) > PROPERTY_BYTES_MAX:
            problem = _beyond(size, PROPERTY_BYTES_MAX)
            raise _too_large(f"{what} {name[:80]!r}: with its name {problem}")
        for comment in _comments(name, text):
            check_comment(f"the comment in {what} {name[:80]!r}", comment)


def check_all_sizes(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse properties that take too much together, unless they take less than `before`."""
    if after is before:
        return
    size = _size_of_all(after)
    if size > PROPERTIES_BYTES_MAX and size > _size_of_all(before):
        raise _too_large(f"{what}: together {_beyond(size, PROPERTIES_BYTES_MAX)}")


def _comments(name: str, text: str) -> Iterator[str]:
    """Yield the comments of a property: it may be one, or have those of a column's fields."""
    if name == "comment":
        yield text
    if name.startswith(_COLUMN):
        try:
            yield from _of_fields(json.loads(text))
        except (ValueError, RecursionError):
            return


def _of_fields(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        metadata = node.get("metadata")
        comment = metadata.get("comment") if isinstance(metadata, dict) else None
        if isinstance(comment, str):
            yield comment
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _of_fields(part)


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _size_of_all(properties: Mapping[str, str]) -> int:
    return sum(_size(name) + _size(text) for name, text in properties.items())


def _beyond(size: int, most: int) -> str:
    return f"it has {size} bytes; at most {most} are kept"


def _too_large(problem: str) -> LimitExceededError:
    return LimitExceededError("PROJSEG_METADATA_TOO_LARGE", problem)

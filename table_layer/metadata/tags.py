"""Names for versions, kept in the newest version: what they may be, and how they change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from projseg.errors import CommitConflictError, InvalidInputError, did_you_mean
from projseg.table_layer.metadata.metadata_limits import TAG_BYTES_MAX, TAGS_MAX

_TAG: Final = re.compile(rf"(?=.*[^0-9])[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{TAG_BYTES_MAX - 1}}}")


def tag_problem(name: str) -> str | None:
    """Return why a text cannot be a tag, or None if it can."""
    if not isinstance(name, str) or _TAG.fullmatch(name) is None:
        return (
            f"has to be 1 to {TAG_BYTES_MAX} letters, digits, '_', '-' or '.', not only digits, "
            "which would be a version, and neither '-' nor '.' first"
        )
    return None


def check_tag(name: str) -> str:
    """Return `name`, or raise InvalidInputError (PROJSEG_BAD_NAME) if it cannot be a tag."""
    problem = tag_problem(name)
    if problem is not None:
        raise InvalidInputError("PROJSEG_BAD_NAME", f"tag '{str(name)[:200]}' {problem}")
    return name


def tags_problem(tags: Mapping[str, int], version: int) -> str | None:
    """Return why a version cannot hold these tags, or None if it can."""
    if len(tags) > TAGS_MAX:
        return f"it has {len(tags)} tags; a table has at most {TAGS_MAX}"
    if list(tags) != sorted(tags):
        return "its tags are not in order"
    for name, tagged in tags.items():
        problem = tag_problem(name)
        if problem is not None or tagged >= version:
            return f"its tag '{name[:200]}' {problem or f'names version {tagged}'}"
    return None


def tagged_version(tags: Mapping[str, int], name: str, location: str) -> int:
    """Return the version that a tag names.

    Raises
    ------
    InvalidInputError
        PROJSEG_UNKNOWN_TAG.
    """
    if not isinstance(name, str) or name not in tags:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_TAG",
            f"'{name}' is not a tag of table {location}{did_you_mean(str(name), tags)}; its tags "
            f"are {', '.join(list(tags)[:20]) or 'none'}",
        )
    return tags[name]


def changed_tags(
    base: Mapping[str, int],
    current: Mapping[str, int],
    added: Mapping[str, int],
    dropped: Iterable[str],
    location: str,
) -> dict[str, int]:
    """Return the tags after a change that was made for `base`, in the order of their names.

    Raises
    ------
    CommitConflictError
        If others gave one of the names another meaning since then.
    InvalidInputError
        PROJSEG_TAG_EXISTS, PROJSEG_UNKNOWN_TAG, PROJSEG_TOO_MANY_NAMES.
    """
    tags = dict(current)
    for name in (*added, *dropped):
        if current.get(name) != base.get(name):
            raise CommitConflictError(
                "PROJSEG_COMMIT_CONFLICT",
                f"nothing was committed: tag '{name}' was set or dropped by another commit; open "
                "the table and try again",
            )
    for name in dropped:
        tagged_version(tags, name, location)
        del tags[name]
    for name, version in added.items():
        if tags.setdefault(check_tag(name), version) != version:
            raise InvalidInputError(
                "PROJSEG_TAG_EXISTS",
                f"tag '{name}' names version {tags[name]}; drop it first or choose another name",
            )
    if len(tags) > TAGS_MAX:
        raise InvalidInputError(
            "PROJSEG_TOO_MANY_NAMES",
            f"the table has {len(current)} tags and may have {TAGS_MAX}; drop some first",
        )
    return dict(sorted(tags.items()))

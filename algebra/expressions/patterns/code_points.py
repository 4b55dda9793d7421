"""Sets of code points.

A set is a tuple of the code points, ascending, at which membership changes: (97, 123) is a to z.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, TypeAlias

CodePoints: TypeAlias = tuple[int, ...]

END: Final = 0x110000
NO_CHARACTER: Final[CodePoints] = ()
ANY_CHARACTER: Final[CodePoints] = (0, END)
SURROGATES: Final[CodePoints] = (0xD800, 0xE000)


def span(first: int, last: int) -> CodePoints:
    """Return the set of code points from `first` to `last`, both included."""
    return (first, last + 1)


def points(found: Iterable[int]) -> CodePoints:
    """Return the set of single code points."""
    return union(*(span(point, point) for point in found))


def characters(text: str) -> CodePoints:
    """Return the set of a text's characters."""
    return points(map(ord, text))


def contains(members: CodePoints, code_point: int) -> bool:
    """Whether a set has a code point."""
    return bisect_right(members, code_point) % 2 == 1


def union(*sets: CodePoints) -> CodePoints:
    """Return the code points that are in any of the sets."""
    return _in_at_least(1, sets)


def intersection(*sets: CodePoints) -> CodePoints:
    """Return the code points that are in all of the sets."""
    return _in_at_least(len(sets), sets)


def complement(members: CodePoints) -> CodePoints:
    """Return the code points that are not in a set."""
    opened = members[1:] if members[:1] == (0,) else (0, *members)
    return opened[:-1] if opened[-1:] == (END,) else (*opened, END)


def _in_at_least(wanted: int, sets: tuple[CodePoints, ...]) -> CodePoints:
    changes: dict[int, int] = {}
    for members in sets:
        for index, bound in enumerate(members):
            changes[bound] = changes.get(bound, 0) + (1 if index % 2 == 0 else -1)
    found, depth = [], 0
    for bound in sorted(changes):
        before, depth = depth, depth + changes[bound]
        if (before >= wanted) != (depth >= wanted):
            found.append(bound)
    return tuple(found)

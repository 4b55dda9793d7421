"""Java's mapping of single characters between cases, and the sets that folding by it makes."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from projseg.algebra.expressions.patterns.code_points import (
    CodePoints,
    contains,
    intersection,
    points,
    span,
    union,
)

_UPPER: Final = span(ord("A"), ord("Z"))
_LOWER: Final = span(ord("a"), ord("z"))
_CASED_END: Final = 0x20000  # Unicode has no cased letter from here on


def to_upper(code_point: int) -> int:
    """Return the single upper-case character of a code point, as `Character.toUpperCase` does.

    Python maps some characters to several; Java then uses the title case if it is a single one.
    """
    character = chr(code_point)
    for mapped in (character.upper(), character.title()):
        if len(mapped) == 1:
            return ord(mapped)
    return code_point


def to_lower(code_point: int) -> int:
    """Return the single lower-case character of a code point, as `Character.toLowerCase` does."""
    return ord(chr(code_point).lower()[0])


def folded(code_point: int) -> int:
    """Return the character that Java compares where it ignores case in all of Unicode."""
    return to_lower(to_upper(code_point))


def with_ascii_cases(members: CodePoints) -> CodePoints:
    """Return a set with both cases of its ASCII letters."""
    raised = (bound - 32 for bound in intersection(members, _LOWER))
    lowered = (bound + 32 for bound in intersection(members, _UPPER))
    return union(members, tuple(raised), tuple(lowered))


def with_unicode_cases(members: CodePoints) -> CodePoints:
    """Return a range and the characters whose upper case, or its lower case, is in the range."""
    others = (p for p, *cases in _cased() if any(contains(members, case) for case in cases))
    return union(members, points(others))


def same_folded(code_point: int) -> CodePoints:
    """Return the characters that fold to the same character as `code_point`."""
    wanted = folded(code_point)
    others = (point for point, _, lower in _cased() if lower == wanted)
    return union(span(wanted, wanted), points(others))


@lru_cache(maxsize=1)
def _cased() -> tuple[tuple[int, int, int], ...]:
    """Return (code point, upper case, lower case of that) where one of them differs."""
    found = []
    for point in range(_CASED_END):
        upper = to_upper(point)
        lower = to_lower(upper)
        if (upper, lower) != (point, point):
            found.append((point, upper, lower))
    return tuple(found)

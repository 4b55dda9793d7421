r"""Sets of code points, and those that `\d`, `\w` and `\p{...}` name in a pattern.

A set is a tuple of the code points, ascending, at which membership changes: (97, 123) is a to z.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, TypeAlias

CodePoints: TypeAlias = tuple[int, ...]

END: Final = 0x110000
NO_CHARACTER: Final[CodePoints] = ()
ANY_CHARACTER: Final[CodePoints] = (0, END)
SURROGATES: Final[CodePoints] = (0xD800, 0xE000)
_BEYOND: Final[CodePoints] = (*SURROGATES, 0x10000, END)


def span(first: int, last: int) -> CodePoints:
    """Return the set of code points from `first` to `last`, both included."""
    return (first, last + 1)


def characters(text: str) -> CodePoints:
    """Return the set of a text's characters."""
    return union(*(span(ord(character), ord(character)) for character in text))


def contains(members: CodePoints, character: str) -> bool:
    """Whether a set has a character."""
    return bisect_right(members, ord(character)) % 2 == 1


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


_UPPER: Final = span(ord("A"), ord("Z"))
_LOWER: Final = span(ord("a"), ord("z"))
_ALPHA: Final = union(_UPPER, _LOWER)
_DIGIT: Final = span(ord("0"), ord("9"))
_SPACE: Final = characters(" \t\n\x0b\x0c\r")
LINE_ENDS: Final = characters("\n\r\x85\u2028\u2029")
ESCAPES: Final = {
    "d": _DIGIT,
    "h": union(characters(" \t\xa0\u1680\u180e\u202f\u205f\u3000"), span(0x2000, 0x200A)),
    "s": _SPACE,
    "w": union(_ALPHA, _DIGIT, characters("_")),
}
"""The set of each escape, whose capital is the complement."""
NAMED: Final[dict[str, CodePoints]] = {
    "ASCII": span(0, 0x7F),
    "Alnum": union(_ALPHA, _DIGIT),
    "Alpha": _ALPHA,
    "Blank": characters(" \t"),
    "Cntrl": union(span(0, 0x1F), span(0x7F, 0x7F)),
    "Digit": _DIGIT,
    "Graph": span(0x21, 0x7E),
    "Lower": _LOWER,
    "Print": span(0x20, 0x7E),
    "Punct": intersection(span(0x21, 0x7E), complement(union(_ALPHA, _DIGIT))),
    "Space": _SPACE,
    "Upper": _UPPER,
    "XDigit": union(_DIGIT, characters("ABCDEFabcdef")),
}
r"""The sets of `\p{...}` that do not depend on a version of Unicode."""


def with_cases(members: CodePoints) -> CodePoints:
    """Return a set with both cases of its ASCII letters, as the flag `i` of Java adds them."""
    raised = (bound - 32 for bound in intersection(members, _LOWER))
    lowered = (bound + 32 for bound in intersection(members, _UPPER))
    return union(members, tuple(raised), tuple(lowered))


def is_whole_beyond(members: CodePoints) -> bool:
    """Whether a set has no half of a surrogate pair, or all halves and all characters of pairs.

    Java reads texts in UTF-16 and may begin a search within a pair. With such sets nothing is found
    there that is not found at the pair's beginning.
    """
    halves = intersection(members, SURROGATES)
    return not halves or intersection(members, _BEYOND) == _BEYOND


def re2_set(members: CodePoints) -> str:
    """Return a set as RE2 writes it, without surrogates, which RE2 and UTF-8 text do not have."""
    members = intersection(members, complement(SURROGATES))
    if not members:
        return r"[^\x00-\x{10FFFF}]"
    if members == complement(SURROGATES):
        return r"(?s:.)"
    if len(members) == 2 and members[1] == members[0] + 1:
        return _re2_character(members[0])
    return f"[{''.join(_re2_ranges(members))}]"


def _re2_ranges(members: CodePoints) -> Iterator[str]:
    for first, end in zip(members[::2], members[1::2], strict=True):
        yield _re2_character(first)
        if end - first > 1:
            yield f"-{_re2_character(end - 1)}"


def _re2_character(code_point: int) -> str:
    character = chr(code_point)
    is_plain = character.isascii() and character.isalnum()
    return character if is_plain else f"\\x{{{code_point:X}}}"

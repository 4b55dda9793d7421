"""The parts of a pattern: each with its text for RE2, sets of code points, and errors.

Java's `$` stands before a line end that ends the text, and RE2 cannot look ahead. Its text takes
that line end (`TEXT_END`), so nothing may follow it, and what finds parts of texts gives it back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

from projseg.algebra.expressions.coercion import bad_expression
from projseg.errors import InvalidInputError, UnsupportedFeatureError


def invalid(pattern: str, reason: str) -> InvalidInputError:
    """Return the error of a text that is not a pattern of Java's."""
    return bad_expression(f"'{pattern}' is not a regular expression: {reason}")


def unsupported(pattern: str, construct: str) -> UnsupportedFeatureError:
    """Return the error of a pattern that Java accepts and projseg does not."""
    return UnsupportedFeatureError(
        "PROJSEG_UNSUPPORTED_FUNCTION",
        f"the regular expression '{pattern}' has {construct}, which is not supported; "
        "docs/functions.md lists what is",
    )


# Sets of code points, and those that `\d`, `\w` and `\p{...}` name in a pattern.
#
# A set is a tuple of the code points, ascending, at which membership changes: (97, 123) is a to z.

CodePoints: TypeAlias = tuple[int, ...]

END: Final = 0x110000
_NO_CHARACTER: Final[CodePoints] = ()
ANY_CHARACTER: Final[CodePoints] = (0, END)
SURROGATES: Final[CodePoints] = (0xD800, 0xE000)
_BEYOND: Final[CodePoints] = (*SURROGATES, 0x10000, END)


def span(first: int, last: int) -> CodePoints:
    """Return the set of code points from `first` to `last`, both included."""
    return (first, last + 1)


def characters(text: str) -> CodePoints:
    """Return the set of a text's characters."""
    return union(*(span(ord(character), ord(character)) for character in text))


def _contains(members: CodePoints, character: str) -> bool:
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


@lru_cache(maxsize=1024)
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


def _re2_set(members: CodePoints) -> str:
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


Runs: TypeAlias = "tuple[str | tuple[Runs, ...] | None, ...]"
"""What every match holds, in order: a literal text, the runs of options of which one is there, or
None where nothing is known. Case does not count."""

_COPIES: Final = 3
_COPIED_MAX: Final = 64
"""The longest literal whose repetition is written out, so that repetitions do not multiply."""


def _run_of(members: CodePoints) -> Runs:
    """Return the character of a set, if it has but one, or both cases of an ASCII letter."""
    last = members[-2:-1]
    one = (*last, *(bound + 1 for bound in last))
    return (chr(last[0]),) if last and members in (one, with_cases(one)) else (None,)


def _in_a_row(parts: Sequence[PatternPart]) -> Runs:
    found: list[str | tuple[Runs, ...] | None] = []
    for run in (run for part in parts for run in part.runs):
        before = found[-1] if found else None
        if isinstance(run, str) and isinstance(before, str):
            found[-1] = before + run
        else:
            found.append(run)
    return tuple(found)


def _repeated(runs: Runs, least: int, most: int | None) -> Runs:
    """Return what is there from `least` to `most` times: its first times, and its last ones."""
    if least == 0:
        return (None,)
    if most == 1:
        return runs
    text = runs[0] if len(runs) == 1 else None
    if not isinstance(text, str) or len(text) > _COPIED_MAX:
        return (*runs, None)
    text *= min(least, _COPIES)
    return (text,) if least == most and least <= _COPIES else (text, None, text)


TEXT_END: Final = r"(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z"


@dataclass(frozen=True)
class PatternPart:
    r"""A part of a pattern.

    Parameters
    ----------
    text : str
        RE2's form of it; group n is named gn.
    least : int
        The fewest characters that it matches.
    size : int
        How many sets and conditions it has, each as often as it is repeated.
    first : CodePoints
        What a match may begin with, unless it is empty.
    loop : CodePoints
        What a greedy repetition at its end takes without limit; empty without one.
    splits_line_end : bool
        Whether a match may end between `\r` and `\n` although another way to match takes both.
    groups, looped, ending : frozenset of int
        The numbers of its groups; of those in a repetition; of those that have a `$`.
    repeats_nothing : bool
        Whether it repeats what may be empty, which Java does in an order of its own.
    has_condition, has_end, opens_end, is_ended : bool
        Whether it has `^`, `\z` or `$`; has `$`; has one that may be its beginning; is a sequence
        of which `$` is the last part.
    kept : CodePoints
        Line ends that each `$` stands after rather than before; see `Replacer`.
    runs : Runs
        Literal texts that each match holds.
    """

    text: str
    least: int = 0
    size: int = 1
    first: CodePoints = _NO_CHARACTER
    loop: CodePoints = _NO_CHARACTER
    splits_line_end: bool = False
    groups: frozenset[int] = frozenset()
    looped: frozenset[int] = frozenset()
    ending: frozenset[int] = frozenset()
    repeats_nothing: bool = False
    has_condition: bool = False
    has_end: bool = False
    opens_end: bool = False
    is_ended: bool = False
    kept: CodePoints = ANY_CHARACTER
    runs: Runs = ()

    @property
    def one_or_more(self) -> tuple[CodePoints, bool] | None:
        """The set of which it takes one character, or as many as there are; None if neither."""
        is_one = self.size == 1 and not self.has_condition
        is_run = self.size == 2 and self.loop == self.first != _NO_CHARACTER
        return (self.first, is_run) if self.least == 1 and (is_one or is_run) else None


TEXT_START: Final = PatternPart(r"\A", has_condition=True)
NO_MORE_TEXT: Final = PatternPart(r"\z", has_condition=True)
END_OF_TEXT: Final = PatternPart(
    TEXT_END, has_condition=True, has_end=True, opens_end=True, is_ended=True
)


class Unsupported(Exception):
    """Has the name of what RE2 lacks; the parser turns it into the error of the pattern."""


@lru_cache(maxsize=1024)
def one_of(members: CodePoints) -> PatternPart:
    """Return the part that is one character of a set."""
    return PatternPart(
        _re2_set(members),
        1,
        first=members,
        splits_line_end=_contains(members, "\r"),
        runs=_run_of(members),
    )


def sequence(parts: Sequence[PatternPart]) -> PatternPart:
    r"""Return parts one after the other.

    Raises Unsupported for a `$` before other parts, or where it may stand between `\r` and `\n`.
    """
    if len(parts) == 1:
        return parts[0]
    first, least = _NO_CHARACTER, 0
    splits, opens, kept = False, False, ANY_CHARACTER
    for place, part in enumerate(parts):
        if place and parts[place - 1].has_end:
            raise Unsupported("$ or \\Z before the end")
        if part.opens_end:
            if splits:
                raise Unsupported("$ or \\Z after a set that has \\r, as [^a] and \\s have")
            kept = parts[place - 1].loop if place else kept
            opens = least == 0
        if least == 0:
            first = union(first, part.first)
        is_passed = part.least == 0 and not _contains(part.loop, "\n")
        splits = part.splits_line_end or (splits and is_passed)
        least += part.least
    return replace(
        _joined("".join(part.text for part in parts), parts),
        least=least,
        first=first,
        loop=parts[-1].loop if parts else _NO_CHARACTER,
        splits_line_end=splits,
        opens_end=opens,
        is_ended=bool(parts) and parts[-1] is END_OF_TEXT,
        kept=intersection(kept, *(part.kept for part in parts)),
        runs=_in_a_row(parts),
    )


def choice(options: Sequence[PatternPart]) -> PatternPart:
    """Return the first of several parts that leads to a match."""
    if len(options) == 1:
        return options[0]
    return replace(
        _joined(f"(?:{'|'.join(option.text for option in options)})", options),
        least=min(option.least for option in options),
        first=union(*(option.first for option in options)),
        splits_line_end=any(option.splits_line_end for option in options),
        opens_end=any(option.opens_end for option in options),
        kept=intersection(*(option.kept for option in options)),
        runs=(tuple(option.runs for option in options),),
    )


def repetition(body: PatternPart, least: int, most: int | None, *, is_greedy: bool) -> PatternPart:
    """Return a part from `least` to `most` times; None is without a limit.

    Raises Unsupported for a `$` in what is repeated, or another condition where that may be empty.
    """
    if body.has_end and most != 1:
        raise Unsupported("$ or \\Z in a repetition")
    is_loop = most != 1
    if is_loop and body.least == 0 and body.has_condition:  # Java ends at an empty repetition
        raise Unsupported("^, \\A or \\z in a repetition of what may be empty")
    is_set = body.size == 1 and body.least == 1
    loop = body.first if is_set and most is None and is_greedy else _NO_CHARACTER
    counts = f"{{{least},{'' if most is None else most}}}{'' if is_greedy else '?'}"
    return replace(
        body,
        text=f"(?:{body.text}){counts}",
        least=body.least * least,
        size=1 + body.size * max(least, most or 1),
        loop=loop,
        splits_line_end=body.splits_line_end and not _contains(loop, "\n"),
        looped=body.groups if is_loop else body.looped,
        repeats_nothing=body.repeats_nothing or (is_loop and body.least == 0),
        is_ended=False,
        runs=_repeated(body.runs, least, most),
    )


def capture(body: PatternPart, number: int) -> PatternPart:
    """Return a numbered group."""
    ending = body.ending | {number} if body.has_end else body.ending
    text = f"(?P<g{number}>{body.text})"
    return replace(body, text=text, groups=body.groups | {number}, ending=ending, is_ended=False)


def _joined(text: str, parts: Sequence[PatternPart]) -> PatternPart:
    def numbers(name: str) -> frozenset[int]:
        return frozenset().union(*(getattr(part, name) for part in parts))

    return PatternPart(
        text,
        size=1 + sum(part.size for part in parts),
        groups=numbers("groups"),
        looped=numbers("looped"),
        ending=numbers("ending"),
        repeats_nothing=any(part.repeats_nothing for part in parts),
        has_condition=any(part.has_condition for part in parts),
        has_end=any(part.has_end for part in parts),
    )

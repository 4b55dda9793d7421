r"""The parts of a pattern, each with its text for RE2 and what that text is right for.

Java's `$` stands before a line end that ends the text, and RE2 cannot look ahead. Its text takes
that line end (`TEXT_END`), so nothing may follow it, and what finds parts of texts gives it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from projseg.algebra.expressions.patterns.character_sets import (
    ANY_CHARACTER,
    NO_CHARACTER,
    CodePoints,
    contains,
    intersection,
    re2_set,
    union,
)

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
    """

    text: str
    least: int = 0
    size: int = 1
    first: CodePoints = NO_CHARACTER
    loop: CodePoints = NO_CHARACTER
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


TEXT_START: Final = PatternPart(r"\A", has_condition=True)
NO_MORE_TEXT: Final = PatternPart(r"\z", has_condition=True)
END_OF_TEXT: Final = PatternPart(
    TEXT_END, has_condition=True, has_end=True, opens_end=True, is_ended=True
)


class Unsupported(Exception):
    """Has the name of what RE2 lacks; the parser turns it into the error of the pattern."""


def one_of(members: CodePoints) -> PatternPart:
    """Return the part that is one character of a set."""
    return PatternPart(re2_set(members), 1, first=members, splits_line_end=contains(members, "\r"))


def sequence(parts: Sequence[PatternPart]) -> PatternPart:
    r"""Return parts one after the other.

    Raises
    ------
    Unsupported
        For a `$` before other parts, or where it may stand between `\r` and `\n`.
    """
    if len(parts) == 1:
        return parts[0]
    first, least = NO_CHARACTER, 0
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
        is_passed = part.least == 0 and not contains(part.loop, "\n")
        splits = part.splits_line_end or (splits and is_passed)
        least += part.least
    return replace(
        _joined("".join(part.text for part in parts), parts),
        least=least,
        first=first,
        loop=parts[-1].loop if parts else NO_CHARACTER,
        splits_line_end=splits,
        opens_end=opens,
        is_ended=bool(parts) and parts[-1] is END_OF_TEXT,
        kept=intersection(kept, *(part.kept for part in parts)),
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
    )


def repetition(body: PatternPart, least: int, most: int | None, *, is_greedy: bool) -> PatternPart:
    """Return a part from `least` to `most` times; None is without a limit.

    Raises
    ------
    Unsupported
        For a `$` in what is repeated, or another condition where that may be empty.
    """
    if body.has_end and most != 1:
        raise Unsupported("$ or \\Z in a repetition")
    is_loop = most != 1
    if is_loop and body.least == 0 and body.has_condition:  # Java ends at an empty repetition
        raise Unsupported("^, \\A or \\z in a repetition of what may be empty")
    is_set = body.size == 1 and body.least == 1
    loop = body.first if is_set and most is None and is_greedy else NO_CHARACTER
    counts = f"{{{least},{'' if most is None else most}}}{'' if is_greedy else '?'}"
    return replace(
        body,
        text=f"(?:{body.text}){counts}",
        least=body.least * least,
        size=1 + body.size * max(least, most or 1),
        loop=loop,
        splits_line_end=body.splits_line_end and not contains(loop, "\n"),
        looped=body.groups if is_loop else body.looped,
        repeats_nothing=body.repeats_nothing or (is_loop and body.least == 0),
        is_ended=False,
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

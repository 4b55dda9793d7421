"""Translate a pattern's tree into a pattern of RE2 that matches the same texts.

Sets are written as ranges, so that nothing depends on RE2's names, case folding and tables. RE2's
conditions on line ends and words differ from Java's for some texts. For these the translation does
not decide: a second pattern finds the texts with characters on which the two differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from projseg.algebra.expressions.patterns.code_points import (
    ANY_CHARACTER,
    SURROGATES,
    CodePoints,
    complement,
    intersection,
)
from projseg.algebra.expressions.patterns.nodes import (
    Anchor,
    BackReference,
    Capture,
    Chars,
    Look,
    Node,
    Pattern,
    Place,
    Repeat,
    Sequence,
    Taking,
)
from projseg.algebra.expressions.patterns.program import is_ordered

_COUNT_MAX: Final = 1000
_PAIRS: Final = r"[\x{10000}-\x{10FFFF}]"
_OTHER_LINE_ENDS: Final = r"[\r\x{85}\x{2028}\x{2029}]"
_PLACES: Final[dict[Place, tuple[str, str | None]]] = {
    Place.START: (r"\A", None),
    Place.END: (r"\z", None),
    Place.LAST_LINE_END: (r"\z", r"[\n\r\x{85}\x{2028}\x{2029}]\z"),
    Place.LAST_NEWLINE: (r"\z", r"\n\z"),
    Place.LINE_START: (r"(?m:^)", rf"{_OTHER_LINE_ENDS}|\n\z|\A\z"),
    Place.LINE_END: (r"(?m:$)", _OTHER_LINE_ENDS),
    Place.UNIX_LINE_START: (r"(?m:^)", r"\n\z|\A\z"),
    Place.UNIX_LINE_END: (r"(?m:$)", None),
    Place.WORD_EDGE: (r"\b", r"[^\x00-\x7F]"),
    Place.NO_WORD_EDGE: (r"\B", r"[^\x00-\x7F]"),
}
"""From a place to (RE2's form of it, a pattern of the texts for which that form may be wrong)."""


@dataclass(frozen=True)
class Re2Pattern:
    """RE2's form of a pattern.

    Parameters
    ----------
    pattern : str
        Finds the same texts as Java's pattern does, except among the undecided.
    undecided : str or None
        Finds the texts that `pattern` does not decide; None if it decides all.
    """

    pattern: str
    undecided: str | None


def to_re2(pattern: Pattern) -> Re2Pattern | None:
    """Return RE2's form of a pattern, or None if it has parts that RE2 lacks."""
    nodes = list(pattern.root.walk())
    if is_ordered(pattern) or any(_is_lacking(node) for node in nodes):
        return None
    places = dict.fromkeys(node.place for node in nodes if isinstance(node, Anchor))
    undecided = [other for place in places if (other := _PLACES[place][1]) is not None]
    exact = {place: text for place, (text, _) in _PLACES.items()}
    return Re2Pattern(_text(pattern.root, exact), "|".join(undecided) or None)


def group_re2(pattern: Pattern, number: int) -> Re2Pattern | None:
    """Return RE2's form of a pattern with one group named `found`; group 0 is the whole match.

    Both take the first alternative that leads to a match, so they find the same part of a text
    without characters beyond U+FFFF, of which Java may take half. None if RE2 lacks a part.
    """
    known = to_re2(pattern)
    if known is None:
        return None
    exact = {place: text for place, (text, _) in _PLACES.items()}
    text = _text(pattern.root, exact, number)
    undecided = [_PAIRS, *([known.undecided] if known.undecided is not None else [])]
    return Re2Pattern(text if number else f"(?P<found>{text})", "|".join(undecided))


def necessary_re2(pattern: Pattern) -> str:
    """Return a pattern of RE2 that finds every text that the pattern finds, and perhaps others.

    Conditions that RE2 lacks are left out, and a back reference may be any text.
    """
    return _text(pattern.root, {Place.START: r"\A", Place.END: r"\z"})


def _is_lacking(node: Node) -> bool:
    """Whether RE2 has no such part; it even reads a count far beyond its limit as literal text."""
    is_counted_far = isinstance(node, Repeat) and max(node.least, node.most or 0) > _COUNT_MAX
    return is_counted_far or isinstance(node, Look)


def _text(node: Node, places: Mapping[Place, str], named: int = 0) -> str:
    if isinstance(node, Chars):
        return _set(node.members)
    if isinstance(node, Anchor | Look):
        return places.get(node.place, "") if isinstance(node, Anchor) else ""
    if isinstance(node, BackReference):
        return r"(?s:.*)"
    inner = [_text(child, places, named) for child in node.children]
    if isinstance(node, Repeat):
        return f"(?:{inner[0]}){_counts(node)}{'?' if node.taking is Taking.LEAST else ''}"
    if isinstance(node, Sequence):
        return "".join(inner)
    is_named = isinstance(node, Capture) and node.number == named
    return f"({'?P<found>' if is_named else '?:'}{'|'.join(inner)})"


def _counts(node: Repeat) -> str:
    is_limited = node.most is not None and node.most <= _COUNT_MAX
    return f"{{{min(node.least, _COUNT_MAX)},{node.most if is_limited else ''}}}"


def _set(members: CodePoints) -> str:
    """Return a set as RE2 writes it, without surrogates, which RE2 and UTF-8 text do not have."""
    members = intersection(members, complement(SURROGATES))
    if not members:
        return r"[^\x00-\x{10FFFF}]"
    if members == intersection(ANY_CHARACTER, complement(SURROGATES)):
        return r"(?s:.)"
    if len(members) == 2 and members[1] == members[0] + 1:
        return _character(members[0])
    return f"[{''.join(_ranges(members))}]"


def _ranges(members: CodePoints) -> Iterator[str]:
    for first, end in zip(members[::2], members[1::2], strict=True):
        yield _character(first)
        if end - first > 1:
            yield f"-{_character(end - 1)}"


def _character(code_point: int) -> str:
    character = chr(code_point)
    is_plain = character.isascii() and character.isalnum()
    return character if is_plain else f"\\x{{{code_point:X}}}"

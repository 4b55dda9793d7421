r"""Sets of characters in a pattern: `[...]`, `\p{...}`, and escapes such as `\d`."""

from __future__ import annotations

from typing import Final

from projseg.algebra.expressions.patterns.code_points import (
    NO_CHARACTER,
    CodePoints,
    complement,
    intersection,
    span,
    union,
)
from projseg.algebra.expressions.patterns.flags import Flags
from projseg.algebra.expressions.patterns.letter_case import (
    folded,
    same_folded,
    to_upper,
    with_ascii_cases,
    with_unicode_cases,
)
from projseg.algebra.expressions.patterns.named_sets import (
    DIGIT,
    HORIZONTAL_SPACE,
    SPACE,
    VERTICAL_SPACE,
    WORD,
    named_set,
    unicode_set,
)
from projseg.algebra.expressions.patterns.reader import Reader

_ESCAPES: Final = {
    "d": DIGIT,
    "h": HORIZONTAL_SPACE,
    "s": SPACE,
    "v": VERTICAL_SPACE,
    "w": WORD,
}
_UNICODE_ESCAPES: Final = {"d": "DIGIT", "s": "WHITE_SPACE"}


def one_character(code_point: int, flags: Flags) -> CodePoints:
    """Return the set that a character matches in a class, or with no literal beside it."""
    if not flags.case_insensitive:
        return span(code_point, code_point)
    if not flags.unicode_case:
        return with_ascii_cases(span(code_point, code_point))
    if to_upper(code_point) == folded(code_point):
        return span(code_point, code_point)  # Java folds only letters that have two cases
    return same_folded(code_point)


def character_in_run(code_point: int, flags: Flags) -> CodePoints:
    """Return the set that a character matches in a run of literal characters."""
    is_folded = flags.case_insensitive and flags.unicode_case
    return same_folded(code_point) if is_folded else one_character(code_point, flags)


def escaped_set(reader: Reader, letter: str, flags: Flags) -> CodePoints | None:
    r"""Return the set of an escape whose letter was taken, or None if the escape is not a set.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_EXPRESSION for a `\p` without a name or an end.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FUNCTION for a set that is not known here.
    """
    if letter in ("p", "P"):
        found = _named(reader, flags)
        return complement(found) if letter == "P" else found
    small = letter.lower()
    if not letter.isascii() or small not in _ESCAPES:
        return None
    members = _ESCAPES[small]
    if flags.unicode_classes and small == "w":
        raise reader.unsupported(f"\\{letter} under the flag U")
    if flags.unicode_classes and small in _UNICODE_ESCAPES:
        members = unicode_set(_UNICODE_ESCAPES[small]) or NO_CHARACTER
    return complement(members) if letter.isupper() else members


def _named(reader: Reader, flags: Flags) -> CodePoints:
    if not reader.takes("{"):
        name = reader.take()[-1:]
    else:
        name = ""
        while reader.peek() not in ("}", ""):
            name += reader.take()[-1]
        reader.expect("}", "\\p{...} without its end")
    if not name:
        raise reader.invalid("\\p without a name")
    found = named_set(name, flags.case_insensitive, flags.unicode_classes)
    if found is None:
        raise reader.unsupported(f"the property \\p{{{name}}}")
    return found


def read_class(reader: Reader, flags: Flags) -> CodePoints:
    """Return the set of `[...]`, whose opening bracket was taken.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_EXPRESSION for what Java refuses.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FUNCTION for what is not known here.
    """
    is_negated = reader.takes("^")
    operands: list[CodePoints] = []
    current: list[CodePoints] = []
    has_ampersand = False
    while reader.peek() != "]" or not (current or operands):
        if not reader.peek():
            raise reader.invalid("a class without its end")
        if reader.takes("&&"):
            if not current or reader.peek() in ("]", "&"):
                raise reader.unsupported("an intersection && with an empty side")
            operands.append(union(*current))
            current = []
        elif reader.takes("["):
            current.append(read_class(reader, flags))
        else:
            has_ampersand = has_ampersand or reader.peek() == "&"
            current.append(_range(reader, flags))
    if operands and has_ampersand:
        raise reader.unsupported("a single & beside an intersection &&")
    reader.take()
    members = intersection(*operands, union(*current))
    return complement(members) if is_negated else members


def _range(reader: Reader, flags: Flags) -> CodePoints:
    """Return the set of the next character, range or escape in a class."""
    first = _end_of_range(reader, flags, is_first=True)
    if not isinstance(first, int):
        return first
    if reader.peek() != "-" or reader.peek(1) in ("[", "]", ""):
        return one_character(first, flags)
    reader.take()
    last = _end_of_range(reader, flags, is_first=False)
    if not isinstance(last, int) or last < first:
        raise reader.invalid("a range that ends before it begins")
    members = span(first, last)
    if not flags.case_insensitive:
        return members
    return with_unicode_cases(members) if flags.unicode_case else with_ascii_cases(members)


def _end_of_range(reader: Reader, flags: Flags, is_first: bool) -> int | CodePoints:
    if reader.peek() != "\\":
        return reader.literal()
    reader.take()
    letter = reader.take()
    if letter == "v" and (reader.peek() == "-" or not is_first):
        return 0x0B
    if letter in ("p", "P") and not is_first:
        raise reader.invalid("a range that ends in a property")
    members = escaped_set(reader, letter, flags)
    if members is not None:
        return members
    code_point = reader.escaped(letter)
    if code_point is None:
        raise reader.invalid(f"the escape \\{letter} in a class")
    return code_point

r"""The sets that escapes and `\p{...}` name in a pattern."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from projseg.algebra.expressions.patterns.code_points import (
    ANY_CHARACTER,
    END,
    CodePoints,
    characters,
    complement,
    intersection,
    points,
    span,
    union,
)

LINE_ENDS: Final = characters("\n\r\x85\u2028\u2029")
NEWLINE: Final = characters("\n")
VERTICAL_SPACE: Final = union(LINE_ENDS, characters("\x0b\x0c"))
HORIZONTAL_SPACE: Final = union(
    characters(" \t\xa0\u1680\u180e\u202f\u205f\u3000"), span(0x2000, 0x200A)
)
_UPPER: Final = span(ord("A"), ord("Z"))
_LOWER: Final = span(ord("a"), ord("z"))
_ALPHA: Final = union(_UPPER, _LOWER)
DIGIT: Final = span(ord("0"), ord("9"))
WORD: Final = union(_ALPHA, DIGIT, characters("_"))
SPACE: Final = characters(" \t\n\x0b\x0c\r")
_ASCII: Final = span(0, 0x7F)
_HEX_DIGIT: Final = union(DIGIT, characters("ABCDEFabcdef"))

POSIX: Final[dict[str, CodePoints]] = {
    "ASCII": _ASCII,
    "Alnum": union(_ALPHA, DIGIT),
    "Alpha": _ALPHA,
    "Blank": characters(" \t"),
    "Cntrl": union(span(0, 0x1F), span(0x7F, 0x7F)),
    "Digit": DIGIT,
    "Graph": span(0x21, 0x7E),
    "Lower": _LOWER,
    "Print": span(0x20, 0x7E),
    "Punct": intersection(span(0x21, 0x7E), complement(union(_ALPHA, DIGIT))),
    "Space": SPACE,
    "Upper": _UPPER,
    "XDigit": _HEX_DIGIT,
    "L1": span(0, 0xFF),
    "all": ANY_CHARACTER,
}
_CASES: Final = ("Lu", "Ll", "Lt")
_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "L": ("Lu", "Ll", "Lt", "Lm", "Lo"),
    "M": ("Mn", "Me", "Mc"),
    "N": ("Nd", "Nl", "No"),
    "Z": ("Zs", "Zl", "Zp"),
    "C": ("Cc", "Cf", "Co", "Cs", "Cn"),
    "P": ("Pc", "Pd", "Ps", "Pe", "Po", "Pi", "Pf"),
    "S": ("Sm", "Sc", "Sk", "So"),
    "LC": _CASES,
    "LD": ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd"),
}
_CATEGORIES: Final = frozenset(part for parts in _GROUPS.values() for part in parts)


def named_set(name: str, ignores_case: bool, is_unicode: bool) -> CodePoints | None:
    r"""Return the set of `\p{name}`, or None for a name that is unknown or not supported.

    Parameters
    ----------
    name : str
        As written between the braces.
    ignores_case : bool
        Whether the flag `i` holds; sets of one case then include letters of every case.
    is_unicode : bool
        Whether the flag `U` holds; POSIX names then mean Unicode's sets.
    """
    key, is_pair, value = name.partition("=")
    if is_pair:
        is_category = key.lower() in ("gc", "general_category")
        return _property(value, ignores_case) if is_category else None
    if name.startswith("In"):
        return None
    if name.startswith("Is"):
        found = unicode_set(name[2:], ignores_case)
        return found if found is not None else _property(name[2:], ignores_case)
    if is_unicode and name.upper() in ("ALPHA", "ALNUM"):
        return None
    found = unicode_set(name, ignores_case) if is_unicode and name.upper() in _POSIX_NAMES else None
    return found if found is not None else _property(name, ignores_case)


def _property(name: str, ignores_case: bool) -> CodePoints | None:
    if name in POSIX:
        return _ALPHA if ignores_case and name in ("Lower", "Upper") else POSIX[name]
    if name in _GROUPS or name in _CATEGORIES:
        cased = ignores_case and name in _CASES
        return categories(_CASES if cased else _GROUPS.get(name, (name,)))
    return _java_method(name, ignores_case)


def unicode_set(name: str, ignores_case: bool = False) -> CodePoints | None:
    """Return the set of a binary property or of a POSIX name in Unicode's meaning."""
    key = name.upper().replace("_", "")
    if ignores_case and key in _ONE_CASE:
        return union(*(_UNICODE[case]() for case in ("LOWERCASE", "UPPERCASE", "TITLECASE")))
    make = _UNICODE.get(key)
    return None if make is None else make()


def _java_method(name: str, ignores_case: bool) -> CodePoints | None:
    """Return the set of a method of Java's `Character`, named `javaMethod`."""
    if name in ("javaLowerCase", "javaUpperCase", "javaTitleCase"):
        return unicode_set(name.removeprefix("java"), ignores_case)
    make = _JAVA.get(name)
    return None if make is None else make()


def _whitespace() -> CodePoints:
    """Return Java's white space: without no-break spaces, but with the separators of records."""
    kept = characters("\xa0\u2007\u202f")
    breaking = intersection(categories(_GROUPS["Z"]), complement(kept))
    return union(breaking, span(0x09, 0x0D), span(0x1C, 0x1F))


def _graphic() -> CodePoints:
    return complement(categories((*_GROUPS["Z"], "Cc", "Cs", "Cn")))


def _no_characters() -> CodePoints:
    ends = (plane << 16 | low for plane in range(17) for low in (0xFFFE, 0xFFFF))
    return union(span(0xFDD0, 0xFDEF), points(ends))


def _hex_digits() -> CodePoints:
    wide = union(span(0xFF10, 0xFF19), span(0xFF21, 0xFF26), span(0xFF41, 0xFF46))
    return union(categories(["Nd"]), _HEX_DIGIT, wide)


def categories(names: Iterable[str]) -> CodePoints:
    """Return the code points of general categories, such as "Lu"."""
    return union(*(_all_categories().get(name, ()) for name in names))


@lru_cache(maxsize=1)
def _all_categories() -> dict[str, CodePoints]:
    found: dict[str, list[int]] = {}
    before = ""
    for point in range(END):
        category = unicodedata.category(chr(point))
        if category != before:
            if before:
                found[before].append(point)
            found.setdefault(category, []).append(point)
            before = category
    found[before].append(END)
    return {name: tuple(bounds) for name, bounds in found.items()}


@lru_cache(maxsize=2)
def _of_case(is_case: Callable[[str], bool]) -> CodePoints:
    return points(point for point in range(END) if is_case(chr(point)))


_UNICODE: Final[dict[str, Callable[[], CodePoints]]] = {
    "ASSIGNED": lambda: complement(categories(["Cn"])),
    "BLANK": lambda: union(categories(["Zs"]), characters("\t")),
    "CONTROL": lambda: categories(["Cc"]),
    "DIGIT": lambda: categories(["Nd"]),
    "GRAPH": _graphic,
    "HEXDIGIT": _hex_digits,
    "JOINCONTROL": lambda: span(0x200C, 0x200D),
    "LETTER": lambda: categories(_GROUPS["L"]),
    "LOWERCASE": lambda: _of_case(str.islower),
    "NONCHARACTERCODEPOINT": _no_characters,
    "PRINT": lambda: union(_graphic(), categories(["Zs"])),
    "PUNCTUATION": lambda: categories(_GROUPS["P"]),
    "TITLECASE": lambda: categories(["Lt"]),
    "UPPERCASE": lambda: _of_case(str.isupper),
    "WHITESPACE": lambda: union(categories(_GROUPS["Z"]), span(0x09, 0x0D), span(0x85, 0x85)),
}
_POSIX_NAMES: Final = {
    "LOWER": "LOWERCASE",
    "UPPER": "UPPERCASE",
    "SPACE": "WHITESPACE",
    "PUNCT": "PUNCTUATION",
    "XDIGIT": "HEXDIGIT",
    "CNTRL": "CONTROL",
    "DIGIT": "DIGIT",
    "BLANK": "BLANK",
    "GRAPH": "GRAPH",
    "PRINT": "PRINT",
}
_UNICODE.update({name: _UNICODE[other] for name, other in _POSIX_NAMES.items()})
_ONE_CASE: Final = ("LOWERCASE", "LOWER", "UPPERCASE", "UPPER", "TITLECASE")
_JAVA: Final[dict[str, Callable[[], CodePoints]]] = {
    "javaDefined": _UNICODE["ASSIGNED"],
    "javaDigit": _UNICODE["DIGIT"],
    "javaISOControl": _UNICODE["CONTROL"],
    "javaLetter": _UNICODE["LETTER"],
    "javaLetterOrDigit": lambda: categories(_GROUPS["LD"]),
    "javaSpaceChar": lambda: categories(_GROUPS["Z"]),
    "javaWhitespace": _whitespace,
}

"""The flags that `(?...)` sets within a pattern."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from projseg.algebra.expressions.patterns.reader import Reader


@dataclass(frozen=True)
class Flags:
    """Which flags hold at a place in the pattern; each is named after Java's."""

    case_insensitive: bool = False
    multiline: bool = False
    dot_all: bool = False
    unix_lines: bool = False
    unicode_case: bool = False
    unicode_classes: bool = False


_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "i": ("case_insensitive",),
    "m": ("multiline",),
    "s": ("dot_all",),
    "d": ("unix_lines",),
    "u": ("unicode_case",),
    "U": ("unicode_classes", "unicode_case"),
}


def read_flags(reader: Reader, flags: Flags) -> Flags:
    """Take letters such as `im-s` and return the flags that hold after them.

    Raises
    ------
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FUNCTION for the flags x and c.
    """
    is_set = True
    while (letter := reader.peek()) in _NAMES or letter in ("-", "x", "c"):
        if letter in ("x", "c"):
            raise reader.unsupported(f"the flag {letter}")
        if letter == "-" and not is_set:
            break
        reader.take()
        if letter == "-":
            is_set = False
        else:
            flags = replace(flags, **dict.fromkeys(_NAMES[letter], is_set))
    return flags

"""Regular expressions as Java's `java.util.regex.Pattern`, and so Spark's RLIKE, means them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projseg.memory.late_import import late_import

if TYPE_CHECKING:
    from projseg.algebra.expressions.patterns.finder import Finder
    from projseg.algebra.expressions.patterns.java_regex import JavaRegex
    from projseg.algebra.expressions.patterns.replacer import Replacer


def read_pattern(text: str) -> JavaRegex:
    """Return the parsed pattern, from a cache if it was parsed before.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError, LimitExceededError
        As `JavaRegex` does.
    """
    with late_import:
        from projseg.algebra.expressions.patterns.java_regex import java_regex
    return java_regex(text)


def read_finder(text: str, group: int) -> Finder:
    """Return what finds a group of a pattern, from a cache if it was asked for before.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError, LimitExceededError
        As `Finder` does.
    """
    with late_import:
        from projseg.algebra.expressions.patterns.finder import finder
    return finder(text, group)


def read_replacer(text: str, replacement: str) -> Replacer:
    """Return what replaces a pattern, from a cache if it was asked for before.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError, LimitExceededError
        As `Replacer` does.
    """
    with late_import:
        from projseg.algebra.expressions.patterns.replacer import replacer
    return replacer(text, replacement)

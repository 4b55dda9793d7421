"""Regular expressions as Java's `java.util.regex.Pattern`, and so Spark's RLIKE, means them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projseg.memory.late_import import late_import

if TYPE_CHECKING:
    from projseg.algebra.expressions.regex.java_regex import JavaRegex


def read_pattern(text: str) -> JavaRegex:
    """Return a pattern, read once; see `JavaRegex` for what is refused."""
    with late_import:
        from projseg.algebra.expressions.regex.java_regex import java_regex
    return java_regex(text)

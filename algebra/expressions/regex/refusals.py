"""The two ways to refuse a pattern: Java would, or its meaning is not known here."""

from __future__ import annotations

from projseg.algebra.expressions.coercion import bad_expression
from projseg.errors import InvalidInputError, UnsupportedFeatureError


def invalid(pattern: str, reason: str) -> InvalidInputError:
    """Return the error of a text that is no pattern of Java's."""
    return bad_expression(f"'{pattern}' is not a regular expression: {reason}")


def unsupported(pattern: str, construct: str) -> UnsupportedFeatureError:
    """Return the error of a pattern that Java takes and projseg does not."""
    return UnsupportedFeatureError(
        "PROJSEG_UNSUPPORTED_FUNCTION",
        f"the regular expression '{pattern}' has {construct}, which is not supported; "
        "docs/functions.md lists what is",
    )

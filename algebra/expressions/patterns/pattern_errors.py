"""The errors of patterns: Java refuses them too, or they are not supported here."""

from __future__ import annotations

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

"""SQL text without its literals, for metadata that outlive the rows which a condition named."""

from __future__ import annotations

from typing import Final

from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.algebra.expressions.text.spark_dialect import SparkExpression

_PLACEHOLDER: Final = "?"
_LITERALS: Final = frozenset(
    {
        TokenType.STRING,
        TokenType.NUMBER,
        TokenType.BIT_STRING,
        TokenType.HEX_STRING,
        TokenType.BYTE_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.RAW_STRING,
        TokenType.UNICODE_STRING,
        TokenType.HEREDOC_STRING,
    }
)
_TEXTS: Final = frozenset({TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.RAW_STRING})


def hide_literals(sql: str) -> str:
    """Return an SQL text with `?` for each number and text in it, and without comments.

    Names, functions, operators and `:parameters` stay as they are written; so do `true`, `false`
    and `null`. A text that cannot be read is `?` as a whole.
    """
    try:
        tokens = SparkExpression().tokenize(sql)
    except (SqlglotError, RecursionError):
        return _PLACEHOLDER
    found: list[str] = []
    end = 0
    for token in tokens:
        if token.start < end:  # the type of a number like 5L, which is part of its text
            continue
        is_literal = _is_literal(token)
        is_one_text = is_literal and found[-1:] == [_PLACEHOLDER]
        if token.start > end and found and not is_one_text:
            found.append(" ")
        if not is_one_text:
            found.append(_PLACEHOLDER if is_literal else sql[token.start : token.end + 1])
        end = token.end + 1
    return "".join(found)


def text_literals(sql: str) -> list[str]:
    """Return the texts that stand in an SQL text; none of one that cannot be read."""
    try:
        tokens = SparkExpression().tokenize(sql)
    except (SqlglotError, RecursionError):
        return []
    return [token.text for token in tokens if token.token_type in _TEXTS]


def _is_literal(token: Token) -> bool:
    text = token.text
    starts_as_number = token.token_type == TokenType.VAR and text[:1].isdigit()
    return token.token_type in _LITERALS or starts_as_number

"""SELECTs within a SELECT: one in brackets after FROM, and those that WITH names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.algebra.expressions.text.clauses import outside_brackets
from projseg.algebra.query.unsupported_sql import bad_sql, unsupported

_BEGINNINGS: Final = (TokenType.SELECT, TokenType.FROM, TokenType.WITH)
"""The words that a SELECT in brackets begins with."""


def common_tables(
    sql: str, tokens: Sequence[Token]
) -> tuple[list[tuple[str, Sequence[Token]]], Sequence[Token]]:
    """Return what WITH names, as names and tokens, and the tokens of the SELECT after it.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_SQL.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_SQL for WITH RECURSIVE and lists of columns.
    """
    found: list[tuple[str, Sequence[Token]]] = []
    if tokens[0].token_type != TokenType.WITH:
        return found, tokens
    place = 1
    while True:
        name = _at(tokens, place)
        is_recursive = name.text.upper() == "RECURSIVE"
        place += 1
        if _at(tokens, place).token_type == TokenType.ALIAS:
            place += 1
        if is_recursive and _at(tokens, place).token_type != TokenType.L_PAREN:
            raise unsupported(sql, name, "WITH RECURSIVE")
        end = _closing(tokens, place)
        body = tokens[place + 1 : end]
        if not body or body[0].token_type not in _BEGINNINGS:
            raise unsupported(sql, tokens[place], "something other than a SELECT after WITH")
        found.append((name.text, body))
        place = end + 1
        if _at(tokens, place).token_type != TokenType.COMMA:
            return found, tokens[place:]
        place += 1


def split_subquery(tokens: Sequence[Token]) -> tuple[Sequence[Token], Sequence[Token] | None]:
    """Return a SELECT's tokens without those in the brackets after FROM, and these, if any."""
    before: TokenType | None = None
    for token in outside_brackets(tokens):
        if token.token_type == TokenType.FROM and before != TokenType.DISTINCT:
            place = next(n for n, one in enumerate(tokens) if one is token) + 1
            kinds = [one.token_type for one in tokens[place : place + 2]]
            if kinds[:1] != [TokenType.L_PAREN] or kinds[-1] not in _BEGINNINGS:
                return tokens, None
            end = _closing(tokens, place)
            return [*tokens[: place + 1], *tokens[end:]], tokens[place + 1 : end]
        before = token.token_type
    return tokens, None


def _at(tokens: Sequence[Token], place: int) -> Token:
    if place >= len(tokens):
        raise bad_sql("a text that ends within WITH; write WITH x AS (SELECT ...) SELECT ...")
    return tokens[place]


def _closing(tokens: Sequence[Token], place: int) -> int:
    """Return where the bracket at a place is closed."""
    if _at(tokens, place).token_type != TokenType.L_PAREN:
        raise bad_sql(f"'{tokens[place].text}' where a SELECT in brackets is due", tokens[place])
    depth = 0
    for position in range(place, len(tokens)):
        kind = tokens[position].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if depth == 0:
            return position
    raise bad_sql("a bracket is left open", tokens[place])

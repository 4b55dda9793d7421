"""Take SQL apart at the keywords that open its clauses, without changing a character of it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.algebra.expressions.coercion import bad_expression
from projseg.algebra.expressions.text.dialect import SparkExpression

_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


class Clause(msgspec.Struct, frozen=True):
    """A keyword, and what follows it up to the next clause.

    Parameters
    ----------
    keyword : Token
        What opens it.
    tokens : tuple of Token
        What stands after the keyword.
    text : str
        The same as it is written.
    """

    keyword: Token
    tokens: tuple[Token, ...]
    text: str


def sql_tokens(sql: str) -> list[Token]:
    """Return the tokens of an SQL text; `start` and `end`, the last character, are places in it.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_EXPRESSION if a quote or a comment is left open.
    """
    try:
        return SparkExpression().tokenize(sql)
    except SqlglotError as error:
        reason = " ".join(str(error).split())
        raise bad_expression(f"SQL that cannot be read: {reason}") from error


def outside_brackets(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens that stand in no brackets; brackets themselves are left out."""
    depth = 0
    for token in tokens:
        is_bracket = token.token_type in _OPENING or token.token_type in _CLOSING
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth == 0 and not is_bracket:
            yield token


def clauses(sql: str, tokens: Sequence[Token], keywords: Container[TokenType]) -> list[Clause]:
    """Return the clauses of a text in their order; what stands before the first is left out.

    Parameters
    ----------
    sql : str
        The text.
    tokens : sequence of Token
        Its tokens.
    keywords : container of TokenType
        What opens a clause; FROM after DISTINCT, as in `a IS DISTINCT FROM b`, does not.
    """
    openings, before = [], None
    for token in outside_brackets(tokens):
        if token.token_type in keywords and before != TokenType.DISTINCT:
            openings.append(token)
        before = token.token_type
    bounds = pairwise([*(token.start for token in openings), len(sql)])
    return [
        Clause(
            keyword,
            tuple(token for token in tokens if keyword.end < token.start < end),
            sql[keyword.end + 1 : end].strip(),
        )
        for keyword, (_, end) in zip(openings, bounds, strict=True)
    ]


def list_parts(tokens: Sequence[Token]) -> list[tuple[Token, ...]]:
    """Return the parts of a list, which commas outside brackets separate."""
    commas = {id(t) for t in outside_brackets(tokens) if t.token_type == TokenType.COMMA}
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if id(token) in commas:
            parts.append([])
        else:
            parts[-1].append(token)
    return [tuple(part) for part in parts]

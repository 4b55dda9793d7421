"""The table in FROM: its name and version, or the SELECT in its place, in brackets or by WITH."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not in its __all__

from projseg.algebra.expressions.parameters.parameter_places import misplaced, parameter_places
from projseg.algebra.expressions.text.dialect import Clause, outside_brackets
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


_AS_OF: Final = re.compile(
    r"(?:for\s+)?(?P<kind>version|system_version|timestamp|system_time)\s+as\s+of\s+"
    r"(?:(?P<number>[0-9]+)|'(?P<text>[^'\\]*)'|(?P<other>))\s*",
    re.IGNORECASE,
)
_ALIAS: Final = re.compile(r"(?:as\s+)?(?:(?P<plain>[^\W\d]\w*)|`(?P<quoted>(?:[^`]|``)+)`)", re.I)
_JOINS: Final = frozenset(
    ("JOIN", "CROSS", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL", "ASOF")
)


class SelectedTable(msgspec.Struct, frozen=True):
    """A table that FROM names.

    Parameters
    ----------
    names : tuple of str
        What stands before the dot of its columns, in any case: the alias, or parts of the name.
    version : int or None
        The version asked for by number.
    tag : str or None
        The version asked for by tag.
    timestamp : str or None
        The instant whose version is asked for.
    written : str
        Its name as FROM has it, dots included; empty for a subquery.
    """

    names: tuple[str, ...]
    version: int | None = None
    tag: str | None = None
    timestamp: str | None = None
    written: str = ""

    @property
    def is_versioned(self) -> bool:
        """Whether a version is asked for."""
        return (self.version, self.tag, self.timestamp) != (None, None, None)

    def is_named(self, parts: tuple[str, ...]) -> bool:
        """Whether a dotted name, or the end of one, is this table's."""
        folded = tuple(name.casefold() for name in self.names)
        return tuple(part.casefold() for part in parts) == folded[-len(parts) :]


def parse_table(sql: str, clause: Clause, *, is_subquery: bool = False) -> SelectedTable:
    """Return the table of a FROM clause.

    Parameters
    ----------
    sql : str
        The statement.
    clause : Clause
        FROM and what follows it.
    is_subquery : bool
        Whether it begins with the brackets of a subquery, which stand empty.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_SQL.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_SQL if it is no table's name, or more than one.
    """
    _refuse_parameters(clause)
    names, rest = ((), clause.tokens[2:]) if is_subquery else _name(sql, clause)
    written = ".".join(names)
    if not rest:
        return SelectedTable(names, written=written)
    text, offset = sql[rest[0].start : rest[-1].end + 1], rest[0].start
    as_of, place = None if is_subquery else _AS_OF.match(text), 0
    if as_of is not None and as_of["other"] is not None:
        raise unsupported(sql, rest[0], "a version that is no number and no text in quotes")
    if as_of is not None:
        place = as_of.end()
    alias = _ALIAS.match(text, place)
    if alias is not None and (alias["plain"] or "").upper() not in _JOINS:
        place = alias.end()
        names = ((alias["plain"] or alias["quoted"].replace("``", "`")),)
    if left := [token for token in rest if token.start >= offset + place]:
        raise unsupported(sql, left[0], _what(left[0]))
    if as_of is None:
        return SelectedTable(names, written=written)
    if as_of["kind"].upper() in ("TIMESTAMP", "SYSTEM_TIME"):
        if as_of["text"] is None:
            raise bad_sql(f"{as_of[0].strip()} is not a time in quotes", rest[0])
        return SelectedTable(names, timestamp=as_of["text"], written=written)
    number = as_of["number"] or as_of["text"]
    if number.isascii() and number.isdigit():
        return SelectedTable(names, version=int(number), written=written)
    return SelectedTable(names, tag=number, written=written)


def _refuse_parameters(clause: Clause) -> None:
    for place in parameter_places(clause.tokens):
        raise misplaced(f":{clause.tokens[place].text}", "stands in FROM")


def _name(sql: str, clause: Clause) -> tuple[tuple[str, ...], tuple[Token, ...]]:
    """Return the parts of the table's name, and the tokens after it."""
    tokens = clause.tokens
    names: list[str] = []
    for place in range(0, len(tokens), 2):
        token = tokens[place]
        if token.token_type != TokenType.IDENTIFIER and not token.text.isidentifier():
            raise unsupported(sql, token, _what(token, "something that is no table's name"))
        names.append(token.text)
        after = tokens[place + 1 : place + 2]
        if after and after[0].token_type == TokenType.L_PAREN:
            raise unsupported(sql, token, "a table function or VALUES")
        if not after or after[0].token_type != TokenType.DOT:
            return tuple(names), tokens[place + 1 :]
    raise bad_sql("the table's name ends in a dot", clause.keyword)


def _what(token: Token, otherwise: str = "more than one table's name") -> str:
    if token.token_type == TokenType.COMMA or token.text.upper() in _JOINS:
        return "a join"
    return "brackets in FROM" if token.token_type == TokenType.L_PAREN else otherwise

"""A statement of DuckDB's: its SELECTs over our tables, each replaced by the answer to a question.

Only these SELECTs are written anew; all other text stays as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from sqlglot import tokenize
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # not in its __all__

from projseg.doors.duckdb_scope import DifferentMeaningError, Session, folded
from projseg.doors.duckdb_select import GroupedSelect, grouped_select

_OPENING: Final = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING: Final = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_SET_OPERATIONS: Final = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
_OF_ALL_BRANCHES: Final = ("ORDER", "ORDER BY", "LIMIT", "OFFSET")
_CHARACTERS_MAX: Final = 50_000
_OF_WITH: Final = ("MATERIALIZED", "NOT")
_FIRST: Final = (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN)


class FoundSelect(NamedTuple):
    """A SELECT at [start, end) of a statement, how a question of ours answers it, or why none does.

    `tables` has the keys of our tables that it names.
    """

    start: int
    end: int
    text: str
    grouped: GroupedSelect | None
    reason: str
    tables: tuple[str, ...]


class Statement(NamedTuple):
    """A statement whose parameters all have names, and its SELECTs over our tables, in order.

    None stands within one that is answered.
    """

    text: str
    selects: tuple[FoundSelect, ...]

    @property
    def is_one_select(self) -> bool:
        """Whether it is a SELECT over our tables and nothing else."""
        return len(self.selects) == 1 and self.selects[0].text == self.text.strip(" \t\r\n;")


def read_statement(
    text: str,
    arguments: Sequence[Any] | Mapping[str, Any],
    tables: Mapping[str, pa.Schema],
    session: Session,
) -> Statement:
    """Return a statement with its SELECTs over our tables; the session has no arguments yet.

    Raises DifferentMeaningError if it is no query, or its SELECTs are not certain.
    """
    tokens = _tokens(text)
    if tokens[0].token_type not in _FIRST:
        raise DifferentMeaningError("it begins with another word than SELECT and WITH")
    values = values_by_name(arguments)
    named = _with_named_parameters(text, tokens, values, by_place=values is not arguments)
    tokens = tokens if named == text else _tokens(named)
    _refuse_hidden_names(tokens, tables)
    session = session._replace(arguments=values)
    selects: list[FoundSelect] = []
    for start, end in _selects(tokens):
        first, last = tokens[start].start, tokens[end].end + 1
        if selects and selects[-1].grouped and first < selects[-1].end:
            continue  # it stands within one that is answered
        names = _names_in(tokens[start : end + 1], tables)
        if not names:
            continue
        grouped, reason, own = None, "", named[first:last]
        try:
            grouped = grouped_select(own, tables, session)
        except DifferentMeaningError as error:
            reason = str(error)
        selects.append(FoundSelect(first, last, own, grouped, reason, names))
    return Statement(named, tuple(_reading(selects, tokens, tables)))


def _reading(
    selects: Sequence[FoundSelect], tokens: Sequence[Token], tables: Mapping[str, pa.Schema]
) -> Iterator[FoundSelect]:
    """Yield SELECTs but for those that name tables only within others that are answered."""
    answered = [one for one in selects if one.grouped is not None]
    for one in selects:
        own = [
            token for token in tokens
            if one.start <= token.start < one.end
            and not any(inner.start <= token.start < inner.end for inner in answered)
        ]  # fmt: skip
        names = _names_in(own, tables)
        if one.grouped is not None:
            yield one
        elif names:
            yield one._replace(tables=names)


def _tokens(text: str) -> list[Token]:
    """Return a statement's tokens without the semicolon at its end."""
    if len(text) > _CHARACTERS_MAX:
        raise DifferentMeaningError(f"it has more than {_CHARACTERS_MAX:,} characters")
    for odd, name in (("/*", "a comment in /* */"), ("$$", "a text in $$"), ("\\", "a backslash")):
        if odd in text:
            raise DifferentMeaningError(f"it has {name}")
    try:
        tokens = tokenize(text, read="duckdb")
    except SqlglotError as error:
        raise DifferentMeaningError(f"it is not understood: {str(error)[:200]}") from error
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens or any(token.token_type == TokenType.SEMICOLON for token in tokens):
        raise DifferentMeaningError("it is not one statement")
    return tokens


def values_by_name(arguments: Sequence[Any] | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of parameters by the names that a `Statement` has for them."""
    if isinstance(arguments, Mapping):
        return arguments
    return {f"p{place}": value for place, value in enumerate(arguments, 1)}


def _with_named_parameters(
    text: str, tokens: Sequence[Token], values: Mapping[str, Any], *, by_place: bool
) -> str:
    """Return a text in which `?` and `$1` are `$p1`, if values are given by their places."""
    pieces, done, place = [], 0, 0
    for token, after in zip(tokens, [*tokens[1:], tokens[-1]], strict=True):
        if token.token_type == TokenType.PLACEHOLDER:
            place += 1
            number, end = str(place), token.end + 1
        elif token.token_type == TokenType.PARAMETER:
            number, end = after.text, after.end + 1
        else:
            continue
        name = f"p{number}" if by_place else number
        if name not in values:
            raise DifferentMeaningError("a parameter is given no value")
        pieces.append(f"{text[done : token.start]}${name}")
        done = end
    return "".join([*pieces, text[done:]])


def _refuse_hidden_names(tokens: Sequence[Token], tables: Mapping[str, pa.Schema]) -> None:
    """Refuse a statement in which WITH may give a table's name to something else."""
    followed = zip(tokens, tokens[1:], tokens[2:], strict=False)
    for token, after, then in followed:
        is_hiding = after.token_type == TokenType.L_PAREN or (
            after.text.upper() == "AS"
            and (then.token_type == TokenType.L_PAREN or then.text.upper() in _OF_WITH)
        )
        if is_hiding and _names_in([token], tables):
            raise DifferentMeaningError(f"WITH may hide the table {token.text}")


def _names_in(tokens: Sequence[Token], tables: Mapping[str, pa.Schema]) -> tuple[str, ...]:
    """Return the keys of the tables that some tokens may name."""
    words = {folded(token.text) for token in tokens}
    return tuple(key for key in tables if any(f".{key}".endswith(f".{word}") for word in words))


def _selects(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last token of each SELECT, before those that stand within it."""
    levels = _levels(tokens)
    for place, token in enumerate(tokens):
        if token.token_type != TokenType.SELECT:
            continue
        level = levels[place]
        start = max((n + 1 for n in range(place) if levels[n] < level), default=0)
        end = min((n for n in range(place, len(tokens)) if levels[n] < level), default=len(tokens))
        operations = [
            n for n in range(start, end)
            if levels[n] == level and tokens[n].token_type in _SET_OPERATIONS
        ]  # fmt: skip
        if operations:
            end = min((n for n in operations if n > place), default=end)
            # What sorts a UNION stands behind its last branch.
            end = min(
                (n for n in range(place, end)
                 if levels[n] == level and tokens[n].text.upper() in _OF_ALL_BRANCHES),
                default=end,
            )  # fmt: skip
        yield place, end - 1


def _levels(tokens: Sequence[Token]) -> list[int]:
    """Return in how many brackets each token stands; brackets themselves stand outside."""
    levels, level = [], 0
    for token in tokens:
        level -= token.token_type in _CLOSING
        levels.append(level)
        level += token.token_type in _OPENING
    return levels

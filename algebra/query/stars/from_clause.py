"""FROM with several tables: what is joined, how, and by which conditions.

Conditions are kept as texts, each conjunct by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.algebra.expressions.text.dialect import Clause, clauses, list_parts, outside_brackets
from projseg.algebra.query.select_table import SelectedTable, parse_table
from projseg.algebra.query.unsupported_sql import bad_sql, unsupported

_KINDS: Final = {
    (): "inner",
    ("INNER",): "inner",
    ("CROSS",): "inner",
    ("LEFT",): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT",): "right",
    ("RIGHT", "OUTER"): "right",
    ("LEFT", "SEMI"): "semi",
    ("SEMI",): "semi",
    ("LEFT", "ANTI"): "anti",
    ("ANTI",): "anti",
}
"""From the words before JOIN to the kind of join."""
_WORDS: Final = frozenset(
    ("INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL", "ASOF")
)
_OF_SUBQUERIES: Final = (TokenType.SELECT, TokenType.FROM, TokenType.WHERE)


class WrittenJoin(msgspec.Struct, frozen=True):
    """A table that is joined to those before it.

    Parameters
    ----------
    kind : str
        inner, left, right, semi or anti.
    table : SelectedTable
        The table.
    terms : tuple of str
        The conjuncts of ON.
    using : tuple of str
        The columns of USING.
    members : tuple of (str, str)
        Of `x IN (SELECT y FROM ...)`, a semi join: each x, and its y, which is over the table.
    where : tuple of str
        The conjuncts of the subquery's WHERE, over the table.
    """

    kind: str
    table: SelectedTable
    terms: tuple[str, ...] = ()
    using: tuple[str, ...] = ()
    members: tuple[tuple[str, str], ...] = ()
    where: tuple[str, ...] = ()


def parse_from(sql: str, clause: Clause) -> tuple[SelectedTable, tuple[WrittenJoin, ...]]:
    """Return the first table of FROM, and those joined to it.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_SQL.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_SQL for full and natural joins, and for what is no table.
    """
    (_, first), *others = _pieces(sql, clause)
    joins = tuple(_join(sql, clause, kind, tokens) for kind, tokens in others)
    return _table(sql, clause, first), joins


def split_conjuncts(tokens: Sequence[Token]) -> list[tuple[Token, ...]]:
    """Return the conditions that AND connects; one with OR outside brackets stays whole."""
    outside = {id(token) for token in outside_brackets(tokens)}
    parts: list[list[Token]] = [[]]
    betweens = cases = 0
    for token in tokens:
        kind = token.token_type if id(token) in outside else None
        if kind == TokenType.OR and cases == 0:
            return [tuple(tokens)]
        cases += (kind == TokenType.CASE) - (kind == TokenType.END)
        betweens += kind == TokenType.BETWEEN and cases == 0
        if kind == TokenType.AND and cases == 0:
            if betweens == 0:
                parts.append([])
                continue
            betweens -= 1
        parts[-1].append(token)
    return [tuple(part) for part in parts]


def without_subqueries(tokens: Sequence[Token]) -> tuple[list[Token], dict[int, list[Token]]]:
    """Return tokens without those of SELECTs in IN (...), and these by their bracket's place."""
    kept: list[Token] = []
    found: dict[int, list[Token]] = {}
    opened, depth = None, 0
    for place, token in enumerate(tokens):
        kinds = [one.token_type for one in tokens[max(place - 1, 0) : place + 2]]
        if opened is None:
            kept.append(token)
            if kinds == [TokenType.IN, TokenType.L_PAREN, TokenType.SELECT]:
                opened, depth, found[token.start] = token.start, 1, []
            continue
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0:
            opened = None
            kept.append(token)
        else:
            found[opened].append(token)
    return kept, found


def parse_where(
    sql: str, clause: Clause, subqueries: dict[int, list[Token]]
) -> tuple[tuple[str, ...], tuple[WrittenJoin, ...]]:
    """Return the conjuncts of WHERE, and those of them that are `x IN (SELECT ...)` as joins.

    Raises
    ------
    InvalidInputError, UnsupportedFeatureError
        As of `parse_from`; also for a subquery in another place.
    """
    terms: list[str] = []
    joins: list[WrittenJoin] = []
    for part in split_conjuncts(clause.tokens):
        if not part:
            raise bad_sql("a condition of AND is empty", clause.keyword)
        inner = next((t for t in part if t.start in subqueries), None)
        if inner is None:
            terms.append(_text(sql, part))
            continue
        body = subqueries[inner.start]
        kinds = [token.token_type for token in part]
        is_whole = kinds[-3:] == [TokenType.IN, TokenType.L_PAREN, TokenType.R_PAREN]
        if not is_whole or part[-2] is not inner or TokenType.NOT in kinds or len(part) < 4:
            remedy = (
                "x IN (SELECT ...) may stand by itself between the ANDs of WHERE; write NOT IN "
                "and NOT EXISTS as LEFT ANTI JOIN"
            )
            raise unsupported(sql, body[0], "a subquery in this place", remedy)
        joins.append(_membership(sql, part[:-3], body))
    return tuple(terms), tuple(joins)


def _membership(sql: str, left: Sequence[Token], body: Sequence[Token]) -> WrittenJoin:
    """Return `left IN (body)` as a semi join."""
    found = {one.keyword.token_type: one for one in clauses(sql, body, _OF_SUBQUERIES)}
    remedy = "write IN (SELECT column FROM t [WHERE ...])"
    begins = sum(token.token_type == TokenType.SELECT for token in body)
    if begins > 1 or not {TokenType.SELECT, TokenType.FROM} <= found.keys():
        raise unsupported(sql, body[0], "a subquery of another form", remedy)
    outputs = found[TokenType.SELECT].tokens
    if outputs and outputs[0].token_type == TokenType.DISTINCT:
        outputs = outputs[1:]
    columns = [_text(sql, part) for part in list_parts(outputs) if part]
    values = [_text(sql, left)]
    if len(columns) > 1 and left[0].token_type == TokenType.L_PAREN:
        values = [_text(sql, part) for part in list_parts(left[1:-1]) if part]
    if len(values) != len(columns):
        raise bad_sql(f"IN compares {len(values)} values with {len(columns)} columns", body[0])
    where: tuple[str, ...] = ()
    if TokenType.WHERE in found:
        parts = split_conjuncts(found[TokenType.WHERE].tokens)
        if not all(parts):
            raise bad_sql("a condition of AND is empty", found[TokenType.WHERE].keyword)
        where = tuple(_text(sql, part) for part in parts)
    return WrittenJoin(
        "semi",
        parse_table(sql, found[TokenType.FROM]),
        members=tuple(zip(values, columns, strict=True)),
        where=where,
    )


def _pieces(sql: str, clause: Clause) -> Iterator[tuple[str, tuple[Token, ...]]]:
    """Yield the parts of FROM with how they are joined."""
    tokens = clause.tokens
    outside = {id(token) for token in outside_brackets(tokens)}
    kind, piece, place = "inner", list[Token](), 0
    while place < len(tokens):
        words = _join_words(tokens, place, outside)
        if words is not None or (
            tokens[place].token_type == TokenType.COMMA and id(tokens[place]) in outside
        ):
            yield kind, tuple(piece)
            found = _KINDS.get(words or ())
            if found is None:
                what = f"a {' '.join(words or ()).lower()} join"
                raise unsupported(sql, tokens[place], what)
            kind, piece = found, []
            place += 1 if words is None else len(words) + 1
            continue
        piece.append(tokens[place])
        place += 1
    yield kind, tuple(piece)


def _join_words(tokens: Sequence[Token], place: int, outside: set[int]) -> tuple[str, ...] | None:
    """Return the words before JOIN if a join begins at a place."""
    words: list[str] = []
    while place < len(tokens) and id(tokens[place]) in outside:
        word = tokens[place].text.upper()
        if tokens[place].token_type == TokenType.JOIN or word == "JOIN":
            return tuple(words)
        if word not in _WORDS or len(words) == 3:
            return None
        words.append(word)
        place += 1
    return None


def _join(sql: str, clause: Clause, kind: str, tokens: Sequence[Token]) -> WrittenJoin:
    outside = {id(token) for token in outside_brackets(tokens)}
    opening = next(
        (
            place
            for place, token in enumerate(tokens)
            if id(token) in outside and token.text.upper() in ("ON", "USING")
        ),
        len(tokens),
    )
    table = _table(sql, clause, tokens[:opening])
    if opening == len(tokens):
        return WrittenJoin(kind, table)
    rest = tokens[opening + 1 :]
    word = tokens[opening]
    if not rest:
        raise bad_sql(f"nothing follows {word.text.upper()}", word)
    if word.text.upper() == "USING":
        names = [part for part in list_parts(rest[1:-1]) if part]
        if rest[0].token_type != TokenType.L_PAREN or any(len(one) > 1 for one in names):
            raise bad_sql("USING takes names of columns in brackets", word)
        return WrittenJoin(kind, table, using=tuple(one[0].text for one in names))
    parts = split_conjuncts(rest)
    if not all(parts):
        raise bad_sql("a condition of AND is empty", word)
    return WrittenJoin(kind, table, tuple(_text(sql, part) for part in parts))


def _table(sql: str, clause: Clause, tokens: Sequence[Token]) -> SelectedTable:
    if not tokens:
        raise bad_sql("a table's name is missing in FROM", clause.keyword)
    return parse_table(sql, Clause(clause.keyword, tuple(tokens), _text(sql, tokens)))


def _text(sql: str, tokens: Sequence[Token]) -> str:
    return sql[tokens[0].start : tokens[-1].end + 1]

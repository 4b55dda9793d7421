"""The SQL form of a projection: `SELECT [DISTINCT] ... [WHERE ...] [GROUP BY ...]`, without FROM.

Clauses are found among sqlglot's tokens and cut out of the text unchanged, so that only `bind` has
to understand the expressions.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.algebra.aggregates.functions import AGGREGATES, ALIASES
from projseg.algebra.druid.declaration import ProjectionTexts
from projseg.algebra.expressions.bind import split_list
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.expressions.limits import room_to_recurse
from projseg.errors import InvalidInputError

_CLAUSES: Final = {
    TokenType.SELECT: "SELECT",
    TokenType.WHERE: "WHERE",
    TokenType.GROUP_BY: "GROUP BY",
}
_REFUSED: Final = {
    TokenType.FROM: "FROM (a projection's rows are its table's)",
    TokenType.HAVING: "HAVING",
    TokenType.ORDER_BY: "ORDER BY (the order of grouping columns is the sort order)",
    TokenType.LIMIT: "LIMIT",
    TokenType.JOIN: "JOIN",
    TokenType.UNION: "UNION",
    TokenType.SEMICOLON: "a second statement",
}


def translate_sql(name: Any, sql: Any) -> ProjectionTexts:
    """Return the texts of a SELECT; outputs with an aggregate are aggregators, others group.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_PROJECTION if the text is not such a SELECT.
    """
    owner = f"projection {name!r}"
    if not isinstance(sql, str):
        _refuse(owner, f"needs 'sql' as text, found {sql!r}")
    clauses = _clauses(owner, sql.strip())
    outputs = split_list(clauses.get("DISTINCT", clauses["SELECT"]))
    plain = [text for text in outputs if not is_aggregate(text)]
    aggregators = [text for text in outputs if is_aggregate(text)]
    listed = clauses.get("GROUP BY")
    if "DISTINCT" in clauses:
        _check_distinct(owner, listed, aggregators)
    elif listed is None and plain:
        _refuse(
            owner,
            f"puts out '{plain[0]}' without GROUP BY, which means rows and not groups; write "
            "GROUP BY ALL, or SELECT DISTINCT where there is no aggregate",
        )
    is_all = listed is None or listed.upper() == "ALL"
    group_by = plain if is_all else _ordered(owner, outputs, plain, split_list(listed or ""))
    return ProjectionTexts(name, tuple(group_by), tuple(aggregators), clauses.get("WHERE"))


def _refuse(owner: str, problem: str) -> NoReturn:
    raise InvalidInputError("PROJSEG_BAD_PROJECTION", f"{owner} {problem}")


def _check_distinct(owner: str, listed: str | None, aggregators: list[str]) -> None:
    if listed is not None:
        _refuse(owner, "has sql with both DISTINCT and GROUP BY; keep GROUP BY")
    if aggregators:
        _refuse(owner, f"has the aggregate '{aggregators[0]}' after DISTINCT; write GROUP BY ALL")


def _clauses(owner: str, sql: str) -> dict[str, str]:
    """Return the text of each clause by its keyword; after DISTINCT the outputs are its text."""
    openings = _openings(owner, sql)
    if not openings or openings[0][0] != "SELECT" or openings[0][1].start:
        _refuse(owner, "needs sql that begins with SELECT")
    found: dict[str, str] = {}
    ends = [token.start for _, token in openings[1:]] + [len(sql)]
    for (keyword, token), end in zip(openings, ends, strict=True):
        if keyword in found:
            _refuse(owner, f"has sql with {keyword} twice")
        found[keyword] = sql[token.end + 1 : end].strip()
    return found


def _openings(owner: str, sql: str) -> list[tuple[str, Token]]:
    """Return the tokens, outside brackets, that open clauses."""
    try:
        tokens = sqlglot.tokenize(sql, read="spark")
    except SqlglotError as error:
        _refuse(owner, f"has sql that cannot be read: {' '.join(str(error).split())}")
    found, depth, before = [], 0, TokenType.COMMA
    for token in tokens:
        kind = token.token_type
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(kind, 0)
        is_clause = depth == 0 and before != TokenType.DISTINCT  # a IS DISTINCT FROM b
        if is_clause and kind in _REFUSED:
            _refuse(owner, f"has sql with {_REFUSED[kind]}, which it may not have")
        if is_clause and kind in _CLAUSES:
            found.append((_CLAUSES[kind], token))
        if depth == 0 and kind == TokenType.DISTINCT and before == TokenType.SELECT:
            found.append(("DISTINCT", token))
        before = kind
    return found


def _ordered(owner: str, outputs: list[str], plain: list[str], listed: list[str]) -> list[str]:
    """Return the grouping columns in GROUP BY's order, each with the alias that SELECT gives it."""
    by_key: dict[str, str] = {}
    for text in plain:
        expression, alias = _keys(text)
        by_key |= {expression: text, alias or expression: text}
        by_key.setdefault(str(outputs.index(text) + 1), text)
    ordered = []
    for item in listed:
        key, _ = _keys(item)
        if key not in by_key:
            _refuse(owner, f"groups by '{item}', which SELECT does not put out")
        ordered.append(by_key[key])
    for text in plain:
        if text not in ordered:
            _refuse(owner, f"puts out '{text}', which is neither grouped by nor an aggregate")
    return ordered


def is_aggregate(text: str) -> bool:
    """Whether an output calls an aggregate function."""
    tokens = sqlglot.tokenize(text, read="spark")
    return any(
        following.token_type == TokenType.L_PAREN
        and (token.text.casefold() in AGGREGATES or token.text.casefold() in ALIASES)
        for token, following in pairwise(tokens)
    )


def _keys(text: str) -> tuple[str, str | None]:
    """Return an expression in sqlglot's spelling, and its alias if it has one."""
    tree = parse_sql(text)
    inner = tree.this if isinstance(tree, exp.Alias) else tree
    with room_to_recurse():
        spelled = inner.sql(dialect="spark").casefold()
    return spelled, tree.alias.casefold() or None

"""The SQL form of a projection, without FROM.

Of groups it is `SELECT [DISTINCT] ... [WHERE ...] [GROUP BY ...]`, of rows `SELECT ... [WHERE ...]
ORDER BY ...`.

Clauses are found among sqlglot's tokens and cut out of the text unchanged, so that only `bind` has
to understand the expressions.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.algebra.aggregates.aggregate_functions import AGGREGATES, ALIASES
from projseg.algebra.druid.druid_projection import ProjectionTexts
from projseg.algebra.expressions.binding.bind import split_list
from projseg.algebra.expressions.expression_limits import room_to_recurse
from projseg.algebra.expressions.text.dialect import clauses, parse_sql, sql_tokens
from projseg.errors import InvalidInputError

_CLAUSES: Final = {
    TokenType.SELECT: "SELECT",
    TokenType.WHERE: "WHERE",
    TokenType.GROUP_BY: "GROUP BY",
    TokenType.ORDER_BY: "ORDER BY",
}
_REFUSED: Final = {
    TokenType.FROM: "FROM (a projection's rows are its table's)",
    TokenType.HAVING: "HAVING",
    TokenType.LIMIT: "LIMIT",
    TokenType.JOIN: "JOIN",
    TokenType.UNION: "UNION",
    TokenType.SEMICOLON: "a second statement",
}


def translate_sql(name: Any, sql: Any) -> ProjectionTexts:
    """Return the texts of a SELECT; outputs with an aggregate are aggregators, others group.

    With ORDER BY, and neither an aggregate nor GROUP BY nor DISTINCT, outputs are columns of rows.

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
    if "ORDER BY" in clauses:
        if aggregators or listed is not None or "DISTINCT" in clauses:
            _refuse(
                owner,
                "has sql with ORDER BY beside groups, which it may not have (the order of grouping "
                "columns is the sort order)",
            )
        order_by = tuple(split_list(clauses["ORDER BY"]))
        return ProjectionTexts(
            name, (), (), clauses.get("WHERE"), columns=tuple(plain), order_by=order_by
        )
    if "DISTINCT" in clauses:
        _check_distinct(owner, listed, aggregators)
    elif listed is None and plain:
        _refuse(
            owner,
            f"puts out '{plain[0]}' without GROUP BY, which means rows and not groups; write "
            "GROUP BY ALL, or SELECT DISTINCT where there is no aggregate, or ORDER BY for rows in "
            "another order",
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
    try:
        tokens = sql_tokens(sql)
    except InvalidInputError as error:
        _refuse(owner, f"has {error.message}")
    found: dict[str, str] = {}
    for clause in clauses(sql, tokens, {*_CLAUSES, *_REFUSED}):
        kind = clause.keyword.token_type
        if kind in _REFUSED:
            _refuse(owner, f"has sql with {_REFUSED[kind]}, which it may not have")
        if not found and (kind != TokenType.SELECT or clause.keyword.start):
            break
        if _CLAUSES[kind] in found:
            _refuse(owner, f"has sql with {_CLAUSES[kind]} twice")
        found[_CLAUSES[kind]] = clause.text
        if kind == TokenType.SELECT and clause.tokens[:1]:
            first = clause.tokens[0]
            if first.token_type == TokenType.DISTINCT:
                found["DISTINCT"] = sql[first.end + 1 : clause.tokens[-1].end + 1].strip()
    if not found:
        _refuse(owner, "needs sql that begins with SELECT")
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

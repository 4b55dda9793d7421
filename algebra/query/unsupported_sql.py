"""What SQL may say that projseg does not answer: each has a name of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.algebra.expressions.text.dialect import outside_brackets
from projseg.errors import InvalidInputError, UnsupportedFeatureError

_SHOWN: Final = 40  # characters of a text in a message
_REMEDY: Final = (
    "projseg answers one SELECT over one table or over another SELECT; do the rest in DuckDB, "
    "Polars or Spark, which read the answer or the table itself"
)
_CLAUSES: Final = {
    TokenType.WITH: "WITH within a SELECT",
    TokenType.UNION: "UNION",
    TokenType.INTERSECT: "INTERSECT",
    TokenType.EXCEPT: "EXCEPT or MINUS between two queries",
    TokenType.SEMICOLON: "a second statement",
    TokenType.QUALIFY: "QUALIFY",
    TokenType.CLUSTER_BY: "CLUSTER BY",
    TokenType.DISTRIBUTE_BY: "DISTRIBUTE BY",
    TokenType.SORT_BY: "SORT BY",
    TokenType.WINDOW: "a WINDOW clause",
    TokenType.LATERAL: "LATERAL VIEW or a lateral join",
    TokenType.PIVOT: "PIVOT",
    TokenType.UNPIVOT: "UNPIVOT",
    TokenType.TABLE_SAMPLE: "TABLESAMPLE",
    TokenType.JOIN: "a join",
}
_MAYBE_NAMES: Final = (TokenType.WINDOW, TokenType.PIVOT, TokenType.UNPIVOT)
"""Words that are names of columns or functions elsewhere."""


def bad_sql(problem: str, token: Token | None = None) -> InvalidInputError:
    """Return the error of SQL that is not written as SQL has it."""
    where = "" if token is None else f", at character {token.start + 1}"
    return InvalidInputError("PROJSEG_BAD_SQL", f"{problem}{where}")


def unsupported(
    sql: str, token: Token, what: str, remedy: str = _REMEDY
) -> UnsupportedFeatureError:
    """Return the error of SQL that has something beyond one SELECT over one table, at a token."""
    rest = " ".join(sql[token.start :].split())
    shown = rest if len(rest) <= _SHOWN else f"{rest[:_SHOWN]}..."
    return UnsupportedFeatureError(
        "PROJSEG_UNSUPPORTED_SQL",
        f"SQL has {what} at character {token.start + 1}, '{shown}'; {remedy}",
    )


def check_supported(sql: str, tokens: Sequence[Token], *, with_joins: bool = False) -> None:
    """Refuse what is more than one SELECT over one table, wherever it stands.

    Joins are refused unless they are allowed for.

    Raises
    ------
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_SQL.
    """
    if tokens[0].token_type not in (TokenType.SELECT, TokenType.FROM):
        raise unsupported(sql, tokens[0], "a statement that does not begin with SELECT")
    is_outside = {id(token) for token in outside_brackets(tokens)}
    first = next((token for token in tokens if token.token_type == TokenType.SELECT), None)
    for number, token in enumerate(tokens):
        before = tokens[number - 1].token_type if number else None
        after = [one.token_type for one in tokens[number + 1 : number + 3]]
        if with_joins and token.token_type == TokenType.JOIN:
            continue
        what = None if token is first else _inside(token, before, after)
        if what is None and id(token) in is_outside:
            is_pipe = sql.startswith("|>", token.start)
            what = "a pipe (|>)" if is_pipe else _outside(token, before, after)
        if what is not None:
            raise unsupported(sql, token, what)


def _inside(token: Token, before: TokenType | None, after: list[TokenType]) -> str | None:
    """Return what a token begins that may stand in brackets, too."""
    if token.token_type == TokenType.SELECT:
        return "a subquery" if before == TokenType.L_PAREN else "a second SELECT"
    is_call = before in (TokenType.R_PAREN, TokenType.VAR)
    if token.text.upper() == "OVER" and is_call and after:
        return "a window function (OVER)"
    if token.token_type == TokenType.PARAMETER:
        return "a variable; parameters are written :name or ?"
    return None


def _outside(token: Token, before: TokenType | None, after: list[TokenType]) -> str | None:
    """Return what a token outside brackets begins."""
    kind = token.token_type
    if kind == TokenType.WITH and after[:1] in ([TokenType.ROLLUP], [TokenType.CUBE]):
        return None
    if before == TokenType.STAR and kind == TokenType.EXCEPT:
        return None
    if kind in _MAYBE_NAMES:
        is_clause = (
            after == [TokenType.VAR, TokenType.ALIAS]
            if kind == TokenType.WINDOW
            else before not in (TokenType.SELECT, TokenType.COMMA)
        )
        return _CLAUSES[kind] if is_clause else None
    return _CLAUSES.get(kind)

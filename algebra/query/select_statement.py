"""The text of `SELECT ... FROM table ...`, taken apart into the texts of its clauses.

In place of the table another SELECT may stand, in brackets or by a name that WITH gives it. What
is more than that is refused here, by what it is and where it stands; the expressions are left to
those who bind them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.algebra.expressions.expression_limits import check_text
from projseg.algebra.expressions.parameters.sql_parameters import parameter_names
from projseg.algebra.expressions.text.dialect import (
    Clause,
    clauses,
    list_parts,
    parse_sql,
    sql_tokens,
)
from projseg.algebra.query.select_table import (
    SelectedTable,
    common_tables,
    parse_table,
    split_subquery,
)
from projseg.algebra.query.stars.from_clause import (
    WrittenJoin,
    parse_from,
    parse_where,
    without_subqueries,
)
from projseg.algebra.query.unsupported_sql import bad_sql, check_supported, unsupported

_CLAUSES: Final = (
    TokenType.SELECT,
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
    TokenType.OFFSET,
)
_HINT: Final = re.compile(r"\s*,?\s*(\w+)\s*(?:\(\s*(?:'([^']*)'|`([^`]*)`|([\w.]*))\s*\))?")
_EXCEPTIONS: Final = ("EXCEPT", "EXCLUDE")
_DEPTH_MAX: Final = 32
"""So deep SELECTs may be nested."""
_FLAGS: Final = {"NO_PROJECTIONS": "noProjections", "FORCE_PROJECTIONS": "forceProjections"}


class SelectItem(msgspec.Struct, frozen=True):
    """One output: an expression, or `*`.

    Parameters
    ----------
    text : str
        The expression without its alias; what stands before the dot of `t.*`, empty for `*`.
    alias : str or None
        Its alias.
    is_star : bool
        Whether it is `*`.
    excepted : tuple of str
        Columns that `* EXCEPT (...)` or `* EXCLUDE (...)` leaves out.
    """

    text: str
    alias: str | None = None
    is_star: bool = False
    excepted: tuple[str, ...] = ()


class SelectStatement(msgspec.Struct, frozen=True):
    """One SELECT over one table, or over the rows of another SELECT.

    Parameters
    ----------
    items : tuple of SelectItem
        The select list.
    is_distinct : bool
        Whether equal rows count once.
    hints : tuple of (str, object)
        What hints say of projections: keys and values of a query's context.
    table : SelectedTable
        The table in FROM.
    where, having : str or None
        Conditions.
    group_by : tuple of str or None
        Terms of GROUP BY; None if there is none.
    order_by : tuple of str
        Terms of ORDER BY, with their directions.
    limit : int, str or None
        The most rows to return; the name of a parameter that says it.
    offset : int or str
        How many rows are left out before them, or the name of a parameter.
    source : SelectStatement or None
        The SELECT in FROM; None: FROM has a table.
    joins : tuple of WrittenJoin
        The tables that are joined to the first.
    terms : tuple of str
        The conjuncts of `where`, if it is read for joins.
    quoted : tuple of str
        Texts in double quotes, which other dialects take for names.
    """

    items: tuple[SelectItem, ...]
    is_distinct: bool
    hints: tuple[tuple[str, Any], ...]
    table: SelectedTable
    where: str | None
    group_by: tuple[str, ...] | None
    having: str | None
    order_by: tuple[str, ...]
    limit: int | str | None
    offset: int | str
    source: SelectStatement | None = None
    joins: tuple[WrittenJoin, ...] = ()
    terms: tuple[str, ...] = ()
    quoted: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def parse_select(sql: str, *, with_joins: bool = False) -> SelectStatement:
    """Return the clauses of a SELECT over one table, or over several.

    Parameters
    ----------
    sql : str
        Spark SQL; a semicolon may end it.
    with_joins : bool
        Whether other tables may be joined.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_SQL, PROJSEG_BAD_EXPRESSION if the text is not SQL.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_SQL if it is more than one SELECT over one table.
    LimitExceededError
        PROJSEG_EXPRESSION_TOO_LONG.
    """
    check_text(sql)
    tokens = sql_tokens(sql)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise bad_sql("there is no statement; write SELECT ... FROM ...")
    quoted = [t for t in tokens if t.token_type == TokenType.STRING and sql[t.start] == '"']
    statement = _statement(sql[: tokens[-1].end + 1], tokens, {}, 0, with_joins=with_joins)
    return replace(statement, quoted=tuple(token.text for token in quoted))


def _statement(
    sql: str,
    tokens: Sequence[Token],
    named: dict[str, SelectStatement],
    depth: int,
    *,
    with_joins: bool,
) -> SelectStatement:
    """Return the SELECT that some tokens of a text are; WITH has named others for it."""
    if depth > _DEPTH_MAX:
        raise unsupported(sql, tokens[0], f"subqueries nested deeper than {_DEPTH_MAX}")
    common, tokens = common_tables(sql, tokens)
    for name, body in common:
        inner = _statement(sql, body, named, depth + 1, with_joins=with_joins)
        named = {**named, name.casefold(): inner}
    tokens, subquery = split_subquery(tokens)
    members: dict[int, list[Token]] = {}
    if with_joins:
        tokens, members = without_subqueries(tokens)
    check_supported(sql, tokens, with_joins=with_joins)
    found = _in_order(clauses(sql, tokens, _CLAUSES))
    if TokenType.FROM not in found:
        raise bad_sql("no FROM stands outside brackets; write SELECT ... FROM t")
    where, terms = _text(sql, found, TokenType.WHERE), tuple[str, ...]()
    joins: tuple[WrittenJoin, ...] = ()
    if with_joins and subquery is None:
        table, joins = parse_from(sql, found[TokenType.FROM])
    else:
        table = parse_table(sql, found[TokenType.FROM], is_subquery=subquery is not None)
    if with_joins and TokenType.WHERE in found:
        terms, semi = parse_where(sql, found[TokenType.WHERE], members)
        joins = (*joins, *semi)
    if joins:
        _check_joined(
            sql, found[TokenType.FROM], subquery, [table, *(j.table for j in joins)], named
        )
    source = None if table.is_versioned else named.get(table.written.casefold())
    if subquery is not None:
        source = _statement(sql, subquery, named, depth + 1, with_joins=with_joins)
    select = found[TokenType.SELECT]
    hints = [token for token in select.tokens if token.token_type == TokenType.HINT]
    outputs = [token for token in select.tokens if token.token_type != TokenType.HINT]
    is_distinct = bool(outputs) and outputs[0].token_type == TokenType.DISTINCT
    if is_distinct or (outputs and outputs[0].token_type == TokenType.ALL):
        outputs = outputs[1:]
    return SelectStatement(
        items=tuple(_item(sql, part) for part in _listed(select, outputs)),
        is_distinct=is_distinct,
        hints=tuple(said for hint in hints for said in _hinted(sql, hint)),
        table=table,
        where=where,
        group_by=_group_terms(sql, found) or None,
        having=_text(sql, found, TokenType.HAVING),
        order_by=_texts(sql, found, TokenType.ORDER_BY),
        limit=_count(sql, found, TokenType.LIMIT),
        offset=_count(sql, found, TokenType.OFFSET) or 0,
        source=source,
        joins=joins,
        terms=terms,
    )


def _check_joined(
    sql: str,
    clause: Clause,
    subquery: Sequence[Token] | None,
    tables: Sequence[SelectedTable],
    named: Container[str],
) -> None:
    """Refuse joins of what is no table."""
    is_common = any(t.written.casefold() in named and not t.is_versioned for t in tables)
    if subquery is not None or is_common:
        raise unsupported(sql, clause.keyword, "a join with the rows of another SELECT")


def _in_order(found: Sequence[Clause]) -> dict[TokenType, Clause]:
    """Return the clauses by their keywords, each of which comes once and in SQL's order."""
    by_kind: dict[TokenType, Clause] = {}
    latest = -1
    if [clause.keyword.token_type for clause in found[:2]] == [TokenType.FROM, TokenType.SELECT]:
        found = [found[1], found[0], *found[2:]]
    for clause in found:
        kind, word = clause.keyword.token_type, clause.keyword.text.upper()
        if kind in by_kind:
            raise bad_sql(f"{word} stands twice", clause.keyword)
        if _CLAUSES.index(kind) < latest:
            raise bad_sql(f"{word} stands after a clause that follows it in SQL", clause.keyword)
        if not clause.tokens:
            raise bad_sql(f"nothing follows {word}", clause.keyword)
        latest = _CLAUSES.index(kind)
        by_kind[kind] = clause
    if TokenType.SELECT not in by_kind:
        raise bad_sql("a statement without SELECT; write SELECT ... FROM t")
    return by_kind


def _text(sql: str, found: dict[TokenType, Clause], kind: TokenType) -> str | None:
    return _slice(sql, found[kind].tokens) if kind in found else None


def _texts(sql: str, found: dict[TokenType, Clause], kind: TokenType) -> tuple[str, ...]:
    if kind not in found:
        return ()
    return tuple(_slice(sql, part) for part in _listed(found[kind], found[kind].tokens))


def _group_terms(sql: str, found: dict[TokenType, Clause]) -> tuple[str, ...]:
    """Return the terms of GROUP BY; `a, b WITH ROLLUP` is ROLLUP (a, b)."""
    clause = found.get(TokenType.GROUP_BY)
    kinds = [] if clause is None else [token.token_type for token in clause.tokens]
    if clause is None or kinds[-2:-1] != [TokenType.WITH] or len(kinds) < 3:
        return _texts(sql, found, TokenType.GROUP_BY)
    return (f"{clause.tokens[-1].text} ({_slice(sql, clause.tokens[:-2])})",)


def _listed(clause: Clause, tokens: Sequence[Token]) -> list[tuple[Token, ...]]:
    parts = list_parts(tokens)
    if not all(parts):
        raise bad_sql(f"a part of {clause.keyword.text.upper()} is empty", clause.keyword)
    return parts


def _slice(sql: str, tokens: Sequence[Token]) -> str:
    return sql[tokens[0].start : tokens[-1].end + 1]


def _count(sql: str, found: dict[TokenType, Clause], kind: TokenType) -> int | str | None:
    if kind not in found:
        return None
    keyword, text = found[kind].keyword, _slice(sql, found[kind].tokens)
    if kind == TokenType.LIMIT and text.upper() == "ALL":
        return None
    if text.startswith(":") and parameter_names(text) == {text[1:]}:
        return text[1:]
    if re.fullmatch(r"[0-9]{1,18}", text) is None:
        raise bad_sql(f"{keyword.text.upper()} '{text}' is not a count of rows", keyword)
    return int(text)


def _item(sql: str, tokens: tuple[Token, ...]) -> SelectItem:
    star = next((n for n, token in enumerate(tokens) if token.token_type == TokenType.STAR), None)
    if star is not None and _is_whole_star(tokens, star):
        return _star(sql, tokens, star)
    text = _slice(sql, tokens)
    tree = parse_sql(text)
    if not isinstance(tree, exp.Alias):
        return SelectItem(text)
    before = tokens[-2:-1]
    is_written = bool(before) and before[0].token_type == TokenType.ALIAS
    return SelectItem(_slice(sql, tokens[: -2 if is_written else -1]), tree.alias)


def _is_whole_star(tokens: Sequence[Token], star: int) -> bool:
    """Whether the item is `*`, `t.*` or either with EXCEPT or EXCLUDE."""
    return star == 0 or tokens[star - 1].token_type == TokenType.DOT


def _star(sql: str, tokens: tuple[Token, ...], star: int) -> SelectItem:
    before, after = tokens[: max(star - 1, 0)], tokens[star + 1 :]
    excepted: tuple[str, ...] = ()
    if after:
        is_list = (
            after[0].text.upper() in _EXCEPTIONS
            and [t.token_type for t in (after[1:2] + after[-1:])]
            == [TokenType.L_PAREN, TokenType.R_PAREN]
        )  # fmt: skip
        if not is_list:
            raise unsupported(
                sql, after[0], "something other than EXCEPT (...) or EXCLUDE (...) after *"
            )
        excepted = tuple(".".join(t.text for t in part) for part in list_parts(after[2:-1]))
    return SelectItem(_slice(sql, before) if before else "", is_star=True, excepted=excepted)


def _hinted(sql: str, hint: Token) -> list[tuple[str, Any]]:
    """Return what a hint says as options of a query's context."""
    text, place, found = hint.text.removeprefix("/*+").removesuffix("*/").rstrip(), 0, []
    while place < len(text):
        one = _HINT.match(text, place)
        name = one[1].upper() if one else ""
        projection = next((group for group in one.groups()[1:] if group), None) if one else None
        if one is not None and name == "USE_PROJECTION" and projection is not None:
            found.append(("useProjection", projection))
        elif one is not None and name in _FLAGS and projection is None:
            found.append((_FLAGS[name], True))
        else:
            raise unsupported(
                sql,
                hint,
                f"the hint {name or text.strip()}",
                "hints are NO_PROJECTIONS, FORCE_PROJECTIONS and USE_PROJECTION(name)",
            )
        place = one.end()
    return found

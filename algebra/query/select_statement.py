"""`SELECT ... FROM table ...` as its clauses: sqlglot's tree, whose expressions are texts again.

In place of the table another SELECT may stand, in brackets or by a name that WITH gives it. What
is more than that is refused here, by what it is and where it stands; the expressions are left to
those who bind them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlglot import exp
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # re-exported there

from projseg.algebra.expressions.dialect import (
    ParsedText,
    parse_tokens,
    sql_of,
    sql_tokens,
    written,
)
from projseg.algebra.expressions.expression_limits import check_text
from projseg.algebra.expressions.sql_parameters import (
    Arguments,
    ArgumentsLike,
    Parameters,
    check_arguments,
    numbered_parameters,
)
from projseg.algebra.query.bound_query import directed
from projseg.algebra.query.context import HINTS
from projseg.algebra.query.select_table import (
    SelectedTable,
    WrittenJoin,
    check_parts,
    parse_join,
    parse_source,
    parse_table,
    parse_where,
    part,
    start_of,
)
from projseg.algebra.query.unsupported_sql import bad_sql, check_supported, unsupported
from projseg.memory.cache import KEPT

_FLAGS: Final = {hint: one.key for hint, one in HINTS.items() if one.form.takes == "flag"}
"""Hints without a value, and the keys of a query's context that they set."""
_NAMED: Final = {hint: one.key for hint, one in HINTS.items() if hint not in _FLAGS}
"""Hints with a value."""
_BYTES_OF_A_CHARACTER: Final = 100  # of a text and its tree
_COUNT: Final = re.compile("[0-9]{1,18}")


class SelectItem(msgspec.Struct, frozen=True):
    """One output: an expression and its alias, or `*` of a table, perhaps without some columns."""

    text: str
    alias: str | None = None
    is_star: bool = False
    qualifier: tuple[str, ...] = ()
    excepted: tuple[str, ...] = ()


class SelectStatement(msgspec.Struct, frozen=True, cache_hash=True):
    """One SELECT over one table, over several, or over the rows of another SELECT.

    The name of a parameter may be a count of rows. `terms` are the conjuncts of WHERE beside joins,
    `quoted` the texts in double quotes, which other dialects take for names.
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


def parse_select(sql: str, *, with_joins: bool = False) -> SelectStatement:
    """Return the clauses of a SELECT over one table, or over several if `with_joins`.

    It is Spark SQL; a semicolon may end it.
    """
    key = ("statement", sql, with_joins)
    found: SelectStatement = KEPT.get_or_load(
        key, lambda: _parsed(sql, sql_tokens(sql), with_joins), lambda _: statement_bytes(sql)
    )
    return found


def parse_asked(
    sql: str, args: ArgumentsLike | None, *, with_joins: bool = False
) -> tuple[SelectStatement, Arguments | None]:
    """Return the clauses of a SELECT, whose parameters all have names, and their values."""
    arguments = Arguments.of(args)
    key = ("asked statement", sql, with_joins)
    kept: tuple[SelectStatement, Parameters] | None = KEPT.get(key)
    if kept is not None:
        statement, found = kept
        check_arguments(found, arguments)
        return statement, arguments
    tokens = sql_tokens(sql)
    found = numbered_parameters(tokens)
    check_arguments(found, arguments)
    statement = _parsed(sql, tokens, with_joins)
    KEPT.put(key, (statement, found), statement_bytes(sql))
    return statement, arguments


def statement_bytes(sql: str) -> int:
    """Return about how much memory the trees of a statement take."""
    return _BYTES_OF_A_CHARACTER * len(sql)


def _parsed(sql: str, tokens: list[Token], with_joins: bool) -> SelectStatement:
    check_text(sql)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise bad_sql("there is no statement; write SELECT ... FROM ...")
    check_supported(sql, tokens, with_joins=with_joins)
    statement = _Reader(sql, with_joins).statement(parse_tokens(sql, tokens), {})
    quoted = [t for t in tokens if t.token_type == TokenType.STRING and sql[t.start] == '"']
    return replace(statement, quoted=tuple(token.text for token in quoted))


class _Reader:
    """What the trees in one text mean."""

    def __init__(self, sql: str, with_joins: bool) -> None:
        self._sql, self._with_joins = sql, with_joins

    def statement(
        self, tree: exp.Expression, named: Mapping[str, SelectStatement]
    ) -> SelectStatement:
        """Return the SELECT of a tree; WITH has named others for it."""
        if not isinstance(tree, exp.Select):
            raise unsupported(self._sql, 0, "a statement that does not begin with SELECT")
        check_parts(
            self._sql, tree, "with", "hint", "distinct", "expressions", "from", "joins", "where",
            "group", "having", "order", "limit", "offset",
        )  # fmt: skip
        if part(tree, "from") is None:
            raise bad_sql("no FROM stands outside brackets; write SELECT ... FROM t")
        named = self._named(part(tree, "with"), named)
        table, source, joins, terms = self._from(tree, named)
        where, having = tree.args.get("where"), tree.args.get("having")
        order = tree.args.get("order")
        if tree.args.get("distinct") is not None:
            check_parts(self._sql, tree.args["distinct"])
        return SelectStatement(
            items=tuple(map(self._item, tree.expressions)),
            is_distinct=tree.args.get("distinct") is not None,
            hints=self._hints(tree.args.get("hint")),
            table=table,
            where=None if where is None or joins else _alone(where.this),
            group_by=self._group_terms(tree.args.get("group")),
            having=None if having is None else _alone(having.this),
            order_by=tuple(map(self._order_term, order.expressions if order else ())),
            limit=self._count(tree.args.get("limit"), "LIMIT"),
            offset=self._count(tree.args.get("offset"), "OFFSET") or 0,
            source=source,
            joins=joins,
            terms=terms,
        )

    def _named(
        self, tree: exp.With | None, named: Mapping[str, SelectStatement]
    ) -> Mapping[str, SelectStatement]:
        for one in () if tree is None else tree.expressions:
            check_parts(self._sql, one, "this", "alias")
            named = {**named, one.alias.casefold(): self.statement(one.this, named)}
        return named

    def _from(
        self, tree: exp.Select, named: Mapping[str, SelectStatement]
    ) -> tuple[SelectedTable, SelectStatement | None, tuple[WrittenJoin, ...], tuple[str, ...]]:
        """Return the first table or the SELECT in its place, the joins, and WHERE's conjuncts."""
        first = part(tree, "from").this
        source: SelectStatement | None
        if isinstance(first, exp.Subquery):
            table, source = parse_source(self._sql, first), self.statement(first.this, named)
        else:
            table = parse_table(self._sql, first)
            source = None if table.is_versioned else named.get(table.written.casefold())
        if (written := tree.args.get("joins") or ()) and not self._with_joins:
            raise unsupported(self._sql, start_of(written[0]), "a join")
        joins = tuple(parse_join(self._sql, one) for one in written)
        terms = tuple[str, ...]()
        if self._with_joins and (where := tree.args.get("where")) is not None:
            terms, semi = parse_where(self._sql, where.this)
            joins += semi
        others = (j.table for j in joins if not j.table.is_versioned)
        if joins and (source or any(one.written.casefold() in named for one in others)):
            raise unsupported(self._sql, start_of(first), "a join with the rows of another SELECT")
        return table, source, joins, terms

    def _item(self, tree: exp.Expression) -> SelectItem:
        star = tree.this if isinstance(tree, exp.Column) else tree
        if not isinstance(star, exp.Star):
            alias = tree.alias if isinstance(tree, exp.Alias) else None
            return SelectItem(_alone(tree.this if alias is not None else tree), alias)
        others = [name for name, value in star.args.items() if value]
        if any(name.rstrip("_") != "except" for name in others):
            what = "something other than EXCEPT (...) or EXCLUDE (...) after *"
            raise unsupported(self._sql, start_of(star), what)
        before = tree.parts[:-1] if isinstance(tree, exp.Column) else []
        return SelectItem(
            "",
            is_star=True,
            qualifier=tuple(one.name for one in before),
            excepted=tuple(map(_excepted, part(star, "except") or ())),
        )

    def _group_terms(self, tree: exp.Group | None) -> tuple[str, ...] | None:
        if tree is None:
            return None
        return ("ALL",) if tree.args.get("all") else tuple(map(_alone, tree.expressions))

    def _order_term(self, tree: exp.Expression) -> str:
        """Return a term of ORDER BY with its direction, as `split_direction` takes it apart."""
        check_parts(self._sql, tree, "this", "desc", "nulls_first")
        is_descending, nulls_first = bool(tree.args.get("desc")), tree.args.get("nulls_first")
        direction = " DESC" if is_descending else ""
        if bool(nulls_first) == is_descending:
            direction += f" NULLS {'FIRST' if nulls_first else 'LAST'}"
        return directed(_alone(tree.this), direction)

    def _count(self, tree: exp.Expression | None, word: str) -> int | str | None:
        if tree is None:
            return None
        check_parts(self._sql, tree, "expression")
        value = tree.args.get("expression")
        if isinstance(value, exp.Placeholder):
            return str(value.this)
        text = "" if value is None else sql_of(value)
        if word == "LIMIT" and text.upper() == "ALL":
            return None
        if _COUNT.fullmatch(text) is None:
            raise bad_sql(f"{word} '{text}' is not a count of rows")
        return int(text)

    def _hints(self, tree: exp.Hint | None) -> tuple[tuple[str, Any], ...]:
        """Return what hints say as options of a query's context."""
        return tuple(map(self._hint, () if tree is None else tree.expressions))

    def _hint(self, tree: exp.Expression | str) -> tuple[str, Any]:
        if isinstance(tree, str):  # sqlglot's of what is no call
            name, given = tree, []
        elif isinstance(tree, exp.Var | exp.Anonymous | exp.JoinHint):
            name, given = tree.name.upper(), tree.expressions
        else:
            name, given = sql_of(tree), []
        if name in _FLAGS and not given:
            return _FLAGS[name], True
        if name in _NAMED and len(given) == 1:
            (value,) = given
            if isinstance(value, exp.Column):
                return _NAMED[name], ".".join(one.name for one in value.parts)
            if isinstance(value, exp.Literal):
                return _NAMED[name], value.name
        written = [*_FLAGS, *(f"{one}(...)" for one in _NAMED)]
        remedy = f"hints are {', '.join(written)}"
        raise unsupported(self._sql, self._sql.find("/*+"), f"the hint {name}", remedy)


def _alone(tree: exp.Expression) -> ParsedText:
    """Return an expression without the tree that it is a part of."""
    tree.parent = tree.arg_key = None
    return written(tree)


def _excepted(tree: exp.Expression) -> str:
    """Return the name of a column after EXCEPT; a field of one is refused by its whole name."""
    is_field = isinstance(tree, exp.Column) and len(tree.parts) > 1
    return sql_of(tree) if is_field else tree.name

"""The SQL form of a projection, without FROM.

Of groups it is `SELECT [DISTINCT] ... [WHERE ...] [GROUP BY ...]`, of rows `SELECT ... [WHERE ...]
ORDER BY ...`.
"""

from __future__ import annotations

from itertools import compress
from typing import Any, Final, NoReturn

from sqlglot import exp

from projseg.algebra.aggregates.parse_aggregate import calls_aggregate
from projseg.algebra.expressions.dialect import parse_sql, parse_tokens, sql_of, sql_tokens
from projseg.algebra.expressions.expression_limits import room_to_recurse
from projseg.algebra.projection.druid_projection import ProjectionTexts
from projseg.errors import InvalidInputError
from projseg.segment_format.format_limits import name_key

_PARTS: Final = frozenset(("expressions", "distinct", "where", "group", "order"))
_REFUSED: Final = {"from": "FROM (a projection's rows are its table's)", "joins": "JOIN"}


def translate_sql(name: Any, sql: Any) -> ProjectionTexts:
    """Return the texts of a SELECT; outputs with an aggregate are aggregators, others group.

    With ORDER BY, and neither an aggregate nor GROUP BY nor DISTINCT, outputs are columns of rows.
    """
    owner = f"projection {name!r}"
    if not isinstance(sql, str):
        _refuse(owner, f"needs 'sql' as text, found {sql!r}")
    select = _select(owner, sql.strip())
    where, group, order = (select.args.get(name) for name in ("where", "group", "order"))
    outputs = list(map(sql_of, select.expressions))
    are_aggregates = list(map(calls_aggregate, select.expressions))
    plain = [text for text, one in zip(outputs, are_aggregates, strict=True) if not one]
    aggregators = list(compress(outputs, are_aggregates))
    condition = None if where is None else sql_of(where.this)
    is_distinct = select.args.get("distinct") is not None
    if order is not None:
        if aggregators or group is not None or is_distinct:
            _refuse(
                owner,
                "has sql with ORDER BY beside groups, which it may not have (the order of grouping "
                "columns is the sort order)",
            )
        order_by = tuple(map(sql_of, order.expressions))
        return ProjectionTexts(name, (), (), condition, columns=tuple(plain), order_by=order_by)
    if is_distinct:
        _check_distinct(owner, aggregators, is_grouped=group is not None)
    elif group is None and plain:
        _refuse(
            owner,
            f"puts out '{plain[0]}' without GROUP BY, which means rows and not groups; write "
            "GROUP BY ALL, or SELECT DISTINCT where there is no aggregate, or ORDER BY for rows in "
            "another order",
        )
    if group is not None and not group.args.get("all"):
        plain = _ordered(owner, outputs, plain, list(map(sql_of, group.expressions)))
    return ProjectionTexts(name, tuple(plain), tuple(aggregators), condition)


def _refuse(owner: str, problem: str) -> NoReturn:
    raise InvalidInputError("PROJSEG_BAD_PROJECTION", f"{owner} {problem}")


def _check_distinct(owner: str, aggregators: list[str], *, is_grouped: bool) -> None:
    if is_grouped:
        _refuse(owner, "has sql with both DISTINCT and GROUP BY; keep GROUP BY")
    if aggregators:
        _refuse(owner, f"has the aggregate '{aggregators[0]}' after DISTINCT; write GROUP BY ALL")


def _select(owner: str, sql: str) -> exp.Select:
    """Return the tree of a SELECT that has no other clauses than a projection's."""
    if not sql.upper().startswith("SELECT"):
        _refuse(owner, "needs sql that begins with SELECT")
    try:
        tree = parse_tokens(sql, sql_tokens(sql))
    except InvalidInputError as error:
        _refuse(owner, f"has sql that cannot be read: {error.message}")
    if not isinstance(tree, exp.Select):
        _refuse(owner, f"has sql with {tree.key.upper()}, which it may not have")
    for name, value in tree.args.items():
        clause = name.rstrip("_")
        if value and clause not in _PARTS:
            word = _REFUSED.get(clause, clause.upper())
            _refuse(owner, f"has sql with {word}, which it may not have")
    return tree


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


def _keys(text: str) -> tuple[str, str | None]:
    """Return an expression in sqlglot's spelling, and its alias if it has one."""
    tree = parse_sql(text)
    inner = tree.this if isinstance(tree, exp.Alias) else tree
    with room_to_recurse():
        spelled = name_key(inner.sql(dialect="spark"))
    return spelled, name_key(tree.alias) or None

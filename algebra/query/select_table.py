"""FROM: its tables with their versions, and how others are joined to the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from sqlglot import exp

from projseg.algebra.expressions.dialect import written
from projseg.algebra.expressions.expression_limits import misplaced
from projseg.algebra.query.unsupported_sql import bad_sql, unsupported

_KINDS: Final = {
    "": "inner",
    "INNER": "inner",
    "CROSS": "inner",
    "LEFT": "left",
    "LEFT OUTER": "left",
    "RIGHT": "right",
    "RIGHT OUTER": "right",
    "LEFT SEMI": "semi",
    "SEMI": "semi",
    "LEFT ANTI": "anti",
    "ANTI": "anti",
}
"""From the words before JOIN to the kind of join."""
_CALLED: Final = {
    "LIMIT OPTIONS in LIMIT": "an option of LIMIT",
    "EXPRESSIONS in LIMIT": "LIMIT ... BY",
    "DIRECTION in FETCH": "FETCH",
    "LOCKS in SELECT": "FOR UPDATE or FOR SHARE",
    "CONNECT in SELECT": "CONNECT BY",
    "WHEN in TABLE": "AT or BEFORE behind a table's name",
}
"""What is refused, where sqlglot's name of a part says little."""
_OF_IN: Final = (
    "x IN (SELECT ...) may stand by itself between the ANDs of WHERE; NOT IN of two columns "
    "without nulls is a LEFT ANTI JOIN, which keeps rows with a null key"
)


class SelectedTable(msgspec.Struct, frozen=True):
    """A table that FROM names, and the version asked for; a subquery has no `parts`.

    `names` stand before the dot of its columns, in any case: the alias, or parts of the name.
    """

    names: tuple[str, ...]
    version: int | None = None
    tag: str | None = None
    timestamp: str | None = None
    parts: tuple[str, ...] = ()

    @property
    def written(self) -> str:
        """Its name as FROM has it, dots included; empty for a subquery."""
        return ".".join(self.parts)

    @property
    def is_versioned(self) -> bool:
        """Whether the statement names a version."""
        return (self.version, self.tag, self.timestamp) != (None, None, None)

    def is_named(self, parts: tuple[str, ...]) -> bool:
        """Whether a dotted name, or the end of one, is this table's."""
        folded = tuple(name.casefold() for name in self.names)
        return tuple(part.casefold() for part in parts) == folded[-len(parts) :]


class WrittenJoin(msgspec.Struct, frozen=True):
    """A table that is joined to those before it, by conjuncts of ON or by columns of USING.

    `x IN (SELECT y FROM ...)` is a semi join with `members`, each (x, y), and conjuncts of its
    WHERE.
    """

    kind: str
    table: SelectedTable
    terms: tuple[str, ...] = ()
    using: tuple[str, ...] = ()
    members: tuple[tuple[str, str], ...] = ()
    where: tuple[str, ...] = ()


def part(tree: exp.Expression, name: str) -> Any:
    """Return a part of a tree, whose name ends in an underscore in some releases of sqlglot."""
    return tree.args.get(name) or tree.args.get(f"{name}_")


def check_parts(sql: str, tree: exp.Expression, *names: str) -> None:
    """Refuse a tree that has other parts than those named."""
    for name, value in tree.args.items():
        if value and name.rstrip("_") not in names:
            what = f"{name.rstrip('_').upper().replace('_', ' ')} in {tree.key.upper()}"
            raise unsupported(sql, start_of(tree), _CALLED.get(what, what))


def start_of(tree: exp.Expression) -> int:
    """Return where the first name of a tree stands in the text; 0 if it has no name."""
    starts = (node.meta.get("start") for node in tree.walk())
    return min((start for start in starts if start is not None), default=0)


def parse_table(sql: str, tree: exp.Expression) -> SelectedTable:
    """Return a table of FROM; of a SELECT in brackets its alias."""
    for parameter in tree.find_all(exp.Placeholder):
        raise misplaced(f":{parameter.name}", "stands in FROM")
    if isinstance(tree, exp.Values) or (tree.this and isinstance(tree.this, exp.Func)):
        raise unsupported(sql, start_of(tree), "a table function or VALUES")
    if not isinstance(tree, exp.Table) or not all(
        isinstance(one, exp.Identifier) and one.name for one in tree.parts
    ):
        raise unsupported(sql, start_of(tree), "something that is no table's name")
    check_parts(sql, tree, "this", "db", "catalog", "version", "alias")
    names = tuple(one.name for one in tree.parts)
    alias = _alias(sql, tree)
    return SelectedTable(alias or names, **_version(sql, tree), parts=names)


def parse_source(sql: str, tree: exp.Subquery) -> SelectedTable:
    """Return what the SELECT in brackets is called whose rows FROM reads."""
    check_parts(sql, tree, "this", "alias")
    return SelectedTable(_alias(sql, tree))


def _alias(sql: str, tree: exp.Expression) -> tuple[str, ...]:
    alias = tree.args.get("alias")
    if alias is None:
        return ()
    if alias.args.get("columns"):
        raise unsupported(sql, start_of(alias), "brackets in FROM")
    return (alias.name,)


def _version(sql: str, tree: exp.Table) -> dict[str, Any]:
    version = tree.args.get("version")
    if version is None:
        return {}
    value, is_time = version.args.get("expression"), version.name in ("TIMESTAMP", "SYSTEM_TIME")
    if not isinstance(value, exp.Literal):
        raise unsupported(
            sql, start_of(version), "a version that is no number and no text in quotes"
        )
    if is_time and not value.is_string:
        raise bad_sql(f"{version.name} AS OF {value.name} is not a time in quotes")
    if is_time:
        return {"timestamp": value.name}
    is_number = value.name.isascii() and value.name.isdigit()
    return {"version": int(value.name)} if is_number else {"tag": value.name}


def parse_join(sql: str, tree: exp.Join) -> WrittenJoin:
    """Return a table of FROM behind the first."""
    check_parts(sql, tree, "this", "side", "kind", "method", "on", "using")
    words = " ".join(str(part(tree, name) or "") for name in ("method", "side", "kind")).strip()
    kind = _KINDS.get(" ".join(words.split()))
    if kind is None:
        raise unsupported(sql, start_of(tree), f"a {words.lower()} join")
    table = parse_table(sql, tree.this)
    using = tree.args.get("using") or []
    if any(not isinstance(one, exp.Identifier | exp.Column) for one in using):
        raise bad_sql("USING takes names of columns in brackets")
    on = tree.args.get("on")
    on = None if isinstance(on, exp.Boolean) else on  # sqlglot's own where none is written
    return WrittenJoin(kind, table, _split_conjuncts(on), tuple(one.name for one in using))


def _split_conjuncts(tree: exp.Expression | None) -> tuple[str, ...]:
    """Return the texts of the conditions that AND connects; none of no condition."""
    return tuple(map(written, _conjuncts(tree)))


def _conjuncts(tree: exp.Expression | None) -> Iterator[exp.Expression]:
    waiting = [] if tree is None else [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, exp.And):
            waiting += [one.expression, one.this]
        else:
            yield one


def parse_where(sql: str, tree: exp.Expression) -> tuple[tuple[str, ...], tuple[WrittenJoin, ...]]:
    """Return the conjuncts of WHERE, and those of them that are `x IN (SELECT ...)` as joins."""
    terms, joins = [], []
    for one in _conjuncts(tree):
        if isinstance(one, exp.In) and one.args.get("query") is not None:
            joins.append(_membership(sql, one.this, one.args["query"]))
            continue
        if (inner := one.find(exp.Select)) is not None:
            raise unsupported(sql, start_of(inner), "a subquery in this place", _OF_IN)
        terms.append(written(one))
    return tuple(terms), tuple(joins)


def _membership(sql: str, left: exp.Expression, query: exp.Expression) -> WrittenJoin:
    """Return `left IN (query)` as a semi join."""
    body = query.this if isinstance(query, exp.Subquery) else query
    where = part(body, "where")
    is_plain = isinstance(body, exp.Select) and not any(
        part(body, name) for name in body.args
        if name.rstrip("_") not in ("expressions", "from", "where", "distinct")
    )  # fmt: skip
    if not is_plain or (where is not None and where.find(exp.Select)) or not part(body, "from"):
        remedy = "write IN (SELECT column FROM t [WHERE ...])"
        raise unsupported(sql, start_of(body), "a subquery of another form", remedy)
    columns = [written(one.unalias()) for one in body.expressions]
    is_list = isinstance(left, exp.Tuple) and len(columns) > 1
    values = [written(one) for one in (left.expressions if is_list else [left])]
    if len(values) != len(columns):
        raise bad_sql(f"IN compares {len(values)} values with {len(columns)} columns")
    return WrittenJoin(
        "semi",
        parse_table(sql, part(body, "from").this),
        members=tuple(zip(values, columns, strict=True)),
        where=_split_conjuncts(where and where.this),
    )

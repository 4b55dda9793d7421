"""One SELECT of DuckDB's over our tables: a question of ours for its groups, and what is left.

We answer keys and aggregates of the rows that WHERE keeps. Whatever a statement does with these
(expressions over them, HAVING, ORDER BY) DuckDB does itself over the groups, so its own meaning
holds; a statement that only puts them out, in order, is answered by the question alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from projseg.algebra.query.select_table import part
from projseg.doors.duckdb_scope import DifferentMeaningError, Scope, Session, folded, only
from projseg.doors.equal_functions import AGGREGATE_NODES, Translation

_CLAUSES: Final = (
    "expressions", "from", "joins", "where", "group", "having", "order", "limit", "offset",
    "distinct",
)  # fmt: skip
_KEY_FAMILIES: Final = (
    "integer", "decimal", "text", "boolean", "date", "instant", "wall clock",
)  # fmt: skip
_OVER_GROUPS: Final = frozenset(
    (
        exp.Literal, exp.Boolean, exp.Null, exp.Neg, exp.Paren, exp.Placeholder,
        exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is,
        exp.In, exp.Between, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Case, exp.If,
        exp.Coalesce, exp.Nullif, exp.Round, exp.Abs, exp.Cast, exp.DataType, exp.DataTypeParam,
    )
)  # fmt: skip
"""What sqlglot writes as it read it, so that DuckDB may be handed it over groups."""
_ELSEWHERE: Final[dict[type[exp.Expression], str]] = {
    exp.Select: "a subquery beside FROM",
    exp.Window: "a window",
    exp.Star: "*",
}
_ALIASES_MAX: Final = 16  # that hang on each other
_COUNT: Final = re.compile("[0-9]{1,18}")


class GroupedSelect(NamedTuple):
    """How a SELECT is answered by a question in our SQL, whose outputs are `__0`, `__1` and so on.

    `tables` has the keys of the tables by the question's names for them, `arguments` its
    parameters. `typed` is a SELECT of DuckDB whose outputs have the question's types. `outer` is
    left to DuckDB: the statement's `width` outputs, and what stands behind FROM, both over the
    question's outputs; without it, the first of these are the statement's. If distinct, DuckDB then
    leaves out equal rows.
    """

    question: str
    tables: Mapping[str, str]
    arguments: frozenset[str]
    typed: str
    width: int
    outer: tuple[tuple[str, ...], str] | None
    is_distinct: bool


def grouped_select(
    text: str,
    tables: Mapping[str, pa.Schema],
    session: Session,
) -> GroupedSelect:
    """Return how a SELECT is answered over tables by their names, folded, with dots between parts.

    Raises DifferentMeaningError if a part of it may have another meaning in our SQL.
    """
    try:
        tree = parse_one(text, read="duckdb")
        if not isinstance(tree, exp.Select):
            raise DifferentMeaningError("it is no SELECT")
        if tree.args.get("order") is not None and not session.has_usual_order:
            raise DifferentMeaningError("the session sorts otherwise than upwards and nulls last")
        return _Reading(tree, tables, session).grouped()
    except (SqlglotError, RecursionError) as error:
        raise DifferentMeaningError(f"it is not understood: {str(error)[:200]}") from error


class _Reading:
    """A SELECT while it is read."""

    def __init__(self, tree: exp.Select, tables: Mapping[str, pa.Schema], session: Session) -> None:
        only(tree, *_CLAUSES)
        for inner in tree.find_all(*_ELSEWHERE):
            if inner is not tree and not isinstance(inner.parent, exp.Count):
                raise DifferentMeaningError(f"it has {_ELSEWHERE[type(inner)]}")
        self._tree, self._tables = tree, tables
        self._schemas: dict[str, pa.Schema] = {}
        self._names: dict[str, str] = {}
        self._read: dict[str, str] = {}
        self._typed_from: list[str] = []
        source, joins = part(tree, "from"), tree.args.get("joins") or []
        if source is None:
            raise DifferentMeaningError("it has no FROM")
        first, *others = [self._added(one.this) for one in (source, *joins)]
        self._shared = self._using(joins)
        self._scope = Scope(self._schemas, self._names, self._shared, session)
        self._translation = Translation(self._scope)
        self._source = f"FROM {self._names[first]}"
        for name, join in zip(others, joins, strict=True):
            self._source += self._joined(name, join)
        self._aliases = {
            folded(one.alias): one.this for one in tree.expressions if isinstance(one, exp.Alias)
        }
        self._outputs: list[exp.Expression] = [
            self._over_columns(one.unalias()) for one in tree.expressions
        ]
        self._keys: dict[str, str] = {}
        """Our texts of the grouping expressions, by DuckDB's."""
        self._answers: dict[str, str] = {}
        """The same of what the question puts out, in its order."""

    def grouped(self) -> GroupedSelect:
        """Return how the statement is answered."""
        tree = self._tree
        distinct, having = tree.args.get("distinct"), tree.args.get("having")
        if distinct is not None:
            only(distinct)
        self._take_keys()
        order = [] if tree.args.get("order") is None else tree.args["order"].expressions
        is_plain = having is None and (distinct is None or tree.args.get("group") is None)
        behind = self._whole(order) if is_plain else None
        outer = None
        if behind is None:
            behind, self._answers = "", {}
            outer = self._left_over(having, order)
        if not self._answers:
            raise DifferentMeaningError("it has neither aggregates nor groups")
        outputs = [f"{ours} AS __{n}" for n, ours in enumerate(self._answers.values())]
        question = f"SELECT {', '.join(outputs)} {self._source}"
        if (where := tree.args.get("where")) is not None:
            question += f" WHERE {self._translation.condition(self._over_columns(where.this))}"
        grouped = f" GROUP BY {', '.join(self._keys.values())}" if self._keys else ""
        return GroupedSelect(
            f"{question}{grouped}{behind}",
            self._read,
            frozenset(self._translation.used_arguments),
            self._typed(),
            len(self._outputs),
            outer,
            is_distinct=outer is not None and distinct is not None,
        )

    # ---- FROM

    def _added(self, node: exp.Expression) -> str:
        """Take a table of FROM, and return what its columns are written with."""
        if not isinstance(node, exp.Table) or not all(
            isinstance(one, exp.Identifier) for one in node.parts
        ):
            raise DifferentMeaningError("FROM has something else than tables")
        only(node, "this", "db", "alias")
        key = ".".join(folded(one.name) for one in node.parts)
        if key not in self._tables:
            raise DifferentMeaningError(f"{key} is none of the tables")
        alias = node.args.get("alias")
        if alias is not None:
            only(alias, "this")
        name = folded(alias.name if alias is not None else node.name)
        if name in self._schemas:
            raise DifferentMeaningError(f"two tables are called {name}")
        self._schemas[name] = self._tables[key]
        self._names[name] = f"t{len(self._names)}"
        self._read[self._names[name]] = key
        written = ".".join(quoted_name(one.name) for one in node.parts)
        self._typed_from.append(f"{written} AS {quoted_name(name)}")
        return name

    def _using(self, joins: Iterable[exp.Join]) -> dict[str, str]:
        """Return the table from which each column of USING is read: the first that has it."""
        names = {folded(one.name) for join in joins for one in join.args.get("using") or []}
        return {
            name: alias
            for alias, schema in reversed(self._schemas.items())
            for name in names.intersection(map(folded, schema.names))
        }

    def _joined(self, name: str, join: exp.Join) -> str:
        """Return the text that joins a table."""
        only(join, "this", "side", "kind", "on", "using")
        words = f"{join.side} {join.args.get('kind') or ''}".split()
        if not {*words} <= {"INNER", "LEFT", "OUTER"}:
            raise DifferentMeaningError(f"it has a {' '.join(words).lower()} join")
        terms = []
        for one in join.args.get("using") or []:
            column = folded(one.name)
            if self._shared.get(column, name) == name:
                raise DifferentMeaningError(f"USING names {one.name}")
            left, right = (exp.column(one.name, table) for table in (self._shared[column], name))
            terms.append(self._translation.condition(exp.EQ(this=left, expression=right)))
        if (on := join.args.get("on")) is not None:
            terms.append(self._translation.condition(self._over_columns(on)))
        if not terms:
            raise DifferentMeaningError("a join has no condition")
        kind = "LEFT JOIN" if "LEFT" in words else "JOIN"
        return f" {kind} {self._names[name]} ON {' AND '.join(terms)}"

    # ---- names

    def _over_columns(
        self, node: exp.Expression, *, is_after_groups: bool = False, depth: int = 0
    ) -> Any:
        """Return an expression in which each name is a column of one of the tables.

        After groups, an alias goes before a column; `depth` counts the aliases that lead to the
        node.
        """

        def named(one: exp.Expression) -> exp.Expression:
            if not isinstance(one, exp.Column):
                return one
            found, alias = self._scope.resolved(one), folded(one.name)
            other = None if one.table else self._aliases.get(alias)
            if found is None and (other is None or depth > _ALIASES_MAX):
                raise DifferentMeaningError(f"{one.sql('duckdb')} is no column of a table")
            if found is None:
                inner = self._over_columns(self._aliases[alias], depth=depth + 1)
                return exp.Paren(this=inner)
            if is_after_groups and other is not None and not _is_column(other, alias):
                raise DifferentMeaningError(f"{one.name} is an alias and a column")
            table, name = found
            return exp.column(name, table, quoted=True)

        return _unwrapped(node.copy().transform(named))

    def _take_keys(self) -> None:
        """Read the keys of GROUP BY or DISTINCT."""
        group = self._tree.args.get("group")
        if group is None:
            is_of_rows = not any(map(_has_aggregate, self._outputs))
            is_distinct = self._tree.args.get("distinct") is not None
            terms = self._outputs if is_of_rows and is_distinct else []
        else:
            only(group, "expressions", "all")
            terms = [self._group_term(one) for one in group.expressions]
            if group.args.get("all") is True:
                terms += [one for one in self._outputs if not _has_aggregate(one)]
            elif group.args.get("all"):
                raise DifferentMeaningError("it has GROUP BY of another form")
        for term in terms:
            value = self._translation.value(term)
            if value.is_constant or value.family not in _KEY_FAMILIES:
                raise DifferentMeaningError(f"{term.sql('duckdb')[:100]} is no key of groups")
            self._keys[term.sql("duckdb")] = value.text

    def _group_term(self, node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Literal):
            return self._at(node)
        found: exp.Expression = self._over_columns(node)
        return found

    def _at(self, place: exp.Literal) -> exp.Expression:
        """Return the output that a number means."""
        if place.is_string or not 0 < int(place.name) <= len(self._outputs):
            raise DifferentMeaningError(f"{place.sql('duckdb')} is no place of an output")
        return self._outputs[int(place.name) - 1]

    # ---- outputs

    def _answered(self, node: exp.Expression) -> int | None:
        """Return the place of a key or an aggregate in the question's outputs; None: neither."""
        text = node.sql("duckdb")
        if text not in self._answers:
            ours = self._keys.get(text)
            if ours is None and not _is_aggregate(node):
                return None
            self._answers[text] = ours or self._translation.aggregate(node)
        return list(self._answers).index(text)

    def _whole(self, order: Iterable[exp.Expression]) -> str | None:
        """Return the clauses after the groups of a question that is the whole statement."""
        places = [self._answered(one) for one in self._outputs]
        if places != list(range(len(places))):
            return None  # an output is an expression, or stands twice
        terms = []
        for one in order:
            place = self._answered(self._order_term(one))
            if place is None:
                return None
            direction = "DESC" if one.args.get("desc") else "ASC"
            nulls = "FIRST" if one.args.get("nulls_first") else "LAST"
            terms.append(f"__{place} {direction} NULLS {nulls}")
        limits = [self._tree.args.get("limit"), self._tree.args.get("offset")]
        counts = [one and one.expression for one in limits]
        if any(one and not (one.is_int and _COUNT.fullmatch(one.name)) for one in counts):
            return None
        behind = f" ORDER BY {', '.join(terms)}" if terms else ""
        for word, count in zip(("LIMIT", "OFFSET"), counts, strict=True):
            behind += f" {word} {count.name}" if count else ""
        return behind

    def _order_term(self, node: exp.Expression) -> exp.Expression:
        """Return the expression over columns that a term of ORDER BY sorts by."""
        only(node, "this", "desc", "nulls_first")
        term = node.this
        if isinstance(term, exp.Literal):
            return self._at(term)
        alias = folded(term.name) if isinstance(term, exp.Column) and not term.table else None
        if alias in self._aliases:
            found: exp.Expression = self._over_columns(self._aliases[folded(term.name)])
            return found
        over: exp.Expression = self._over_columns(term, is_after_groups=True)
        return over

    def _left_over(
        self, having: exp.Expression | None, order: Iterable[exp.Expression]
    ) -> tuple[tuple[str, ...], str]:
        """Return DuckDB's part of the statement, over the groups."""
        outputs = tuple(self._over_groups(one) for one in self._outputs)
        behind = ""
        if having is not None:
            condition = self._over_columns(having.this, is_after_groups=True)
            behind += f" WHERE {self._over_groups(condition)}"
        terms = []
        for one in order:
            term = self._order_term(one)
            direction = " DESC" if one.args.get("desc") else ""
            nulls = "FIRST" if one.args.get("nulls_first") else "LAST"
            text, listed = term.sql("duckdb"), [each.sql("duckdb") for each in self._outputs]
            shown = str(listed.index(text) + 1) if text in listed else self._over_groups(term)
            terms.append(f"{shown}{direction} NULLS {nulls}")
        behind += f" ORDER BY {', '.join(terms)}" if terms else ""
        for name in ("limit", "offset"):
            if (count := self._tree.args.get(name)) is not None:
                only(count, "expression")
                behind += f" {name.upper()} {self._over_groups(count.expression)}"
        return outputs, behind

    def _over_groups(self, node: exp.Expression) -> str:
        """Return an expression over the question's outputs."""

        def replaced(one: exp.Expression) -> exp.Expression:
            place = self._answered(one)
            if place is not None:
                return exp.column(f"__{place}")
            if type(one) not in _OVER_GROUPS:
                raise DifferentMeaningError(
                    f"{one.sql('duckdb')[:100]} is neither grouped by nor an aggregate"
                )
            return one

        return str(node.copy().transform(replaced).sql("duckdb"))

    def _typed(self) -> str:
        """Return a SELECT of DuckDB with the outputs of the question."""
        grouped = f" GROUP BY {', '.join(self._keys)}" if self._keys else ""
        return f"SELECT {', '.join(self._answers)} FROM {', '.join(self._typed_from)}{grouped}"


def _is_aggregate(node: exp.Expression) -> bool:
    return isinstance(node, (*AGGREGATE_NODES, exp.Filter))


def _has_aggregate(node: exp.Expression) -> bool:
    return node.find(*AGGREGATE_NODES) is not None


def _is_column(node: exp.Expression, name: str) -> bool:
    return isinstance(node, exp.Column) and folded(node.name) == name


def _unwrapped(node: exp.Expression) -> exp.Expression:
    found: Any = node
    while isinstance(found, exp.Paren):
        found = found.this
    unwrapped: exp.Expression = found
    return unwrapped


def quoted_name(name: str) -> str:
    """Return a name as DuckDB's SQL has it between quotes."""
    return '"' + name.replace('"', '""') + '"'

"""Which table of FROM is the fact, and by which keys the others are reached from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import permutations
from typing import NamedTuple, TypeAlias

from sqlglot import exp

from projseg.algebra.expressions.dialect import ParsedText, parse_sql, written
from projseg.algebra.expressions.sql_words import column_text, conjoined
from projseg.algebra.query.join import not_a_star
from projseg.algebra.query.select_table import WrittenJoin
from projseg.algebra.query.star_names import NamedTable, StarScope
from projseg.errors import InvalidInputError, ProjsegError
from projseg.segment_format.format_limits import name_key


class Term(NamedTuple):
    """A condition of ON or WHERE, the tables whose columns it has, and the sides of an equality."""

    text: str
    scope: StarScope
    tables: frozenset[int]
    sides: tuple[tuple[str, frozenset[int]], ...]

    def key_of(self, table: int, known: frozenset[int]) -> str | None:
        """Return the column of a table that the term compares with what is known."""
        for (one, own), (_, others) in permutations(self.sides, 2):
            if own == {table} and others and others <= known:
                named = self.scope.plain_column(one)
                if named is not None:
                    return named.column
        return None

    def written(self, fact: int) -> str:
        """Return the term over the joined rows of a fact."""
        scope = _of_fact(self.scope, fact)
        return scope.over_rows(self.text)


class Step(NamedTuple):
    """A dimension, and the conditions by which it is joined to what was reached before."""

    table: int
    how: str
    on: tuple[str, ...]


class Orientation(NamedTuple):
    """A star: dimensions, each after those that it hangs on, and conditions over joined rows."""

    scope: StarScope
    steps: tuple[Step, ...]
    where: tuple[str, ...]


Repeated: TypeAlias = Callable[[int, tuple[str, ...], str | None], ProjsegError | None]
"""From a table, columns and a condition to the error if these are no key of its rows."""


class _Joined(NamedTuple):
    """A table of FROM as it is joined: base and inner tables share their conditions."""

    number: int
    kind: str
    terms: tuple[Term, ...]


def orient(
    tables: Sequence[NamedTable],
    joins: Sequence[WrittenJoin],
    where: Sequence[str],
    row_counts: Sequence[int],
    repeated: Repeated,
) -> Orientation:
    """Return the star that FROM and WHERE mean, around the largest table that may be its fact."""
    joined, scope = _joined(tables, joins)
    conditions = [_term(text, scope) for text in where]
    inner = [one.number for one in joined if one.kind == "inner"]
    problem: ProjsegError | None = None
    for fact in sorted(inner, key=lambda number: -row_counts[number]):
        found = _Search(tables, joined, conditions, fact, repeated).solution()
        if not isinstance(found, ProjsegError):
            steps, rest = found
            return Orientation(_of_fact(scope, fact), steps, rest)
        problem = problem or found
    assert problem is not None
    raise problem


def _joined(
    tables: Sequence[NamedTable], joins: Sequence[WrittenJoin]
) -> tuple[list[_Joined], StarScope]:
    """Return the tables with their conditions, and what names mean after all joins."""
    every = tuple(tables)
    found = [_Joined(0, "inner", ())]
    visible: tuple[int, ...] = (0,)
    merged: dict[str, int] = {}
    for number, join in enumerate(joins, 1):
        name = tables[number].alias
        scope = StarScope(every, visible, tuple(merged.items()))
        wide = StarScope(every, (*visible, number), tuple(merged.items()))
        terms = [_term(text, wide) for text in join.terms]
        for column in join.using:
            terms.append(_using(scope, number, column))
            owner = scope.named((column,))
            assert owner is not None
            merged[name_key(column)] = number if join.kind == "right" else owner.table
        terms += [_member(scope, every, number, *member) for member in join.members]
        own = StarScope(every, (number,))
        terms += [_term(text, own) for text in join.where]
        if join.kind == "right":
            if len(found) > 1:
                raise not_a_star(name, "is a right join of several tables; write it first")
            found = [_Joined(1, "inner", ()), _Joined(0, "left", tuple(terms))]
        else:
            found.append(_Joined(number, join.kind, tuple(terms)))
        if join.kind not in ("semi", "anti"):
            visible = (*visible, number)
    return found, StarScope(every, visible, tuple(merged.items()))


def _using(scope: StarScope, number: int, column: str) -> Term:
    table = scope.tables[number]
    there, here = table.column(column), scope.named((column,))
    if there is None or here is None:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_COLUMN", f"USING names '{column}', which is no column of both sides"
        )
    wide = StarScope(scope.tables, (*scope.visible, number))
    one = scope.tables[here.table].alias
    sides = column_text(one, here.column), column_text(table.alias, there)
    return _term(_equality(*sides), _by_alias(wide))


def _member(
    scope: StarScope, every: tuple[NamedTable, ...], number: int, value: str, column: str
) -> Term:
    """Return the equality of `value IN (SELECT column ...)`."""
    own = StarScope(every, (number,))
    both = _by_alias(StarScope(every, (*scope.visible, number)))
    sides = (exp.Paren(this=parse_sql(s.over_rows(t))) for s, t in ((scope, value), (own, column)))
    return _term(_equality(*map(written, sides)), both)


def _equality(one: ParsedText, other: ParsedText) -> ParsedText:
    return ParsedText(f"{one} = {other}", exp.EQ(this=one.tree, expression=other.tree))


def _by_alias(scope: StarScope) -> StarScope:
    """Return a scope in which each table is called by its alias."""
    tables = tuple(
        NamedTable(type(t.selected)((t.alias,)), t.alias, t.columns) for t in scope.tables
    )
    return StarScope(tables, scope.visible, scope.merged, scope.fact)


def _of_fact(scope: StarScope, fact: int) -> StarScope:
    return StarScope(scope.tables, scope.visible, scope.merged, fact)


def _term(text: str, scope: StarScope) -> Term:
    return Term(text, scope, scope.tables_in(text), _sides(text, scope))


def _sides(text: str, scope: StarScope) -> tuple[tuple[str, frozenset[int]], ...]:
    """Return the sides of an equality; nothing of another condition."""
    tree = parse_sql(text)
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if not isinstance(tree, exp.EQ):
        return ()
    sides = map(written, (tree.this, tree.expression))
    return tuple((side, scope.tables_in(side)) for side in sides)


class _Search:
    """The way from one fact to all other tables."""

    def __init__(
        self,
        tables: Sequence[NamedTable],
        joined: Sequence[_Joined],
        where: Sequence[Term],
        fact: int,
        repeated: Repeated,
    ) -> None:
        self._tables, self._joined, self._where = tables, joined, where
        self._fact, self._repeated = fact, repeated
        self._inner = frozenset(one.number for one in joined if one.kind == "inner")
        self._pool = [term for one in joined if one.kind == "inner" for term in one.terms]
        self._used: set[int] = set()
        self._reached = frozenset((fact,))
        self._steps: list[Step] = []
        self._problem: ProjsegError | None = None

    def solution(self) -> tuple[tuple[Step, ...], tuple[str, ...]] | ProjsegError:
        """Return the steps and the conditions that are left, or why there are none."""
        waiting = [one for one in self._joined if one.number != self._fact]
        while waiting:
            reached = next((one for one in waiting if self._reach(one)), None)
            if reached is None:
                return self._problem or self._unreached(waiting[0])
            waiting.remove(reached)
        left = [term for term in (*self._pool, *self._where) if id(term) not in self._used]
        return tuple(self._steps), tuple(term.written(self._fact) for term in left)

    def _unreached(self, one: _Joined) -> ProjsegError:
        name = self._tables[one.number].alias
        return not_a_star(
            name, "has no equality between a column of it and what is joined before it"
        )

    def _reach(self, one: _Joined) -> bool:
        """Join a table, if its key is among what was reached."""
        if one.kind == "inner":
            terms = [t for t in (*self._pool, *self._where) if t.tables & self._inner]
            own = [t for t in self._pool if t.tables == {one.number}]
        else:
            terms = list(one.terms)
            own = [t for t in terms if t.tables == {one.number}]
            if not all(t.tables - {one.number} <= self._reached for t in terms):
                return False
        keys = [t for t in terms if t.key_of(one.number, self._reached) is not None]
        if not keys:
            return False
        if one.kind in ("inner", "left") and not self._is_key(one.number, keys, own):
            return False
        chosen = [*keys, *own]
        if one.kind != "inner":
            chosen = terms  # whatever else there is is refused where it is bound
        self._used.update(map(id, chosen))
        on = tuple(term.written(self._fact) for term in chosen)
        self._steps.append(Step(one.number, one.kind, on))
        self._reached |= {one.number}
        return True

    def _is_key(self, number: int, keys: Sequence[Term], own: Iterable[Term]) -> bool:
        columns = tuple(str(term.key_of(number, self._reached)) for term in keys)
        problem = self._repeated(number, columns, None)
        condition = conjoined(term.written(self._fact) for term in own)
        if problem is not None and condition is not None:
            problem = self._repeated(number, columns, condition)
        self._problem = self._problem or problem
        return problem is None

"""Rows in another order, indexes and views that would serve shapes, though nobody declared them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import ClassVar, Final, NamedTuple, TypeAlias

import msgspec

from projseg.advisor.candidates import GroupsCandidate, Need, free_name, parsed, slug
from projseg.algebra.expressions.sql_words import backquoted, quoted_name
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.proofs.index_keys import keys_of, leaves
from projseg.algebra.query.bound_query import QuerySpec
from projseg.declarations import Index, Projection, declared_index
from projseg.errors import ProjsegError
from projseg.table_layer.metadata.index_declaration import DeclaredIndex
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration
from projseg.table_layer.renamed_columns import stored_declaration

_EQUAL: Final = ("=", "<=>", "in")
_RANGES: Final = ("<", "<=", ">", ">=")
_NAME_CHARACTERS_MAX: Final = 60


class RowsCandidate(msgspec.Struct, frozen=True):
    """Some columns of all rows in another order, as a user writes them and over stored names."""

    projection: Projection
    declaration: ProjectionDeclaration
    columns: frozenset[str]

    kind: ClassVar = "rows"

    @property
    def name(self) -> str:
        """What it would be called."""
        return self.projection.name

    @property
    def sql(self) -> str:
        """The SELECT of its declaration."""
        columns, order = ", ".join(self.projection.columns), ", ".join(self.projection.order_by)
        return f"SELECT {columns} ORDER BY {order}"

    def may_serve(self, query: QuerySpec, need: Need | None) -> bool:
        """Whether it might serve a query of such a need."""
        del need
        return columns_of(query) <= self.columns


class IndexCandidate(msgspec.Struct, frozen=True):
    """An index of one column that does not exist, as a user writes it and over stored names."""

    index: Index
    declared: DeclaredIndex
    column: str

    kind: ClassVar = "index"

    @property
    def name(self) -> str:
        """What it would be called."""
        return self.index.name

    @property
    def sql(self) -> str:
        """The indexed column or expression, as a statement has it."""
        return f"USING {self.index.kind} ({backquoted(self.column)})"

    def may_serve(self, query: QuerySpec, need: Need | None) -> bool:
        """Whether it might serve a query of such a need."""
        del need
        tree, _ = keys_of(query.filter, {self.column: frozenset((self.index.kind,))})
        return tree is not None


class ViewCandidate(msgspec.Struct, frozen=True):
    """A view of the groups of a projection, which does not exist."""

    name: str
    groups: GroupsCandidate

    kind: ClassVar = "view"

    @property
    def sql(self) -> str:
        """The SELECT that defines it."""
        return self.groups.sql.replace(" GROUP BY ALL", " FROM t GROUP BY ALL")

    def may_serve(self, query: QuerySpec, need: Need | None) -> bool:
        """Whether it might serve a query of such a need."""
        return self.groups.may_serve(query, need)


Candidate: TypeAlias = GroupsCandidate | RowsCandidate | IndexCandidate | ViewCandidate


class RowsNeed(NamedTuple):
    """Which rows in which order would serve a query: columns, and those of them that sort."""

    columns: frozenset[str]
    order: tuple[str, ...]


class IndexNeed(NamedTuple):
    """Which index would serve a query."""

    column: str
    kind: str


def columns_of(query: QuerySpec) -> frozenset[str]:
    """Return the names of all columns that a query reads."""
    trees = (*query.expressions, *query.scanned)
    found = {node.name for tree in trees for node in tree.walk() if isinstance(node, Column)}
    if query.interval is not None and query.time_column is not None:
        found.add(query.time_column)
    return frozenset(found)


def rows_need_of(query: QuerySpec) -> RowsNeed | None:
    """Return which rows in another order would serve a query; None if no order helps it."""
    if query.joins:
        return None
    equal = dict.fromkeys(_compared(query, _EQUAL))
    ranges = [name for name in dict.fromkeys(_compared(query, _RANGES)) if name not in equal]
    if not equal and not ranges:
        return None
    time = query.time_column if query.interval is not None else None
    last = [one for one in (*ranges[:1], time) if one is not None and one not in equal]
    return RowsNeed(columns_of(query), (*equal, *last[:1]))


def index_needs_of(query: QuerySpec, snapshot: Snapshot) -> list[IndexNeed]:
    """Return which indexes would serve a query."""
    if query.joins or query.filter is None:
        return []
    indexed = {
        (one.column_name, index.kind)
        for index in snapshot.properties.declared_indexes
        for one in index.columns
    }
    kinds = {name: frozenset(("bloom", "token", "ngram")) for name in columns_of(query)}
    tree, _ = keys_of(query.filter, kinds)
    found = dict.fromkeys(IndexNeed(one.column, one.kind) for one in leaves(tree))
    # Equality is served by values; runs of three characters of them would be larger and say less.
    return [
        one
        for one in found
        if one not in indexed
        and not (one.kind == "ngram" and IndexNeed(one.column, "bloom") in found)
    ]


def rows_candidate(
    need: RowsNeed, snapshot: Snapshot, taken: Collection[str]
) -> RowsCandidate | None:
    """Return the projection that a need describes; None if there is no such projection."""
    properties = snapshot.properties
    names = [one.name for one in properties.columns if one.name in need.columns]
    name = "_".join(("rows_by", *map(slug, need.order)))[:_NAME_CHARACTERS_MAX].rstrip("_")
    projection = Projection(
        free_name(name, taken),
        columns=[quoted_name(one) for one in names],
        order_by=[quoted_name(one) for one in need.order],
    )
    spec = parsed(projection, properties.schema, properties.time_column)
    if spec is None:
        return None
    return RowsCandidate(projection, stored_declaration(spec, properties), need.columns)


def index_candidate(
    need: IndexNeed, snapshot: Snapshot, taken: Collection[str]
) -> IndexCandidate | None:
    """Return the index that a need describes; None if there is no such index."""
    name = f"{need.kind}_{slug(need.column)}"[:_NAME_CHARACTERS_MAX]
    index = Index(free_name(name, taken), backquoted(need.column), kind=need.kind)
    try:
        return IndexCandidate(index, declared_index(index, snapshot.properties), need.column)
    except ProjsegError:
        return None


def view_candidate(groups: GroupsCandidate, taken: Collection[str]) -> ViewCandidate:
    """Return the view of a projection's groups."""
    name = f"{groups.name[: _NAME_CHARACTERS_MAX - 5]}_view"
    return ViewCandidate(free_name(name, taken), groups)


def _compared(query: QuerySpec, functions: Collection[str]) -> Iterator[str]:
    """Yield the columns that conditions of a query compare with constants."""
    for condition in query.conditions:
        if isinstance(condition, Column):
            if functions is _EQUAL:
                yield condition.name
        elif isinstance(condition, Call) and condition.function in functions:
            first, *others = condition.arguments
            if isinstance(first, Column) and not any(map(_has_columns, others)):
                yield first.name


def _has_columns(tree: Expression) -> bool:
    return bool(tree.columns)

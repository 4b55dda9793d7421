"""The columns of declared indexes: what they are called now, and whether filters of them serve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
from msgspec import UNSET

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.canonical import canonical
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.functions.datum import as_array
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_words import quoted_name
from projseg.algebra.expressions.tree import Column, Expression, Literal
from projseg.algebra.query.declared_columns import substituted
from projseg.errors import InvalidInputError
from projseg.evaluation.arrow_vectors import vector_of_array
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.rows import MemorySource, all_rows
from projseg.segment_format.indexes.index_kinds import IndexDefinition
from projseg.segment_format.logical_types import TIMESTAMP, parse_type_name
from projseg.segment_format.vectors import Vector
from projseg.table_layer.metadata.index_declaration import DeclaredIndex, is_served
from projseg.table_layer.metadata.known_properties import ProjectionScope, scope_of
from projseg.table_layer.metadata.stored_columns import Forms
from projseg.table_layer.metadata.table_properties import TableProperties


class IndexedColumn(NamedTuple):
    """A column of an index as the table has it now, or the only column of an indexed expression.

    New segments store it as `stored`; filters of the definition are read and written only if
    `is_served`. `expression` is over the stored name, None for the column itself.
    """

    name: str
    stored: str
    type: pa.DataType
    is_served: bool
    expression: Expression | None = None

    @property
    def condition_form(self) -> Expression | None:
        """The expression as conditions have it, over the table's name."""
        own = {self.stored: Column(self.type, self.name)}
        return None if self.expression is None else canonical(substituted(self.expression, own))

    @property
    def text(self) -> str:
        """The indexed column or expression, by the table's names."""
        return self.name if self.condition_form is None else to_sql(self.condition_form)

    @property
    def key(self) -> str:
        """A text that no other column or expression has; no name has this character."""
        return self.name if self.condition_form is None else f"\0{self.text}"


def indexed_column(
    definition: IndexDefinition, properties: TableProperties
) -> IndexedColumn | None:
    """Return the column of a definition; None if the table has none of that stored name now."""
    for name, forms in _forms(properties):
        if any(quoted_name(form.name) == definition.column for form in forms):
            type_ = parse_type_name(forms[-1].type)
            return IndexedColumn(name, forms[-1].name, type_, is_served(definition, type_))
    return _indexed_expression(definition, properties)


def _indexed_expression(
    definition: IndexDefinition, properties: TableProperties
) -> IndexedColumn | None:
    """Return the column of an expression.

    Of one that was widened no filter serves: the texts of its values may be others.
    """
    every = {forms[-1].name: (name, forms) for name, forms in _forms(properties)}
    types = {stored: parse_type_name(forms[-1].type) for stored, (_, forms) in every.items()}
    try:
        expression = index_expression(definition.column, pa.schema(list(types.items())))
    except InvalidInputError:
        return None
    (stored,) = expression.columns
    name, forms = every[stored]
    is_same = all(form.type == forms[0].type for form in forms)
    is_known = is_same and is_served(definition, expression.type)
    return IndexedColumn(name, stored, types[stored], is_known, expression)


def index_expression(text: str, schema: pa.Schema) -> Expression:
    """Return an expression that an index may have for a column."""
    expression = canonical(bind(text, schema))
    if len(expression.columns) != 1 or any(node.type == TIMESTAMP for node in expression.walk()):
        raise InvalidInputError(
            "PROJSEG_BAD_INDEX",
            f"'{text}' can be no column of an index; an index takes columns, and expressions of "
            "one column that no timestamp is in",
        )
    return expression


def indexes_reading(
    declared: Iterable[DeclaredIndex], columns: Sequence[str], properties: TableProperties
) -> list[str]:
    """Return the names of the indexes over any of some columns, by the table's names."""

    def reads(definition: IndexDefinition) -> bool:
        column = indexed_column(definition, properties)
        return column is not None and column.name in columns

    return [index.name for index in declared if any(map(reads, index.columns))]


def _scope_of_index(index: DeclaredIndex) -> ProjectionScope:
    """Return the segments that an index is to be built for."""
    return scope_of(
        {f"projection.index.{key}": index.properties[key] for key in index.properties}, "index"
    )


def scope_properties(scope: ProjectionScope) -> dict[str, str]:
    """Return the properties of an index that state a scope."""
    stated = scope.to_properties("index")
    return {key.rpartition(".")[2]: text for key, text in stated.items()}


class WantedFilter(NamedTuple):
    """A filter that new segments are to have, in the scopes of each index that declares it.

    `expression` is over the stored name in `column`, None for the column itself.
    """

    definition: IndexDefinition
    column: str
    scopes: tuple[ProjectionScope, ...]
    expression: Expression | None = None

    def values(self, vector: Vector) -> Vector:
        """Return the indexed values of the column, in any order."""
        if self.expression is None:
            return vector
        rows = all_rows(MemorySource(len(vector), {self.column: vector}))
        return evaluate_over(self.expression, rows)

    def value_of_null(self) -> Vector:
        """Return the indexed value where a segment lacks the column."""
        found = self.expression or Literal(parse_type_name(self.definition.type), None)
        columns = {node.name: node for node in found.walk() if isinstance(node, Column)}
        nulls = {name: pa.nulls(1, node.type) for name, node in columns.items()}
        return vector_of_array(as_array(evaluate(found, nulls, 1), 1))

    @property
    def digest(self) -> str:
        """The definition's hash."""
        return self.definition.definition_hash

    @property
    def is_deferred(self) -> bool:
        """Whether writers of new rows leave it to materialising and compaction."""
        return all(scope.is_deferred for scope in self.scopes)

    def reason_against(self, first_us: int | None, last_us: int | None, now_us: int) -> str | None:
        """Return why a segment goes without, or None if any index wants it."""
        reasons = [scope.reason_against(first_us, last_us, now_us) for scope in self.scopes]
        return reasons[0] if all(reasons) else None

    def bytes_guard(self, byte_count: int, base_bytes: int) -> str | None:
        """Return why a filter is too large beside the base table, or None if any index takes it."""
        reasons = [scope.bytes_guard(byte_count, base_bytes) for scope in self.scopes]
        return reasons[0] if all(reasons) else None


def wanted_filters(properties: TableProperties) -> tuple[WantedFilter, ...]:
    """Return the filters of a table's new segments, those of one definition once.

    Columns whose type was widened so that values have other hashes are left out.
    """
    scopes: dict[IndexDefinition, list[ProjectionScope]] = {}
    for index in properties.declared_indexes:
        for definition in index.columns:
            scopes.setdefault(definition, []).append(_scope_of_index(index))
    found = []
    for definition, several in scopes.items():
        column = indexed_column(definition, properties)
        if column is not None and column.is_served:
            found.append(WantedFilter(definition, column.stored, tuple(several), column.expression))
    return tuple(found)


def _forms(properties: TableProperties) -> Iterable[tuple[str, Forms]]:
    """Yield each column's name and its stored names, the oldest first."""
    stored = properties.stored_columns
    forms = [(column,) for column in properties.columns] if stored is UNSET else stored.columns
    return zip((column.name for column in properties.columns), forms, strict=True)


def without_deferral(declared: Iterable[DeclaredIndex]) -> tuple[DeclaredIndex, ...]:
    """Return indexes that are built in each segment as it is written."""
    return tuple(
        DeclaredIndex(index.name, index.kind, index.columns, _without_build(index.properties))
        for index in declared
    )


def _without_build(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in properties.items() if key != "build"}

"""Projections, and open segments, by a table's column names instead of the stored ones.

Definitions mention stored names, so that they and their hashes outlive every rename.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
from msgspec import UNSET
from msgspec.structs import replace

from projseg.algebra.aggregates.parse_aggregate import AggregateCall
from projseg.algebra.aggregates.state_columns import decompose, state_column_name, stored_column
from projseg.algebra.expressions.stated_joins import kept_by_tables
from projseg.algebra.expressions.tree import Column
from projseg.algebra.projection.renamed_projection import mentioned_columns, renamed
from projseg.algebra.projection.spec import ProjectionSpec, StoredAs, from_definition
from projseg.errors import CorruptTableError, ProjsegError
from projseg.segment_format.file.column_view import ColumnView
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE, ROW_NUMBER, Role
from projseg.segment_format.logical_types import INTEGER_DIGITS, parse_type_name
from projseg.table_layer.metadata.stored_columns import ColumnDeclaration, StoredColumns
from projseg.table_layer.metadata.table_properties import (
    ProjectionDeclaration,
    TableProperties,
    schema_of_columns,
)
from projseg.table_layer.metadata.table_schema import TableSchema, stored_by_name

# The states of these for a column are, converted, those for the column in a wider type.
_WIDEN: Final = ("count", "min", "max", "sum", "avg")


def stored_declaration(spec: ProjectionSpec, properties: TableProperties) -> ProjectionDeclaration:
    """Return a projection's entry in a table's metadata, given its spec over the table's names."""
    stored = properties.stored_columns
    if stored is not UNSET:
        spec = renamed(spec, stored_by_name(properties), schema_of_columns(stored.newest))
    return ProjectionDeclaration(spec.name, spec.definition_hash, spec.definition)


def declared_spec(declared: ProjectionDeclaration, properties: TableProperties) -> ProjectionSpec:
    """Return a declared projection over the table's names."""
    spec = named_spec(declared.name, declared.definition, properties)
    if isinstance(spec, str):
        raise CorruptTableError(
            "PROJSEG_CORRUPT_TABLE",
            f"the table declares projection '{declared.name}' over other columns than it has: "
            f"{spec}; restore the snapshot from a copy",
        )
    return spec


def stored_spec(name: str, definition: str, properties: TableProperties) -> ProjectionSpec:
    """Return a projection over stored names, as any segment of the table may state it."""
    stored = properties.stored_columns
    columns = properties.columns if stored is UNSET else stored.every
    return _plain_spec(name, definition, schema_of_columns(columns))


def named_spec(name: str, definition: str, properties: TableProperties) -> ProjectionSpec | str:
    """Return a stored projection over the table's names; a text says why there is none.

    The name is the stored one, which may not be the definition's own. Aggregates whose states are
    of no use in a column's wider type are left out.
    """
    if properties.stored_columns is UNSET:
        return _plain_spec(name, definition, properties.schema)
    return _named_spec(name, definition, properties.columns, properties.stored_columns)


@kept_by_tables
def _plain_spec(name: str, definition: str, schema: pa.Schema) -> ProjectionSpec:
    return replace(from_definition(definition, schema), name=name)


class _Meaning(NamedTuple):
    """The column behind a stored name, with the stored and the present type of its values."""

    name: str
    narrow: pa.DataType
    wide: pa.DataType


@kept_by_tables
def _named_spec(
    name: str,
    definition: str,
    columns: tuple[ColumnDeclaration, ...],
    stored: StoredColumns,
) -> ProjectionSpec | str:
    spec = _plain_spec(name, definition, schema_of_columns(stored.every))
    meanings = {
        form.name: _Meaning(column.name, parse_type_name(form.type), parse_type_name(column.type))
        for column, forms in zip(columns, stored.columns, strict=True)
        for form in forms
    }
    mentioned = mentioned_columns(spec)
    if not mentioned <= meanings.keys():
        return f"column '{min(mentioned - meanings.keys())}' was dropped"
    widened = {
        stored_name: meaning
        for stored_name, meaning in meanings.items()
        if stored_name in mentioned and meaning.narrow != meaning.wide
    }
    for column in _changed(spec, frozenset(widened)):
        was = widened[column]
        return f"column '{was.name}' was widened from {was.narrow} to {was.wide}"
    aggregators = tuple(call for call in spec.aggregators if _widens(call, widened))
    kept = replace(spec, aggregators=aggregators)
    names = {stored_name: meaning.name for stored_name, meaning in meanings.items()}
    try:
        named = renamed(kept, names, schema_of_columns(columns))
    except ProjsegError as error:
        return f"under the columns' present names: {error.message}"
    named = replace(named, name=name)
    if named == spec:
        return spec
    return replace(named, stored=StoredAs(spec, _grouping(named, kept), _states(named, kept)))


def _changed(spec: ProjectionSpec, widened: frozenset[str]) -> Iterator[str]:
    """Yield widened columns that a part reads by which the projection's groups are made."""
    for named in spec.grouping:
        if not isinstance(named.expression, Column):
            yield from sorted(named.expression.columns & widened)
    if spec.filter is not None:
        yield from sorted(spec.filter.columns & widened)


def _widens(call: AggregateCall, widened: Mapping[str, _Meaning]) -> bool:
    """Whether the states of a call serve for the wider columns as well."""
    trees = [*call.arguments, *([] if call.filter is None else [call.filter])]
    read = frozenset[str]().union(*(tree.columns for tree in trees)) & widened.keys()
    if not read:
        return True
    if call.function not in _WIDEN or call.filter is not None or len(call.arguments) != 1:
        return False
    (argument,) = call.arguments
    if not isinstance(argument, Column):
        return False
    # A sum of integers is exact, and one of doubles is rounded at each step.
    changes_sums = argument.type in INTEGER_DIGITS and pa.types.is_floating(
        widened[argument.name].wide
    )
    return not (changes_sums and call.function in ("sum", "avg"))


def _grouping(named: ProjectionSpec, kept: ProjectionSpec) -> tuple[tuple[str, str], ...]:
    return tuple(
        (stored_column(here.expression).name, stored_column(there.expression).name)
        for here, there in zip(named.grouping, kept.grouping, strict=True)
    )


def _states(named: ProjectionSpec, kept: ProjectionSpec) -> tuple[tuple[str, str], ...]:
    if named.holds_rows:
        return ((ROW_NUMBER, ROW_NUMBER),)
    return tuple(
        (state_column_name(here.text, part), state_column_name(there.text, part))
        for one, other in zip(named.aggregators, kept.aggregators, strict=True)
        for here, there in zip(decompose(one), decompose(other), strict=True)
        for part, _ in there.fields
    )


def viewed(segment: SegmentFile, schema: TableSchema) -> SegmentFile | ColumnView:
    """Return the base table of a segment under the names, and in the types, of a schema."""
    if not schema.forms:
        return segment

    def find(role: Role, name: str) -> tuple[str, pa.DataType] | None:
        del role
        stored = schema.stored_name(name, _BaseColumns(segment))
        return None if stored is None else (stored, schema.field(name).type)

    return ColumnView(segment, find)


def viewed_projection(segment: SegmentFile, spec: ProjectionSpec) -> SegmentFile | ColumnView:
    """Return a stored projection under the names, and in the types, of its spec."""
    if spec.stored is None:
        return segment
    grouping, states = dict(spec.stored.grouping), dict(spec.stored.states)
    names: dict[tuple[Role, str], tuple[str, pa.DataType]] = {}
    for named in spec.grouping:
        column = stored_column(named.expression)
        names["grouping", column.name] = (grouping[column.name], column.type)
    for name, arrow_type in spec.state_columns:
        names["state", name] = (states[name], arrow_type)
    return ColumnView(segment, lambda role, name: names.get((role, name)))


@dataclass(frozen=True, slots=True)
class _BaseColumns:
    """The names of a segment's base columns."""

    segment: SegmentFile

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.segment.has_column(BASE_TABLE, "base", name)

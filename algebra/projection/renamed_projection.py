"""Projections over columns that have other names: trees are changed, and read again from text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace as replace_fields

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.aggregates.parse_aggregate import AggregateCall
from projseg.algebra.expressions.bind import NamedExpression
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.algebra.projection.spec import ProjectionSpec, from_definition


def renamed(spec: ProjectionSpec, names: Mapping[str, str], schema: pa.Schema) -> ProjectionSpec:
    """Return a projection over columns that have other names (`names` by old ones), or other types.

    Canonical trees depend on names, so the result is read from the text of the renamed tree. Its
    grouping columns and aggregators stand in the order of those of `spec`.
    """
    time = spec.time_column
    other = ProjectionSpec(
        name=spec.name,
        grouping=tuple(_renamed_grouping(named, names) for named in spec.grouping),
        aggregators=tuple(_renamed_call(call, names) for call in spec.aggregators),
        filter=None if spec.filter is None else _renamed_tree(spec.filter, names),
        time_column=None if time is None else names.get(time, time),
        order=tuple(_renamed_tree(column, names) for column in spec.order),
    )
    # Aggregators that a wider column took away may have been all that depended on a zone.
    rules = tuple(pair for pair in spec.zone_rules if pair[0] in other.regions)
    other = replace(other, zone_rules=rules)
    return from_definition(other.definition, schema)


def mentioned_columns(spec: ProjectionSpec) -> frozenset[str]:
    """Return the names of the columns that any part of a projection reads."""
    return frozenset[str]().union(*(tree.columns for tree in _trees(spec)))


def _trees(spec: ProjectionSpec) -> Iterator[Expression]:
    yield from (named.expression for named in spec.grouping)
    for call in spec.aggregators:
        yield from call.arguments
        if call.filter is not None:
            yield call.filter
    if spec.filter is not None:
        yield spec.filter


def _renamed_grouping(named: NamedExpression, names: Mapping[str, str]) -> NamedExpression:
    tree = _renamed_tree(named.expression, names)
    # A column that has no alias is an output of its own name.
    is_plain = isinstance(named.expression, Column) and named.name == named.expression.name
    return NamedExpression(tree.name if is_plain and isinstance(tree, Column) else named.name, tree)


def _renamed_call(call: AggregateCall, names: Mapping[str, str]) -> AggregateCall:
    return replace(
        call,
        arguments=tuple(_renamed_tree(argument, names) for argument in call.arguments),
        filter=None if call.filter is None else _renamed_tree(call.filter, names),
    )


def _renamed_tree(tree: Expression, names: Mapping[str, str]) -> Expression:
    if isinstance(tree, Column):
        return Column(tree.type, names.get(tree.name, tree.name))
    if isinstance(tree, Call):
        arguments = tuple(_renamed_tree(argument, names) for argument in tree.arguments)
        return replace_fields(tree, arguments=arguments)
    return tree

"""The dimensions of a view: where they are, at which versions, and what their texts mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
from msgspec import UNSET

from projseg.algebra.expressions.joined_values import path_of
from projseg.algebra.expressions.stated_joins import AbsentDimension, StatedTable, StatedTables
from projseg.algebra.expressions.tree import Call
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.query.join import key_not_unique
from projseg.errors import InvalidInputError
from projseg.memory.cache import KEPT
from projseg.reader.dimensions import TableDimension
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import type_name
from projseg.table_layer.change_feed import effect_of
from projseg.table_layer.commits.open_version import open_as_of
from projseg.table_layer.metadata.snapshot import Snapshot, read_version
from projseg.table_layer.metadata.table_properties import TableProperties, schema_of_columns
from projseg.table_layer.storage.paths import VIEWS
from projseg.views.linked_tables import linked_storage, location_from, seen_from
from projseg.views.view_records import FACT, PathState, ViewDimension, ViewEntry, ViewPart

FOUND: Final = "found#"
"""Begins the names of the grouping columns that say whether a path has a row."""
_VERSIONS_COMPARED_MAX: Final = 64


def stated(
    dimensions: Iterable[ViewDimension], known: Mapping[str, Any] | None = None
) -> StatedTables:
    """Return the meaning of a view's texts, given dimensions by table id; others are absent."""
    by_id = {one.table_id: one for one in dimensions}
    known = known or {}
    return tuple(
        StatedTable(known.get(table_id) or AbsentDimension(table_id), one.columns)
        for table_id, one in by_id.items()
    )


def paths_of(spec: ProjectionSpec) -> tuple[Call, ...]:
    """Return the node of each path of a view that says whether it has a row, in order."""
    found = [named.expression for named in spec.grouping if named.name.startswith(FOUND)]
    return tuple(one for one in found if isinstance(one, Call) and one.function == "join_found")


def dimensions_used(
    joins: Iterable[Call], tables: Mapping[str, TableDimension], fact: Snapshot
) -> tuple[ViewDimension, ...]:
    """Return the tables of a view's FROM, with the columns that its joins read of each."""
    columns: dict[str, set[str]] = {}
    for node in joins:
        path = path_of(node)
        read = columns.setdefault(path.dimension.table_id, set())
        read.update(*(key.columns for key in path.keys), map(str, node.parameters[1:]))
        read.update(() if path.condition is None else path.condition.columns)
    return tuple(
        ViewDimension(
            name,
            seen_from(table.snapshot.storage.location, f"{fact.storage.location}/{VIEWS}"),
            table.table_id,
            _typed(sorted(columns.get(table.table_id, ())), table.snapshot.properties),
        )
        for name, table in tables.items()
    )


def _typed(names: Iterable[str], properties: TableProperties) -> tuple[tuple[str, str], ...]:
    types = {field.name: type_name(field.type) for field in stored_columns(properties)}
    return tuple((name, types[name]) for name in names)


def stored_columns(properties: TableProperties) -> pa.Schema:
    """Return a table's columns by the names under which new segments store them."""
    stored = properties.stored_columns
    return properties.schema if stored is UNSET else schema_of_columns(stored.newest)


def stored_type_of(name: str, properties: TableProperties) -> tuple[str, str]:
    """Return the name under which new segments store a table's column, and its type."""
    names = [name_key(column.name) for column in properties.columns]
    field = stored_columns(properties).field(names.index(name_key(name)))
    return field.name, type_name(field.type)


def newest_dimensions(fact: Snapshot, view: ViewEntry) -> dict[str, TableDimension]:
    """Return the dimensions of a view at their newest versions, by the ids that it knows."""
    by_id = {one.table_id: one for one in reversed(view.dimensions)}
    return {table_id: newest_dimension(fact, view.name, one) for table_id, one in by_id.items()}


def newest_dimension(fact: Snapshot, view_name: str, one: ViewDimension) -> TableDimension:
    """Return a dimension of a view at its newest version."""
    who = f"dimension '{one.alias}' of view '{view_name}'"
    found = fact
    if one.location != FACT:
        there = location_from(one.location, f"{fact.storage.location}/{VIEWS}")
        storage = linked_storage(fact.storage, there, who)
        try:
            found = open_as_of(storage)
        except InvalidInputError as error:
            raise InvalidInputError(error.code, f"{who}: {error.message}") from error
    if found.properties.table_id != one.table_id:
        raise InvalidInputError(
            "PROJSEG_VIEW_BROKEN",
            f"{who} is at {found.storage.location}, and another table is in its place now; make "
            "the view anew",
        )
    return TableDimension(found)


def check_keys(view_name: str, spec: ProjectionSpec, dimensions: Iterable[ViewDimension]) -> None:
    """Refuse a dimension whose values are read if several of its rows may match."""
    names = {one.table_id: one.alias for one in dimensions}
    trees = [named.expression for named in spec.grouping]
    trees += [tree for call in spec.aggregators for tree in (*call.arguments, call.filter) if tree]
    trees += list(spec.filter_conjuncts)
    paths = {
        path_of(node): None
        for tree in trees
        for node in tree.walk()
        if isinstance(node, Call) and node.function == "join_value"
    }
    for path in paths:
        value = path.dimension.repeated(path)
        if value is not None:
            name = names[path.dimension.table_id]
            error = key_not_unique(name, path.names, value)
            raise InvalidInputError(error.code, f"view '{view_name}': {error.message}")


def holds_rows_of(dimension: TableDimension, state: PathState) -> bool:
    """Whether a dimension's version has the rows of the one that a part was built with."""
    snapshot = dimension.snapshot
    if dimension.table_id != state.table_id:
        return False
    if (snapshot.version, snapshot.file.write_id) == (state.version, state.write_id):
        return True
    found: bool = KEPT.get_or_load(
        ("same dimension", dimension.identity, state.version, state.write_id),
        lambda: _same_rows(snapshot, state),
        lambda _: 256,
    )
    return found


def _same_rows(snapshot: Snapshot, state: PathState) -> bool:
    other = read_version(snapshot.storage, state.version)
    if other is None or other.file.write_id != state.write_id:
        return False
    if _listed(other) == _listed(snapshot):
        return True
    if snapshot.number != snapshot.version:
        return False  # what a source lists follows from no commit
    earlier, later = sorted((other, snapshot), key=lambda one: one.version)
    if later.version - earlier.version > _VERSIONS_COMPARED_MAX:
        return False
    for version in range(earlier.version + 1, later.version + 1):
        step = later if version == later.version else read_version(snapshot.storage, version)
        effect = None if step is None else effect_of(step)
        if effect is None or effect.effect != "none":
            return False
    return True


def _listed(snapshot: Snapshot) -> set[str]:
    manifests = snapshot.load_all()
    return {name for manifest in manifests for name in manifest.listed()}


def state_of(dimension: TableDimension, unmatched: int) -> PathState:
    """Return the record of a dimension in a part that is built with it."""
    file = dimension.snapshot.file
    return PathState(dimension.table_id, file.version, file.write_id, unmatched)


def known_dimensions(
    part: ViewPart, dimensions: Mapping[str, Iterable[TableDimension]]
) -> dict[str, TableDimension]:
    """Return, of versions of dimensions by table id, those whose rows a part was built with."""
    found: dict[str, TableDimension] = {}
    lost: set[str] = set()
    for state in part.paths:
        same = (one for one in dimensions.get(state.table_id, ()) if holds_rows_of(one, state))
        dimension = next(same, None)
        if dimension is None or found.setdefault(state.table_id, dimension) != dimension:
            lost.add(state.table_id)
    return {table_id: one for table_id, one in found.items() if table_id not in lost}


def built_with(
    part: ViewPart, dimensions: Mapping[str, TableDimension]
) -> dict[str, TableDimension] | None:
    """Return the versions of dimensions that a part was built with; None if one is not kept."""
    found: dict[str, TableDimension] = {}
    for state in part.paths:
        table = dimensions.get(state.table_id)
        then = None if table is None else read_version(table.snapshot.storage, state.version)
        if then is None or then.file.write_id != state.write_id:
            return None
        found[state.table_id] = TableDimension(then)
    return found


def is_built_with(part: ViewPart, dimensions: Mapping[str, TableDimension]) -> bool:
    """Whether the dimensions have the rows that a part was built with."""
    return all(holds_rows_of(dimensions[state.table_id], state) for state in part.paths)

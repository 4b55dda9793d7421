"""Versions that `explain` plans over as if projections and indexes were built, or not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from projseg.algebra.projection.parse import parse_projection
from projseg.declarations import Index, ProjectionLike, declaration_of, declared_index
from projseg.errors import InvalidInputError, did_you_mean
from projseg.maintenance.sampled_indexes import IndexSizes, index_sizes
from projseg.maintenance.sampled_segments import SampledSegments
from projseg.reader.plan.what_if import HypotheticalSnapshot
from projseg.table_layer.metadata.index_declaration import DeclaredIndex
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration, TableProperties
from projseg.table_layer.renamed_columns import stored_declaration

_SAMPLED_SEGMENTS = 4
_SAMPLED_ROWS = 4_000_000


class WhatIf(NamedTuple):
    """A version as if, its indexes that are not there, and the names of what the table has not."""

    snapshot: HypotheticalSnapshot
    indexes: tuple[IndexSizes, ...]
    added: frozenset[str]


def what_if_version(
    snapshot: Snapshot,
    added: Sequence[ProjectionLike | Index],
    without: Sequence[str],
) -> WhatIf:
    """Return a version as if projections and indexes were built, and projections were not.

    Their size is measured by building them for some segments in memory.
    """
    properties = snapshot.properties
    declared = {one.name: one for one in properties.projections}
    for name in without:
        if not isinstance(name, str) or name not in declared:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_PROJECTION",
                f"the table declares no projection '{name}' to plan without"
                f"{did_you_mean(str(name), declared)}; it has {', '.join(declared) or 'none'}",
            )
    projections = [
        _projection(properties, one, without) for one in added if not isinstance(one, Index)
    ]
    indexes = [_index(properties, one) for one in added if isinstance(one, Index)]
    sample = SampledSegments(snapshot, _SAMPLED_SEGMENTS, _SAMPLED_ROWS)
    sizes = [sample.sizes(one) for one in projections if one is not None]
    imagined = [
        size for one in indexes if one is not None for size in index_sizes(sample, properties, one)
    ]
    names = {one.declaration.name for one in sizes} | {one.name for one in imagined}
    return WhatIf(HypotheticalSnapshot(snapshot, sizes, without), tuple(imagined), frozenset(names))


def _projection(
    properties: TableProperties, one: ProjectionLike, without: Sequence[str]
) -> ProjectionDeclaration | None:
    """Return a projection over stored names; None if the table declares it already."""
    spec = parse_projection(
        declaration_of(one), properties.schema, time_column=properties.time_column
    )
    declaration = stored_declaration(spec, properties)
    there = {known.name: known for known in properties.projections}.get(spec.name)
    if there is None or spec.name in without:
        return declaration
    if there.definition_hash == declaration.definition_hash:
        return None
    raise InvalidInputError(
        "PROJSEG_PROJECTION_EXISTS",
        f"the table has another projection '{spec.name}'; choose a free name for what_if, "
        "or plan without that one",
    )


def _index(properties: TableProperties, one: Index) -> DeclaredIndex | None:
    """Return an index over stored names; None if the table declares it already."""
    wanted = declared_index(one, properties)
    by_name = {known.name.casefold(): known for known in properties.declared_indexes}
    there = by_name.get(wanted.name.casefold())
    if there is None:
        return wanted
    if there.columns == wanted.columns:
        return None
    raise InvalidInputError(
        "PROJSEG_INDEX_EXISTS",
        f"the table has another index '{there.name}'; choose a free name for what_if",
    )

"""Versions that `explain` plans over as if projections were built, or others dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from projseg.algebra.projection.parse import parse_projection
from projseg.declarations import Index, ProjectionLike, declaration_of
from projseg.errors import InvalidInputError, UnsupportedFeatureError, did_you_mean
from projseg.maintenance.sampled_segments import SampledSegments
from projseg.reader.plan.what_if import HypotheticalSnapshot
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.renamed_columns import stored_declaration

_SAMPLED_SEGMENTS = 4
_SAMPLED_ROWS = 4_000_000


class WhatIf(NamedTuple):
    """A version as if, and the names of what it has that the table has not."""

    snapshot: HypotheticalSnapshot
    added: frozenset[str]


def what_if_version(
    snapshot: Snapshot,
    added: Sequence[ProjectionLike | Index],
    without: Sequence[str],
) -> WhatIf:
    """Return a version as if projections were built and others were not.

    What they would take is measured by building them in some segments, in memory.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_PROJECTION, PROJSEG_PROJECTION_EXISTS, PROJSEG_UNKNOWN_PROJECTION.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_FUNCTION of an index.
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
    sample: SampledSegments | None = None
    sizes = []
    for one in added:
        if isinstance(one, Index):
            raise UnsupportedFeatureError(
                "PROJSEG_UNSUPPORTED_FUNCTION",
                f"what_if plans with projections, and '{one.name}' is an index; add it to a copy "
                "of the table, and explain there",
            )
        spec = parse_projection(
            declaration_of(one), properties.schema, time_column=properties.time_column
        )
        declaration = stored_declaration(spec, properties)
        there = declared.get(spec.name)
        if there is not None and spec.name not in without:
            if there.definition_hash == declaration.definition_hash:
                continue
            raise InvalidInputError(
                "PROJSEG_PROJECTION_EXISTS",
                f"the table has another projection '{spec.name}'; choose a free name for what_if, "
                "or plan without that one",
            )
        sample = sample or SampledSegments(snapshot, _SAMPLED_SEGMENTS, _SAMPLED_ROWS)
        sizes.append(sample.sizes(declaration))
    names = frozenset(one.declaration.name for one in sizes)
    return WhatIf(HypotheticalSnapshot(snapshot, sizes, without), names)

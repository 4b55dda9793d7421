"""What a user declares, a table or a projection, as the table layer keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from projseg.algebra.projection_parse import parse_projection
from projseg.algebra.projection_spec import ProjectionSpec
from projseg.errors import InvalidInputError
from projseg.projection import Projection
from projseg.segment_format.types import normal_type
from projseg.table_layer.table_properties import (
    TARGET_SEGMENT_ROWS,
    ProjectionDeclaration,
    TableProperties,
)

ProjectionDeclared = Projection | Mapping[str, Any] | str


def declare_properties(
    schema: pa.Schema,
    *,
    time_column: str | None = None,
    segment_granularity: str = "all",
    cluster_by: Sequence[str] = (),
    projections: Sequence[ProjectionDeclared] = (),
    target_segment_rows: int = TARGET_SEGMENT_ROWS,
    properties: Mapping[str, str] | None = None,
) -> TableProperties:
    """Return the checked properties of a table to be created; see `Table.create`."""
    normal = pa.schema([(field.name, normal_type(field.type)) for field in schema])
    specs = [
        parse_projection(
            declaration_of(declaration),
            normal,
            time_column=time_column,
            segment_granularity=segment_granularity,
        )
        for declaration in projections
    ]
    return TableProperties.declare(
        normal,
        time_column=time_column,
        segment_granularity=segment_granularity,
        cluster_by=cluster_by,
        target_segment_rows=target_segment_rows,
        projections=[declared(spec) for spec in specs],
        properties=properties,
    )


def declaration_of(declaration: ProjectionDeclared) -> Mapping[str, Any] | Projection:
    """Return a declaration that may be JSON text as the object it means.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_PROJECTION, if the text is not a JSON object.
    """
    if not isinstance(declaration, str):
        return declaration
    try:
        parsed = json.loads(declaration)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            "PROJSEG_BAD_PROJECTION", f"projection {declaration[:80]!r} is not JSON: {error}"
        ) from error
    if not isinstance(parsed, dict):
        raise InvalidInputError(
            "PROJSEG_BAD_PROJECTION",
            f"projection {declaration[:80]!r} is a JSON {type(parsed).__name__}, not an object",
        )
    return parsed


def declared(spec: ProjectionSpec) -> ProjectionDeclaration:
    """Return a spec as a table's metadata keeps it."""
    return ProjectionDeclaration(spec.name, spec.definition_hash, spec.definition)

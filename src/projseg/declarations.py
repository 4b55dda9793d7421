"""Turn a user's declarations of tables and projections into the table layer's form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from projseg.algebra.expressions.text.type_text import parse_type
from projseg.algebra.projection.parse import parse_projection, parse_projections
from projseg.errors import HALF_A_CHARACTER, InvalidInputError, is_storable
from projseg.projection import Projection
from projseg.segment_format.layout.logical_types import normal_type
from projseg.table_layer.columns.projection_names import stored_declaration
from projseg.table_layer.metadata.table_properties import (
    TARGET_SEGMENT_ROWS,
    ProjectionDeclaration,
    TableProperties,
    check_options,
)

SchemaLike: TypeAlias = pa.Schema | Mapping[str, str | pa.DataType]
ProjectionLike = Projection | Mapping[str, Any] | str


def schema_of(declared: SchemaLike) -> pa.Schema:
    """Return a schema that may be a mapping of column names to types.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_SCHEMA, PROJSEG_BAD_NAME, PROJSEG_BAD_TYPE_NAME.
    """
    if isinstance(declared, pa.Schema):
        return declared
    if not isinstance(declared, Mapping):
        raise InvalidInputError(
            "PROJSEG_BAD_SCHEMA",
            f"a schema is a pyarrow Schema, or a dict of column names and types such as "
            f"{{'time': 'timestamp', 'added': 'bigint'}}, not a {type(declared).__name__}",
        )
    return pa.schema([(_column_name(name), _type_of(name, t)) for name, t in declared.items()])


def _column_name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidInputError("PROJSEG_BAD_NAME", f"column name {name!r} is not text")
    if not is_storable(name):
        raise InvalidInputError("PROJSEG_BAD_NAME", f"column name {name!r} {HALF_A_CHARACTER}")
    return name


def _type_of(column: str, given: object) -> pa.DataType:
    if isinstance(given, pa.DataType):
        return given
    if not isinstance(given, str):
        raise InvalidInputError(
            "PROJSEG_BAD_TYPE_NAME",
            f"column '{column}' has {given!r} for a type; give its name in Spark SQL or a pyarrow "
            "type",
        )
    try:
        return parse_type(given)
    except InvalidInputError as error:
        raise InvalidInputError(error.code, f"column '{column}': {error.message}") from error


def declare_properties(
    schema: pa.Schema,
    *,
    time_column: str | None = None,
    segment_granularity: str = "all",
    cluster_by: Sequence[str] = (),
    projections: Sequence[ProjectionLike] = (),
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
        )
        for declaration in projections
    ]
    return TableProperties.declare(
        normal,
        time_column=time_column,
        segment_granularity=segment_granularity,
        cluster_by=cluster_by,
        target_segment_rows=target_segment_rows,
        projections=[
            ProjectionDeclaration(spec.name, spec.definition_hash, spec.definition)
            for spec in specs
        ],
        properties=properties,
    )


def check_declared(
    properties: TableProperties,
    *,
    projections: Sequence[ProjectionLike] = (),
    **given: Any,
) -> None:
    """Refuse declarations that contradict those of an existing table.

    Parameters
    ----------
    properties : TableProperties
        The table's.
    projections : sequence
        Declarations; the table must have each, under its name.
    **given : object
        Options as `check_options` takes them.

    Raises
    ------
    InvalidInputError
        PROJSEG_OPTION_CONTRADICTS_TABLE.
    """
    check_options(properties, **given)
    known = {projection.name: projection.definition_hash for projection in properties.projections}
    for spec in parse_projections(
        [declaration_of(declaration) for declaration in projections],
        properties.schema,
        time_column=properties.time_column,
    ):
        if known.get(spec.name) != stored_declaration(spec, properties).definition_hash:
            state = "declares it otherwise" if spec.name in known else "does not declare it"
            raise InvalidInputError(
                "PROJSEG_OPTION_CONTRADICTS_TABLE",
                f"projection '{spec.name}' was given and the table {state}; leave it out, and "
                "change the table's projections with add_projection and drop_projection",
            )


def declaration_of(declaration: ProjectionLike) -> Mapping[str, Any] | Projection:
    """Return a declaration as an object; JSON text is parsed.

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

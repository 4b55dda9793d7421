"""`Projection` and `Index` as a caller writes them, and declarations in the table layer's form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
from msgspec import UNSET
from msgspec.structs import replace

from projseg.algebra.expressions.canonical import canonical
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_words import parse_type, quoted_name
from projseg.algebra.expressions.tree import Column
from projseg.algebra.projection.parse import parse_projection, parse_projections
from projseg.algebra.query.declared_columns import substituted
from projseg.errors import HALF_A_CHARACTER, InvalidInputError, is_storable, listed
from projseg.segment_format.format_limits import check_new_name
from projseg.segment_format.indexes.index_kinds import (
    FPP_DEFAULT,
    FPP_MAX,
    FPP_MIN,
    KINDS,
    IndexDefinition,
    bits_of,
)
from projseg.segment_format.logical_types import normal_type_of, type_name
from projseg.table_layer.column_changes import NewColumns, find_column, with_changes
from projseg.table_layer.indexed_columns import index_expression, scope_properties
from projseg.table_layer.metadata.index_declaration import DeclaredIndex, bad_index, check_indexes
from projseg.table_layer.metadata.known_properties import ProjectionScope
from projseg.table_layer.metadata.table_properties import (
    TARGET_SEGMENT_ROWS,
    ProjectionDeclaration,
    TableProperties,
    check_options,
    kept_when_replaced,
    spelled,
)
from projseg.table_layer.metadata.table_schema import stored_by_name
from projseg.table_layer.renamed_columns import stored_declaration, stored_spec

SchemaLike: TypeAlias = pa.Schema | Mapping[str, str | pa.DataType]

_EVERYWHERE: Final = ProjectionScope()


@dataclass(frozen=True)
class Projection:
    """A pre-grouped or differently sorted table that every segment written from now on embeds.

    Nothing is checked here: that takes the table's schema. Give `group_by` and `aggregators` for
    groups, `columns` and `order_by` for rows.

    Parameters
    ----------
    name : str
        Its name, for people and for `useProjection`.
    group_by : sequence of str
        Grouping columns as Spark SQL, `"date_trunc('HOUR', time) AS hour"`, in sort order.
    aggregators : sequence of str
        Such as `"sum(added) AS added"`.
    where : str or None
        Only rows where it is true are in the projection.
    columns : sequence of str
        What is kept of every row: Spark SQL, `"*"` for all columns of the table.
    order_by : sequence of str
        What these rows are sorted by, ascending with nulls first: some of `columns`, by their
        aliases or as expressions.
    """

    name: str
    group_by: Sequence[str] = ()
    aggregators: Sequence[str] = ()
    where: str | None = None
    columns: Sequence[str] = ()
    order_by: Sequence[str] = ()


@dataclass(frozen=True)
class Index:
    """An index: it says which segments may hold a value, and never changes an answer.

    Nothing is checked here: that takes the table's schema.

    Parameters
    ----------
    name : str
        Its name in the table, in any case.
    columns : str or sequence of str
        One to eight columns, each indexed by itself. `bloom` also takes an expression of one column
        without timestamps, such as `lower(page)`, for equality with its values.
    kind : str
        `bloom`: equality with values, for columns of many values; `token`: words of texts, for
        `text_match`; `ngram`: parts of texts, for LIKE, ILIKE, `contains` and their like.
    fpp : float
        The share of segments without a value that may be read for it all the same, 0.00001 to 0.1.
    postings : bool or None
        Whether segments store which values hold a word or a part, for `token` and `ngram`; None:
        they do. `bloom` has none.
    """

    name: str
    columns: str | Sequence[str]
    kind: str = "bloom"
    fpp: float = 0.001
    postings: bool | None = None


ProjectionLike = Projection | Mapping[str, Any] | str
IndexLike = Index | Mapping[str, Any] | str


def schema_of(declared: SchemaLike | None) -> pa.Schema:
    """Return a schema that may be a mapping of column names to types.

    Raises InvalidInputError: PROJSEG_BAD_SCHEMA, PROJSEG_BAD_NAME or PROJSEG_BAD_TYPE_NAME.
    """
    if isinstance(declared, pa.Schema):
        return declared
    if not isinstance(declared, Mapping):
        raise InvalidInputError(
            "PROJSEG_BAD_SCHEMA",
            f"a schema is a pyarrow Schema, or a dict of column names and types such as "
            f"{{'time': 'timestamp', 'added': 'bigint'}}, not a {type(declared).__name__}; rows are"
            " given as data=...",
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


def declared_index(
    index: IndexLike,
    properties: TableProperties,
    scope: ProjectionScope = _EVERYWHERE,
) -> DeclaredIndex:
    """Return the checked declaration of an index of a table; JSON text or a mapping is read.

    The scope has the segments that it is built for. Raises InvalidInputError: PROJSEG_BAD_INDEX,
    PROJSEG_UNKNOWN_COLUMN or PROJSEG_BAD_NAME.
    """
    index = _index_of(index)
    check_new_name("index", index.name)
    kind, fpp = str(index.kind).casefold(), index.fpp
    if kind not in KINDS:
        allowed = ", ".join(KINDS)
        raise bad_index(str(index.name), f"is of kind {index.kind!r}; the kinds are: {allowed}")
    is_number = isinstance(fpp, int | float) and not isinstance(fpp, bool)
    if not (is_number and FPP_MIN <= fpp <= FPP_MAX):
        raise bad_index(str(index.name), f"has fpp {fpp!r}; it is a number, 0.00001 to 0.1")
    is_foreign = properties.source is not UNSET
    if is_foreign and index.postings:
        raise bad_index(
            str(index.name), "has postings, which are of rows of the table's own; leave them out"
        )
    has_postings = index.postings
    if has_postings is None:
        has_postings = KINDS[kind].has_postings and not is_foreign
    if not isinstance(has_postings, bool) or (has_postings and not KINDS[kind].has_postings):
        raise bad_index(
            str(index.name),
            f"has postings {index.postings!r}; it is true or false, and false for {kind}",
        )
    given = [index.columns] if isinstance(index.columns, str) else list(index.columns)
    stored = stored_by_name(properties)
    types = {column.name: column.type for column in properties.columns}
    definitions = []
    for text in given:
        try:
            name = find_column(properties, _plain_name(str(text)))
            column, type_ = quoted_name(stored[name]), types[name]
        except InvalidInputError as unknown:
            if kind != "bloom":
                raise
            column, type_ = _indexed_expression(str(text), properties, unknown)
        definition = IndexDefinition(
            kind,
            column,
            type_,
            bits_of(fpp),
            postings=has_postings,
            unicode=KINDS[kind].unicode,
        )
        definitions.append(definition)
    if len(set(definitions)) != len(definitions):
        raise bad_index(str(index.name), "names a column twice; name each once")
    stated = scope_properties(scope) | ({} if fpp == FPP_DEFAULT else {"fpp": repr(fpp)})
    declared = DeclaredIndex(str(index.name), kind, tuple(definitions), stated)
    check_indexes([declared])
    return declared


def _indexed_expression(
    text: str, properties: TableProperties, unknown: InvalidInputError
) -> tuple[str, str]:
    """Return the canonical text of an expression over stored names, and its type."""
    try:
        expression = index_expression(text, properties.schema)
    except InvalidInputError as error:
        raise (error if error.code == "PROJSEG_BAD_INDEX" else unknown) from error
    (name,) = expression.columns
    stored = stored_by_name(properties)[name]
    own = Column(properties.schema.field(name).type, stored)
    over_stored = canonical(substituted(expression, {name: own}))
    return to_sql(over_stored), type_name(expression.type)


def _plain_name(text: str) -> str:
    """Return the name that a column's SQL means: it may stand in backticks."""
    if len(text) > 1 and text[0] == text[-1] == "`":
        return text[1:-1].replace("``", "`")
    return text


def _index_of(given: IndexLike) -> Index:
    if isinstance(given, Index):
        return given
    fields: Any = given
    if isinstance(given, str):
        try:
            fields = json.loads(given)
        except (ValueError, RecursionError) as error:
            raise bad_index(given[:80], f"is not JSON: {error}") from error
    known = {"name", "columns", "kind", "fpp", "postings"}
    if not isinstance(fields, Mapping) or not {"name", "columns"} <= set(fields) <= known:
        raise bad_index(
            str(given)[:80], f"is no declaration; give name and columns, of {sorted(known)}"
        )
    return Index(**fields)


def declare_properties(
    schema: pa.Schema,
    *,
    time_column: str | None = None,
    segment_granularity: str = "all",
    cluster_by: Sequence[str] = (),
    projections: Sequence[ProjectionLike] = (),
    target_segment_rows: int = TARGET_SEGMENT_ROWS,
    properties: Mapping[str, str] | None = None,
    indexes: Sequence[IndexLike] = (),
) -> TableProperties:
    """Return the checked properties of a table to be created; see `Table.create`."""
    normal = pa.schema([(field.name, normal_type_of(field)) for field in schema])
    time_column = spelled(time_column, normal.names)
    specs = [
        parse_projection(
            declaration_of(declaration),
            normal,
            time_column=time_column,
        )
        for declaration in listed("projections", projections)
    ]
    declared = TableProperties.declare(
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
    found = tuple(declared_index(index, declared) for index in listed("indexes", indexes))
    check_indexes(found)
    return replace(declared, indexes=found or UNSET)


def redeclared(current: TableProperties, declared: TableProperties) -> TableProperties:
    """Return what a table declares when another declaration takes the place of its own.

    Columns of equal name and type keep their stored names; no other gets one that was given before.
    `declared` is that of a new table, as `declare_properties` returns it.
    """
    bare = replace(
        current,
        time_column=None,
        segment_granularity="all",
        cluster_by=(),
        projections=(),
        indexes=UNSET,
    )
    columns = with_changes(bare, NewColumns(declared.columns))
    found = replace(
        declared,
        table_id=current.table_id,
        columns=columns.columns,
        stored_columns=columns.stored_columns,
        properties={**declared.properties, **kept_when_replaced(current)},
        indexes=UNSET,
    )
    projections = tuple(
        stored_declaration(stored_spec(one.name, one.definition, declared), found)
        for one in declared.projections
    )
    indexes = tuple(_under_stored_names(one, found) for one in declared.declared_indexes)
    return replace(found, projections=projections, indexes=indexes or UNSET)


def _under_stored_names(index: DeclaredIndex, properties: TableProperties) -> DeclaredIndex:
    """Return an index of columns by their names as one of the columns as they are stored."""
    stored = stored_by_name(properties)
    definitions = tuple(
        replace(one, column=quoted_name(stored[_plain_name(one.column)])) for one in index.columns
    )
    return replace(index, columns=definitions)


def check_declared(
    properties: TableProperties,
    *,
    projections: Sequence[ProjectionLike] = (),
    indexes: Sequence[IndexLike] = (),
    **given: Any,
) -> None:
    """Refuse declarations that contradict those of an existing table.

    The table must have each projection and index, under its name; options are as `check_options`
    takes them. Raises InvalidInputError (PROJSEG_OPTION_CONTRADICTS_TABLE).
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

    of_table = {index.name.casefold(): index for index in properties.declared_indexes}
    for given_index in indexes:
        wanted = declared_index(given_index, properties)
        present = of_table.get(wanted.name.casefold())
        if present is None or (present.kind, present.columns) != (wanted.kind, wanted.columns):
            state = "does not declare it" if present is None else "declares it otherwise"
            raise InvalidInputError(
                "PROJSEG_OPTION_CONTRADICTS_TABLE",
                f"index '{wanted.name}' was given and the table {state}; leave it out, and change "
                "the table's indexes with add_index and drop_index",
            )


def declaration_of(declaration: ProjectionLike) -> Mapping[str, Any] | Projection:
    """Return a declaration as an object; JSON text is parsed, or raises PROJSEG_BAD_PROJECTION."""
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

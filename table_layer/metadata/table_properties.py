"""A table's declaration: what is fixed when it is created, and its projections.

SPEC.md "Table", table properties.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar

import msgspec
import pyarrow as pa

from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import InvalidInputError, did_you_mean, listed
from projseg.segment_format.format_limits import check_new_name, name_key, name_problem
from projseg.segment_format.logical_types import is_nested, normal_type, parse_type_name, type_name
from projseg.table_layer.metadata.index_declaration import DeclaredIndex, check_indexes
from projseg.table_layer.metadata.known_properties import check_set
from projseg.table_layer.metadata.metadata_limits import (
    COLUMNS_MAX,
    NAME_BYTES_MAX,
    PROJECTIONS_MAX,
)
from projseg.table_layer.metadata.stored_columns import (
    ColumnDeclaration,
    StoredColumns,
    stored_columns_problem,
)
from projseg.table_layer.metadata.text_bounds import check_all_sizes

VIEWS_PROPERTY: Final = "views"
"""The property of a table that says whether it has a store of views: `on`."""
VIEW_OF: Final = "viewOf."
"""Begins the properties of a dimension that name the facts whose views read it, by view id."""
TARGET_SEGMENT_ROWS: Final = 3_000_000
_TARGET_SEGMENT_ROWS_MAX: Final = 2**32 - 1


_Given = TypeVar("_Given")


class ProjectionDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A projection that new segments are to embed: canonical JSON, and its hash in segments."""

    name: str
    definition_hash: str
    definition: str


class StoredSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The source of a foreign table; SPEC.md "Table", foreign tables.

    `location` is a pattern of `parquet` files, the folder of a `delta` log, or an `iceberg` table's
    name in its catalog. `table_id` is the source's name for itself, if it has one, and `version`
    the last one synchronised, where it has versions. `columns` are those to take, None for all;
    `left_out` says why the table lacks others. Of Iceberg alone, `field_ids` has the columns' ids
    by stored name in new segments, and `name_mapping` ids by name, for files that state none.
    """

    kind: Literal["parquet", "delta", "iceberg"]
    location: str
    table_id: str | None = None
    version: str | None = None
    columns: tuple[ColumnDeclaration, ...] | None = None
    left_out: dict[str, str] = {}
    field_ids: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    name_mapping: dict[str, int] | msgspec.UnsetType = msgspec.UNSET


class TableProperties(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table's declaration, as its snapshots carry it; `declare` makes a checked one."""

    table_id: str
    columns: tuple[ColumnDeclaration, ...]
    time_column: str | None = None
    segment_granularity: str = "all"
    cluster_by: tuple[str, ...] = ()
    target_segment_rows: int = TARGET_SEGMENT_ROWS
    projections: tuple[ProjectionDeclaration, ...] = ()
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    stored_columns: StoredColumns | msgspec.UnsetType = msgspec.UNSET
    source: StoredSource | msgspec.UnsetType = msgspec.UNSET
    indexes: tuple[DeclaredIndex, ...] | msgspec.UnsetType = msgspec.UNSET
    """Declared too, and stored beside the properties: never set in a snapshot's own field."""

    @property
    def declared_indexes(self) -> tuple[DeclaredIndex, ...]:
        """The table's indexes."""
        return () if self.indexes is msgspec.UNSET else self.indexes

    @property
    def has_views(self) -> bool:
        """Whether the table says that it has a store of views; no other is looked for."""
        return self.properties.get(VIEWS_PROPERTY) == "on"

    @property
    def is_in_views(self) -> bool:
        """Whether views of this table, or of others that join it, follow its commits."""
        return self.has_views or any(name.startswith(VIEW_OF) for name in self.properties)

    @property
    def schema(self) -> pa.Schema:
        """The columns as an Arrow schema, in projseg's normal types; every column is nullable."""
        return schema_of_columns(self.columns)

    @classmethod
    def declare(
        cls,
        schema: pa.Schema,
        *,
        time_column: str | None = None,
        segment_granularity: str = "all",
        cluster_by: Iterable[str] = (),
        target_segment_rows: int = TARGET_SEGMENT_ROWS,
        projections: Sequence[ProjectionDeclaration] = (),
        properties: Mapping[str, str] | None = None,
    ) -> TableProperties:
        """Return the properties of a new table."""
        if properties is not None and not isinstance(properties, Mapping):
            raise InvalidInputError(
                "PROJSEG_BAD_OPTION", f"properties are {properties!r}; give a mapping of texts"
            )
        check_set(properties or {})
        check_all_sizes("properties of a table", {}, properties or {})
        for projection in projections:
            check_new_name("projection", projection.name)
        order = _checked_order(cluster_by, schema.names)
        declared = cls(
            table_id=uuid.uuid4().hex,
            columns=columns_of(schema),
            time_column=spelled(time_column, schema.names),
            segment_granularity=segment_granularity,
            cluster_by=order,
            target_segment_rows=target_segment_rows,
            projections=tuple(projections),
            properties=dict(properties or {}),
        )
        check_properties(declared)
        check_projection_count(declared)
        return declared


def kept_when_replaced(properties: TableProperties) -> dict[str, str]:
    """Return the properties that a table keeps under another declaration: those of its views."""
    return {
        name: text
        for name, text in properties.properties.items()
        if name == VIEWS_PROPERTY or name.startswith(VIEW_OF)
    }


@lru_cache(maxsize=1024)
def schema_of_columns(columns: tuple[ColumnDeclaration, ...]) -> pa.Schema:
    """Return declared columns as an Arrow schema."""
    return pa.schema([(column.name, parse_type_name(column.type)) for column in columns])


def columns_of(schema: pa.Schema) -> tuple[ColumnDeclaration, ...]:
    """Return the declarations of a schema's columns, in projseg's normal types."""
    for field in schema:
        check_field_names(field.name, field.type)
    return tuple(
        ColumnDeclaration(name=field.name, type=type_name(normal_type(field.type)))
        for field in schema
    )


def check_field_names(column: str, type_: pa.DataType) -> None:
    """Refuse a struct, at any depth, with long names of fields or two that differ only in case."""
    fields = [type_.field(place) for place in range(type_.num_fields)]
    if pa.types.is_struct(type_):
        for name in (one.name for one in fields):
            size = len(name.encode())
            _require(
                size <= NAME_BYTES_MAX,
                "PROJSEG_BAD_NAME",
                f"in column '{column}', the field name {name[:80]!r} has {size} bytes of UTF-8; at "
                f"most {NAME_BYTES_MAX} are allowed",
            )
        _check_distinct(f"in column '{column}', the field", [one.name for one in fields])
    for one in fields:
        check_field_names(column, one.type)


def check_properties(properties: TableProperties) -> None:
    """Raise InvalidInputError unless these properties can be a table's."""
    schema = properties.schema
    _require(
        len(schema) <= COLUMNS_MAX,
        "PROJSEG_TOO_MANY_NAMES",
        f"{len(schema)} columns were declared; a table has at most {COLUMNS_MAX}",
    )
    _check_names("column", schema.names)
    _require(len(schema) > 0, "PROJSEG_EMPTY_SCHEMA", "a table needs at least one column")
    if properties.stored_columns is not msgspec.UNSET:
        problem = stored_columns_problem(properties.stored_columns, properties.columns)
        _require(problem is None, "PROJSEG_BAD_SCHEMA", f"stored columns {problem}")
        _check_names("stored column", [form.name for form in properties.stored_columns.every])
    _check_names("projection", [p.name for p in properties.projections])
    check_indexes(properties.declared_indexes)
    if properties.time_column is not None:
        time_type = _column_type(schema, properties.time_column, "timeColumn")
        _require(
            pa.types.is_timestamp(time_type) or pa.types.is_date(time_type),
            "PROJSEG_BAD_TIME_COLUMN",
            f"timeColumn '{properties.time_column}' is {type_name(time_type)}; "
            "it must be timestamp, timestamp_ntz or date",
        )
    granularity = Granularity.parse(properties.segment_granularity)
    _require(
        properties.time_column is not None or granularity.is_all,
        "PROJSEG_BAD_TIME_COLUMN",
        f"segmentGranularity '{properties.segment_granularity}' needs a timeColumn",
    )
    for name in properties.cluster_by:
        _require(
            not is_nested(_column_type(schema, name, "clusterBy")),
            "PROJSEG_NESTED_CLUSTER_COLUMN",
            f"clusterBy column '{name}' is an array, struct or map, which has no sort order",
        )
    _require(
        type(properties.target_segment_rows) is int
        and 1 <= properties.target_segment_rows <= _TARGET_SEGMENT_ROWS_MAX,
        "PROJSEG_BAD_OPTION",
        f"targetSegmentRows {properties.target_segment_rows!r} is not between 1 and "
        f"{_TARGET_SEGMENT_ROWS_MAX}",
    )


def check_projection_count(properties: TableProperties) -> None:
    """Refuse to declare more projections than a segment can embed.

    Only new declarations are checked: a stored table that declares more can be read and appended
    to, and each of its segments lists the projections that it lacks.
    """
    count = len(properties.projections)
    _require(
        count <= PROJECTIONS_MAX,
        "PROJSEG_TOO_MANY_NAMES",
        f"{count} projections were declared; a segment embeds at most {PROJECTIONS_MAX}: keep "
        "those that queries use",
    )


def check_options(properties: TableProperties, /, **given: Any) -> None:
    """Raise InvalidInputError if an option given for an existing table contradicts it.

    Options are `time_column`, `segment_granularity`, `cluster_by` (names in order),
    `target_segment_rows` and `properties`; None means not given.
    """
    fixed = ("time_column", "segment_granularity", "cluster_by", "target_segment_rows")
    for option, value in in_own_spelling(given, properties.schema.names).items():
        _require(
            option in (*fixed, "properties"),
            "PROJSEG_UNKNOWN_OPTION",
            f"'{option}' is not an option of a table{did_you_mean(option, fixed)}",
        )
        if value is None:
            continue
        actual = getattr(properties, option)
        if option == "properties":
            actual = {key: actual.get(key) for key in value}
        _require(
            _comparable(option, value) == _comparable(option, actual),
            "PROJSEG_OPTION_CONTRADICTS_TABLE",
            f"option {option}={_value_text(value)} contradicts the table, which has "
            f"{option}={_value_text(actual)}; leave the option out or write to another table",
        )


def _comparable(option: str, value: Any) -> Any:
    if option == "segment_granularity":
        return Granularity.parse(str(value))
    return tuple(value) if option == "cluster_by" else value


def _value_text(value: Any) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def spelled(given: _Given, names: Sequence[str]) -> _Given | str:
    """Return a column's own spelling of a name in any case; what is none of the names, as given."""
    if given in names or not isinstance(given, str):
        return given
    return next((name for name in names if name_key(name) == name_key(given)), given)


def in_own_spelling(options: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return options of a table in which columns are spelled as among `names`."""
    found = dict(options)
    found["time_column"] = spelled(options.get("time_column"), names)
    order = options.get("cluster_by")
    if isinstance(order, list | tuple):
        found["cluster_by"] = tuple(spelled(name, names) for name in order)
    return {option: found[option] for option in options}


def _checked_order(cluster_by: Iterable[str], columns: Sequence[str]) -> tuple[str, ...]:
    _require(
        not isinstance(cluster_by, str),
        "PROJSEG_BAD_OPTION",
        f"clusterBy is the text {cluster_by!r}; give a list of columns, such as ['{cluster_by}']",
    )
    given = listed("clusterBy", cluster_by, "PROJSEG_BAD_OPTION")
    names = [spelled(name, columns) for name in given]
    for place, name in enumerate(names):
        _require(
            name not in names[:place],
            "PROJSEG_DUPLICATE_NAME",
            f"clusterBy names the column {name!r} twice; name each once",
        )
    return tuple(names)


def _check_names(what: str, names: Sequence[str]) -> None:
    for name in names:
        if (problem := name_problem(name)) is not None:
            raise InvalidInputError("PROJSEG_BAD_NAME", f"{what} name {name[:80]!r} {problem}")
    _check_distinct(what, names)


def _check_distinct(what: str, names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name_key(name))
        if other is not None:
            raise InvalidInputError(
                "PROJSEG_DUPLICATE_NAME",
                f"{what} '{name}' was declared twice (as '{other}'); names must differ in more "
                "than case",
            )
        seen[name_key(name)] = name


def _column_type(schema: pa.Schema, name: str, option: str) -> pa.DataType:
    if name not in schema.names:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_COLUMN",
            f"{option} names {name!r}, which is not a column"
            f"{did_you_mean(str(name), schema.names)}",
        )
    return schema.field(name).type


def _require(condition: bool, code: str, message: str) -> None:
    if not condition:
        raise InvalidInputError(code, message)

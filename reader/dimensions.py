"""Dimensions: tables at one version, whose rows joined columns are looked up in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from weakref import WeakValueDictionary

import pyarrow as pa

from projseg.algebra.expressions.joined_values import JoinPath
from projseg.algebra.expressions.sql_words import quoted_name
from projseg.algebra.expressions.tree import Column, Expression
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.cache_key import depends_on_instant, meaning_of
from projseg.algebra.query.declared_columns import DeclaredColumns, over_stored, substituted
from projseg.algebra.query.join import Join
from projseg.algebra.query.request import Query, with_named_parameters
from projseg.algebra.query.star import JoinedTable, bind_star
from projseg.errors import LimitExceededError, without_secrets
from projseg.evaluation.dimension_rows import DimensionRows
from projseg.memory.cache import KEPT, Owner
from projseg.memory.memory_pool import parse_byte_count
from projseg.reader.answer import answer
from projseg.reader.plan.query_plan import plan_query
from projseg.table_layer.commits.open_version import open_as_of
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import stored_by_name
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.store_location import NO_OPTIONS, StorageOptions

_ROWS_SETTING: Final = "PROJSEG_JOIN_ROWS"
_ROWS_DEFAULT: Final = 20_000_000
_COLUMN_BYTES_MAX: Final = 2**31 - 1  # of a text array, whose offsets have 32 bits
_SPEC_BYTES: Final = 8192
_held: WeakValueDictionary[tuple[Any, ...], DimensionRows] = WeakValueDictionary()


def _join_rows_max() -> int:
    """Return the most rows that a dimension may have."""
    text = os.environ.get(_ROWS_SETTING)
    return _ROWS_DEFAULT if text is None else parse_byte_count(text, _ROWS_SETTING)


class TableDimension:
    """A table at one version; two are equal if they are of the same commit."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.table_id = snapshot.properties.table_id
        file = snapshot.file
        location = snapshot.storage.location
        self.identity = (location, self.table_id, file.version, file.write_id)
        self._hash = hash(self.identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableDimension) and self.identity == other.identity

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"<TableDimension {without_secrets(self.name)}>"

    @property
    def name(self) -> str:
        """The table and its version, for messages."""
        return f"{self.snapshot.storage.location} at version {self.snapshot.version}"

    def rows(self) -> DimensionRows:
        """Return the rows, which are kept in the process's cache by their content."""
        key = ("dimension", *self.identity)
        rows: DimensionRows | None = KEPT.get(key) or _held.get(key)
        if rows is None:
            owner = Owner(key)
            row_count = self.checked_row_count()
            rows = DimensionRows(row_count, self._read, lambda held: KEPT.resize(owner, held))
            rows = _held.setdefault(key, rows)
            KEPT.put(key, rows, rows.byte_count, stands_for=owner)
        return rows

    def checked_row_count(self) -> int:
        """Return how many rows there are, which must not be too many."""
        row_count = sum(segment.live_row_count for segment in self.snapshot.segments)
        most = _join_rows_max()
        if row_count > most:
            raise LimitExceededError(
                "PROJSEG_JOIN_TOO_LARGE",
                f"{without_secrets(self.name)} has {row_count:,} rows, and a join takes {most:,} "
                f"at most; raise {_ROWS_SETTING}, or join in Spark",
            )
        return row_count

    def repeated(self, path: JoinPath) -> tuple[object, ...] | None:
        """Return a key that several rows have; None if each row has its own."""
        rows = self.rows()
        two = rows.by_key(path).repeated
        if two is None:
            return None
        return tuple(rows.computed(key)[two[0]].as_py() for key in path.keys)

    def _read(self, names: Sequence[str]) -> list[pa.Array]:
        """Return whole columns by stored names, in the order of the base rows."""
        properties = self.snapshot.properties
        by_stored = {stored: name for name, stored in stored_by_name(properties).items()}
        columns = [quoted_name(by_stored[name]) for name in names]
        query = Query(columns=columns, context={"noProjections": True})
        bound = bind_query(properties.schema, properties.time_column, query)
        found = answer(self.snapshot.storage, plan_query(self.snapshot, bound))
        return [self._whole(found.column(place)) for place in range(len(names))]

    def _whole(self, column: pa.ChunkedArray) -> pa.Array:
        if column.nbytes > _COLUMN_BYTES_MAX:
            raise LimitExceededError(
                "PROJSEG_JOIN_TOO_LARGE",
                f"a column of {without_secrets(self.name)} takes {column.nbytes:,} bytes, and a "
                f"join takes {_COLUMN_BYTES_MAX:,} at most; join in Spark",
            )
        whole = column.combine_chunks()
        return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def joined_table(
    join: Join, zone: str, storage_options: StorageOptions = NO_OPTIONS
) -> JoinedTable:
    """Return a join with its dimension at the version that the join names, or the newest."""
    snapshot = join.snapshot
    if not isinstance(snapshot, Snapshot):
        snapshot = open_as_of(open_storage(join.table, storage_options), join.version)
    properties, declared = snapshot.properties, join.declared
    stored: dict[str, Expression] = {
        field.name: Column(field.type, name)
        for field, name in zip(properties.schema, stored_by_name(properties).values(), strict=True)
    }
    dimension = TableDimension(snapshot)
    if not isinstance(declared, DeclaredColumns):
        return JoinedTable(join, properties.schema, stored, dimension)
    columns = {
        named.name: substituted(named.expression, stored)
        for named in declared.over(properties.schema, zone)
    }
    return JoinedTable(join, declared.schema, columns, dimension)


def bound_star(
    snapshot: Snapshot,
    query: Query,
    declared: DeclaredColumns | None = None,
    storage_options: StorageOptions = NO_OPTIONS,
) -> QuerySpec:
    """Return a query with joins, bound to a snapshot's columns or those declared of the fact.

    It is cached by its texts and by the versions of all its tables.
    """
    query = with_named_parameters(query)
    zone = query.query_context.zone
    tables = tuple(joined_table(join, zone, storage_options) for join in query.joins)
    schema, time_column = snapshot.properties.schema, snapshot.properties.time_column

    def bound() -> QuerySpec:
        if declared is None:
            return bind_star(schema, time_column, query, tables)
        timeless = replace(query, interval=None)
        outer = bind_star(declared.schema, declared.name_of(time_column), timeless, tables)
        return over_stored(outer, declared, schema, time_column, query)

    if depends_on_instant(query):
        return bound()
    meaning = meaning_of(query)
    contents = [(table.dimension.identity, table.join.declared) for table in tables]
    contents.append((TableDimension(snapshot).identity, declared))
    spec: QuerySpec = KEPT.get_or_load(
        ("star", *contents, meaning), bound, lambda _: _SPEC_BYTES + meaning.byte_count
    )
    return spec

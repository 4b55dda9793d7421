"""`InformationSchema`: a catalog's definitions as rows, and SELECT over them.

The rows are made from definitions and from what the catalog last saw of their tables, so a table in
cold storage has its columns. Equalities in WHERE say which definitions are read; a table that they
name alone is opened.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import pyarrow as pa

from projseg.algebra.expressions.sql_parameters import Arguments, ArgumentsLike
from projseg.algebra.expressions.sql_words import parse_type
from projseg.algebra.proofs.index_keys import AnyOf, Keys, KeyTree, OneOf, keys_of
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.select_query import select_query
from projseg.algebra.query.select_statement import SelectStatement, parse_asked
from projseg.algebra.query.statement_words import explained_select, is_select
from projseg.catalog.catalog_tables import CatalogTables
from projseg.catalog.declared_table import UNTYPED
from projseg.catalog.spec.spec_rules import column_types
from projseg.catalog.store.store_contract import Store
from projseg.catalog.store.table_metadata import RESERVED_NAMESPACE, TableMetadata
from projseg.declarations import declare_properties
from projseg.errors import InvalidInputError, ProjsegError, UnsupportedFeatureError, did_you_mean
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import parse_type_name, type_name
from projseg.table.sql_statements import described_table
from projseg.table.table_version import TableVersion, table_at
from projseg.table.version_reader import VersionReader
from projseg.table_layer.commits.commit import create_table
from projseg.table_layer.storage.local_storage import LocalStorage
from projseg.table_layer.storage.paths import new_write_id
from projseg.writer.table_writer import write_segments

_ROWS_A_BATCH: Final = 10_000
_DEFINITIONS_A_PAGE: Final = 100
_NAMES: Final = ("table_schema", "table_name")
_Names: TypeAlias = frozenset[str] | None
_TABLE: Final = "table_catalog string, table_schema string, table_name string"
_COLUMNS: Final = {
    "schemata": "catalog_name string, schema_name string, schema_owner string, comment string",
    "tables": f"{_TABLE}, table_type string, is_insertable_into string, table_owner string, "
    "comment string, created timestamp, last_altered timestamp, last_altered_by string, "
    "data_source_format string, storage_path string, definition_version bigint, state string, "
    "time_column string, segment_granularity string, target_segment_rows bigint, "
    "cluster_keys string, sealed boolean",
    "columns": f"{_TABLE}, column_name string, ordinal_position int, is_nullable string, "
    "full_data_type string, data_type string, numeric_precision int, numeric_scale int, "
    "comment string, is_declared boolean, stored_type string",
    "projections": f"{_TABLE}, projection_name string, definition string, owner string, "
    "status string, segments bigint, segments_missing bigint, segments_failed bigint, "
    "bytes bigint, table_version bigint",
}
VIEWS: Final = {
    name: pa.schema(list(parse_type(f"struct<{text}>"))) for name, text in _COLUMNS.items()
}
"""The views and their columns."""


def _stored(folder: str, schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> TableVersion:
    """Return a view as a table of its own in a folder, which gives it all the SQL of tables."""
    storage = LocalStorage(folder, is_durable=False)
    write_id, properties = new_write_id(), declare_properties(schema)
    made = write_segments(rows, properties, storage, write_id=write_id, threads=1)
    snapshot = create_table(storage, properties, entries=tuple(made), write_id=write_id)
    return table_at(VersionReader(snapshot))


class InformationSchema:
    """A catalog's description of itself, and SELECT over it."""

    def __init__(self, store: Store, tables: CatalogTables) -> None:
        self._store, self._tables = store, tables

    def sql(
        self,
        name: str,
        text: str,
        context: Mapping[str, Any] | None,
        args: ArgumentsLike | None,
        *,
        explain: bool,
    ) -> pa.Table:
        """Return the rows of one SELECT over the view of a name."""
        if explain:
            raise UnsupportedFeatureError(
                "PROJSEG_UNSUPPORTED_FEATURE", "information_schema is read whole; leave explain out"
            )
        view = view_of(name)
        among: tuple[_Names, _Names] = (None, None)
        if view != "schemata" and is_select(text):
            among = _named_tables(text, VIEWS[view], context, args)
        batches = self._batches(view, among)
        with tempfile.TemporaryDirectory(prefix="projseg-") as folder:
            made = _stored(folder, VIEWS[view], batches)
            return made.sql(text, context=context, args=args)

    def _batches(self, view: str, among: tuple[_Names, _Names]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a view, of definitions among some."""
        found: Iterable[Any]
        found = self._store.namespaces() if view == "schemata" else self._described(view, among)
        return _batches(VIEWS[view], view_rows(view, self._store.tenant, found))

    def page(
        self, view: str, among: tuple[_Names, _Names], after: tuple[str, str]
    ) -> tuple[pa.Table, tuple[str, str] | None]:
        """Return the rows of the definitions after a key, and the key that they end with.

        None if they are the last.
        """
        if view == "schemata":
            return pa.Table.from_batches(self._batches(view, among), VIEWS[view]), None
        batches: list[pa.RecordBatch] = []
        count, last = 0, None
        for one in self._described(view, among, after):
            if count >= _ROWS_A_BATCH:
                return pa.Table.from_batches(batches, VIEWS[view]), last
            rows = list(view_rows(view, self._store.tenant, [one]))
            batches.append(pa.RecordBatch.from_pylist(rows, VIEWS[view]))
            count, last = count + len(rows), one.full_name.folded
        return pa.Table.from_batches(batches, VIEWS[view]), None

    def _described(
        self, view: str, among: tuple[_Names, _Names], after: tuple[str, str] = ("", "")
    ) -> Iterator[TableMetadata]:
        """Yield definitions among some; of a table that is named alone with what it has now."""
        found = self._store.listed(page=_DEFINITIONS_A_PAGE, among=among, after=after)
        is_live = view in ("columns", "projections") and len(among[1] or ()) == 1
        return (self._live(one) for one in found) if is_live else found

    def _live(self, definition: TableMetadata) -> TableMetadata:
        """Return a definition with what its table has now, or what is kept if that is away."""
        if definition.type != "table":
            return definition
        try:
            return self._tables.counted(definition, "sometimes")
        except (ProjsegError, OSError):
            return definition


def view_named(parts: tuple[str, ...]) -> str | None:
    """Return the view of `information_schema` that a name in FROM is of, if it is of one."""
    is_view = len(parts) == 2 and parts[0].casefold() == RESERVED_NAMESPACE
    return parts[1] if is_view else None


def table_of(text: str, args: ArgumentsLike | None) -> tuple[str, ...]:
    """Return the name after a statement's innermost FROM."""
    name = described_table(text) if isinstance(text, str) else None
    if name:
        return name
    return innermost_select(text, args)[0].table.parts


def innermost_select(
    text: str, args: ArgumentsLike | None
) -> tuple[SelectStatement, Arguments | None]:
    """Return the SELECT of a statement that reads a table itself, and the values given."""
    if not isinstance(text, str):
        raise InvalidInputError("PROJSEG_BAD_SQL", f"a statement is a text, found {text!r}")
    asked = explained_select(text)
    # As `Table.sql` does, which finds it kept.
    statement, arguments = parse_asked(text if asked is None else asked.select, args)
    while statement.source is not None:
        statement = statement.source
    return statement, arguments


def view_of(name: str) -> str:
    """Return the view that a name means."""
    if name.casefold() not in VIEWS:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_TABLE",
            f"information_schema has no view '{name[:80]}'; it has {', '.join(VIEWS)}"
            f"{did_you_mean(name, VIEWS)}",
        )
    return name.casefold()


def _named_tables(
    text: str, schema: pa.Schema, context: Mapping[str, Any] | None, args: ArgumentsLike | None
) -> tuple[_Names, _Names]:
    """Return the only `table_schema` and `table_name` of rows that a SELECT over a view can give.

    A row outside them fails WHERE. None means rows of any.
    """
    statement, arguments = innermost_select(text, args)
    query = select_query(statement, schema, None, context, arguments).query
    condition = bind_query(schema, None, query).filter
    tree, _ = keys_of(condition, dict.fromkeys(_NAMES, frozenset({"bloom"})))
    return _values_of(tree, _NAMES[0]), _values_of(tree, _NAMES[1])


def _values_of(tree: KeyTree | None, column: str) -> _Names:
    """Return the only texts of a column that a tree of conditions lets through; None means any."""
    if tree is None:
        return None
    if isinstance(tree, Keys):
        if tree.column != column or not isinstance(tree.needed, OneOf):
            return None
        return frozenset(str(one.value) for one in tree.needed.values)
    found = [_values_of(part, column) for part in tree.parts]
    known = [one for one in found if one is not None]
    if isinstance(tree, AnyOf):
        return frozenset[str]().union(*known) if len(known) == len(found) else None
    return known[0].intersection(*known) if known else None


def view_rows(view: str, catalog: str, found: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a view over what may be seen: namespaces for `schemata`, else definitions.

    `catalog` is the catalog's name in the rows: the tenant.
    """
    if view == "schemata":
        for one in found:
            yield {
                "catalog_name": catalog,
                "schema_name": one["name"],
                "schema_owner": one.get("owner"),
                "comment": one["comment"],
            }
        return
    rows = {"tables": _table_rows, "columns": _column_rows, "projections": _projection_rows}[view]
    for definition in found:
        own = {
            "table_catalog": catalog,
            "table_schema": definition.namespace,
            "table_name": definition.name,
        }
        for row in rows(definition):
            yield {**own, **row}


def table_type(found: TableMetadata) -> str:
    """Return `MANAGED`, `EXTERNAL` of a registered table, or `FOREIGN` of files from outside."""
    kind = "MANAGED" if found.managed else "EXTERNAL"
    return kind if found.type == "table" else "FOREIGN"


def _table_rows(found: TableMetadata) -> Iterator[dict[str, Any]]:
    layout, is_table = found.spec.layout, found.type == "table"
    properties = found.spec.properties
    keys = layout.cluster_keys
    format_ = "projseg" if is_table else getattr(properties, "format", None) or None
    yield {
        "table_type": table_type(found),
        "is_insertable_into": "YES" if is_table else "NO",
        "table_owner": found.owner,
        "comment": properties.description or None,
        "created": found.created_us,
        "last_altered": found.updated_us,
        "last_altered_by": found.updated_by,
        "data_source_format": format_,
        "storage_path": found.location,
        "definition_version": found.version,
        "state": found.state,
        "time_column": layout.time_column or None,
        "segment_granularity": layout.segment_granularity or None,
        "target_segment_rows": layout.target_segment_rows or None,
        "cluster_keys": ", ".join(key.column for key in keys) if keys else None,
        "sealed": layout.sealed is True,
    }


def _column_rows(found: TableMetadata) -> Iterator[dict[str, Any]]:
    types, hidden = column_types(found.spec), found.spec.hidden
    stored = {name_key(name): (name, text) for name, text in found.stored_schema.items()}
    shown: list[tuple[str, str, str | None, bool, str | None]] = []
    for column in found.spec.columns:
        folded = name_key(column.name)
        _, own = stored.pop(folded, (None, None))
        declared = types.get(folded)
        text = own or UNTYPED if declared is None else type_name(declared)
        if folded not in hidden:
            shown.append((column.name, text, column.comment or None, True, own))
    for folded, (name, text) in stored.items():
        if folded not in hidden:
            shown.append((name, text, None, False, text))
    for place, (name, text, comment, is_declared, own) in enumerate(shown, start=1):
        yield {
            **_of_type(text),
            "column_name": name,
            "ordinal_position": place,
            "is_nullable": "YES",
            "comment": comment,
            "is_declared": is_declared,
            "stored_type": own,
        }


@lru_cache(4096)
def _of_type(text: str) -> dict[str, Any]:
    """Return what a row says of its column's type."""
    try:
        type_ = parse_type_name(text)
    except ProjsegError:  # which a client once sent, and nothing reads
        type_ = pa.null()
    is_decimal = pa.types.is_decimal(type_)
    return {
        "full_data_type": text,
        "data_type": text.partition("(")[0].partition("<")[0].upper(),
        "numeric_precision": type_.precision if is_decimal else None,
        "numeric_scale": type_.scale if is_decimal else None,
    }


def _projection_rows(found: TableMetadata) -> Iterator[dict[str, Any]]:
    """Yield the definition's projections, then those that only its table has."""
    status = found.stored_status
    counted = {} if status is None else {name_key(one.name): one for one in status.projections}
    declared = {
        str(one.get("name")): json.dumps(one, ensure_ascii=False)
        for one in found.spec.layout.projections or ()
    }
    own = {name_key(name) for name in declared}
    others = (one.name for key, one in counted.items() if key not in own)
    for name in (*declared, *others):
        one = counted.get(name_key(name))
        yield {
            "projection_name": name,
            "definition": declared.get(name),
            "owner": found.owner,
            "status": one and one.status,
            "segments": one and one.segments,
            "segments_missing": one and one.missing,
            "segments_failed": one and one.failed,
            "bytes": one and one.bytes,
            "table_version": one and status and status.table_version,
        }


def _batches(schema: pa.Schema, rows: Iterator[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    pending: list[dict[str, Any]] = []
    for row in rows:
        pending.append(row)
        if len(pending) == _ROWS_A_BATCH:
            yield pa.RecordBatch.from_pylist(pending, schema)
            pending = []
    yield pa.RecordBatch.from_pylist(pending, schema)

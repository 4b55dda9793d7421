"""`TableVerbs`: what a catalog does with the tables of its definitions."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.expressions.sql_parameters import ArgumentsLike, with_arguments
from projseg.algebra.query.select_statement import SelectStatement, parse_select
from projseg.algebra.query.statement_words import explained_select
from projseg.catalog.declared_table import unwritten
from projseg.catalog.named_rows import record_seen
from projseg.catalog.named_table import CatalogTable
from projseg.catalog.named_writes import Counts, prepared, seen_of, status_of
from projseg.catalog.store.open_store import open_store
from projseg.catalog.store.store_contract import Store
from projseg.catalog.store.table_metadata import Name, NameLike, TableMetadata, parse_name
from projseg.catalog.table_places import TablePlaces
from projseg.errors import InvalidInputError
from projseg.table.sql_statements import described_table
from projseg.table_layer.commits.open_version import open_as_of
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.storage.store_location import StorageOptionsLike

if TYPE_CHECKING:
    from projseg.explain import Explain


class TableVerbs:
    """A catalog's tables: opened, asked, brought to their definitions."""

    store: Store
    places: TablePlaces

    def _open(
        self,
        uri: str,
        *,
        warehouse: str | None,
        tenant: str,
        token: str | None,
        user: str | None,
        refresh_seconds: float,
        timeout: float,
        storage_options: StorageOptionsLike | None,
    ) -> None:
        self._tenant, self.store = tenant, open_store(uri, tenant, user, token, timeout)
        path = self.store.database.path
        if warehouse is None and path is not None:
            warehouse = str(path.parent / "warehouse")
        self.places = TablePlaces(self.store, warehouse, storage_options)
        self._refresh_seconds = refresh_seconds
        self._known: dict[tuple[str, str], tuple[float, TableMetadata]] = {}

    def flush(self) -> None:
        """Forget every definition that was read."""
        self._known.clear()

    def table(self, name: NameLike, version: int | None = None) -> CatalogTable:
        """Open a table by name: with the columns and the layout of its definition.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        version : int or None
            The table version to read; None: the newest, which may be written to.

        Returns
        -------
        CatalogTable
            All methods of `Table`. Of a table that was never written: no rows.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE; PROJSEG_TABLE_REPLACED if another table lies at the location;
            PROJSEG_NOT_A_TABLE if a table that was there is gone; and as of `Table`.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_FEATURE for a definition of files from outside.
        CatalogError
            As of `create`.
        """
        return self._opened(self._definition(parse_name(name)), version)

    def _opened(self, definition: TableMetadata, version: int | None = None) -> CatalogTable:
        """Open the table of a definition, as `table` does."""
        storage = self.places.storage_of(definition)
        try:
            snapshot = open_as_of(storage, version)
        except InvalidInputError as error:
            is_new = definition.table_id is None and version is None
            if error.code == "PROJSEG_NOT_A_TABLE" and is_new:
                return CatalogTable(
                    self._as_catalog(), definition, storage, unwritten(definition, storage)
                )
            raise
        found = snapshot.properties.table_id
        if definition.table_id not in (None, found):
            raise InvalidInputError(
                "PROJSEG_TABLE_REPLACED",
                f"'{definition.full_name}' was the table with id {definition.table_id}, and "
                f"{storage.location} holds another ({found}); if that is meant, call "
                "rebind",
            )
        table = CatalogTable(
            self._as_catalog(), definition, storage, snapshot, is_pinned=version is not None
        )
        if version is None:
            record_seen(table, definition)
        return table

    def sql(
        self,
        text: str,
        *,
        context: Mapping[str, Any] | None = None,
        args: ArgumentsLike | None = None,
        explain: bool = False,
    ) -> pa.Table | Explain:
        """Return the rows of one SELECT over a table that FROM names.

        Parameters
        ----------
        text : str
            As of `Table.sql`, with the name of a definition after FROM: `sales.edits`, or `edits`
            in `default`.
        context, args, explain
            As of `Table.sql`.

        Returns
        -------
        pa.Table or Explain
            As of `Table.sql`.

        Raises
        ------
        ProjsegError
            As of `Table.sql` and `table`.
        """
        table = self.table(table_of(text, args))
        if explain:
            return table.sql(text, context=context, args=args, explain=True)
        return table.sql(text, context=context, args=args)

    def apply(self, name: NameLike, dry_run: bool = True) -> pa.Table:
        """Make a definition's columns and layout its table's, without rows; or say what would be.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        dry_run : bool
            Only say what would be done.

        Returns
        -------
        pa.Table
            field, table (as it is), definition: what differs.

        Raises
        ------
        ProjsegError
            As of `table`, and what does not fit.
        """
        table = self.table(name)
        rows: list[dict[str, str]] = []
        if table.is_unwritten:
            rows.append({"field": "table", "definition": "a new one"})
        else:
            before = table.properties
            after = prepared(table.definition, before).properties
            for field in _LAYOUT:
                found, wanted = (_value_text(getattr(of, field)) for of in (before, after))
                if found != wanted:
                    rows.append({"field": field, "table": found, "definition": wanted})
        if not dry_run:
            table.adopt()
        return pa.Table.from_pylist(rows, _DIFFERENCES)

    def rebind(self, name: NameLike) -> int:
        """Take the table that lies at a definition's location for the definition's own.

        Its columns are bound by name anew, and it takes its layout from this definition, also if
        another definition was the one that it went by.

        Parameters
        ----------
        name : str or pair of str
            The definition.

        Returns
        -------
        int
            The table's version.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE, PROJSEG_NOT_A_TABLE.
        CatalogError, CommitError
            As of `create` and `append`.
        """
        definition = self.metadata(name)
        storage = self.places.storage_of(definition)
        snapshot = open_snapshot(storage)
        definition = replace(definition, table_id=None, bindings={})
        properties = snapshot.properties
        seen = {
            **seen_of(definition, properties),
            "stored_version": snapshot.version,
            "stored_status": status_of(definition, snapshot),
        }
        self.store.record(definition.id, **seen)
        self.flush()
        table = CatalogTable(self._as_catalog(), replace(definition, **seen), storage, snapshot)
        return table.adopt(takes_over=True)

    def metadata(self, name: NameLike) -> TableMetadata:
        """Return a definition with what the catalog knows of it.

        Parameters
        ----------
        name : str or pair of str
            The definition.

        Returns
        -------
        TableMetadata
            id, version, location, state, spec and the like.

        Raises
        ------
        InvalidInputError, CatalogError
            As of `spec`.
        """
        return self.store.load(parse_name(name))

    def _definition(self, name: Name) -> TableMetadata:
        """Return a definition, perhaps one that was read not long ago."""
        known = self._known.get(name.folded)
        now = time.monotonic()
        if known is not None and now - known[0] < self._refresh_seconds:
            return known[1]
        found = self.store.load(name)
        if self._refresh_seconds > 0:
            self._known[name.folded] = (now, found)
        return found

    def _counted(self, definition: TableMetadata, counts: Counts) -> TableMetadata:
        """Return a definition with what its table has now; `counts` as of `record_seen`."""
        table = self._opened(definition)
        if table.is_unwritten:
            return definition
        record_seen(table, table.definition, counts)
        return replace(table.definition, stored_status=status_of(definition, table.snapshot))

    def _as_catalog(self) -> Any:
        return self


def of_store(catalog: TableVerbs, store: Store, warehouse: str | None) -> Any:
    """Return the catalog of another store of the same database."""
    own = copy.copy(catalog)
    places = catalog.places.of_store(store, warehouse)
    vars(own).update(store=store, places=places, _tenant=store.tenant, _known={})
    return own


_DIFFERENCES: Final = pa.schema(dict.fromkeys(("field", "table", "definition"), pa.string()))
_LAYOUT: Final = (
    "columns",
    "segment_granularity",
    "cluster_by",
    "target_segment_rows",
    "projections",
    "properties",
)


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(getattr(one, "name", one)) for one in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={text}" for key, text in sorted(value.items()))
    return str(value)


def table_of(text: str, args: ArgumentsLike | None) -> tuple[str, ...]:
    """Return the name after a statement's innermost FROM."""
    name = described_table(text) if isinstance(text, str) else None
    if name:
        return name
    return innermost_select(text, args).table.parts


def innermost_select(text: str, args: ArgumentsLike | None) -> SelectStatement:
    """Return the SELECT of a statement that reads a table itself."""
    if not isinstance(text, str):
        raise InvalidInputError("PROJSEG_BAD_SQL", f"a statement is a text, found {text!r}")
    asked = explained_select(text)
    select, _ = with_arguments(text if asked is None else asked.select, args)
    statement: SelectStatement = parse_select(select, with_joins=False)  # as `Table.sql`: once
    while statement.source is not None:
        statement = statement.source
    return statement

"""`NamedRows`: the rows of a table under its definition's columns and layout.

Reads go through the declared columns. A write first adds and widens columns as declared, makes the
definition's layout the table's own, and casts values, all in the commit that has the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.query.declared_columns import DeclaredColumn, DeclaredColumns
from projseg.catalog.declared_table import bindings_of, declared_columns, new_properties
from projseg.catalog.named_writes import (
    Counts,
    Prepared,
    cast_rows,
    check_names,
    given_options,
    is_old,
    metrics_of,
    prepared,
    said_of,
    seen_of,
    status_of,
    write_chosen,
)
from projseg.catalog.spec.table_spec import SpecLike
from projseg.catalog.store.store_contract import Store
from projseg.catalog.store.table_metadata import NameLike, TableMetadata
from projseg.errors import CommitConflictError, InvalidInputError
from projseg.input_rows import RowsLike, batches_of
from projseg.table import Table
from projseg.table.inspection import state_of
from projseg.table.projection_edits import bounds_of
from projseg.table.table_state import TableState
from projseg.table.version_reader import VersionReader
from projseg.table.writes import Commit, OnSegment, commit_of, transaction_of
from projseg.table_layer.commits.commit import commit, create_table
from projseg.table_layer.commits.follow_up import only_logged
from projseg.table_layer.commits.publish import removed_on_failure
from projseg.table_layer.metadata.change import Append, ChangeColumns, Overwrite
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.storage.paths import new_write_id
from projseg.table_layer.storage.storage_contract import Storage

if TYPE_CHECKING:
    from projseg.algebra.expressions.sql_parameters import ArgumentsLike
    from projseg.algebra.query.request import IntervalLike

LOGGER: Final = logging.getLogger("projseg.catalog")


class TableOpener(Protocol):
    """The part of a catalog that its tables use."""

    store: Store

    def table(self, name: NameLike, version: int | None = None) -> NamedRows:
        """Open a table by name."""

    def merge(self, name: NameLike, spec: SpecLike, version: int | None = None) -> int:
        """Merge a part of a spec into a definition."""

    def flush(self) -> None:
        """Forget every definition that was read."""


class NamedRows(Table):
    """A table at one version by name, whose rows are read and written as its definition says."""

    def __init__(
        self,
        catalog: TableOpener,
        definition: TableMetadata,
        storage: Storage,
        snapshot: Snapshot,
        *,
        is_pinned: bool = False,
    ) -> None:
        reader = VersionReader(snapshot, self._declared_of, may_be_older=not is_pinned)
        super(Table, self).__init__(TableState(reader, is_pinned=is_pinned))
        self._catalog = catalog
        self._named = definition
        self._seen: tuple[TableProperties, TableMetadata, DeclaredColumns] | None = None

    @property
    def definition(self) -> TableMetadata:
        """The definition that this object goes by."""
        return self._named

    @property
    def declared(self) -> DeclaredColumns:
        """The columns that the definition declares; a join reads them."""
        return self._declared_of(self.properties)

    @property
    def is_unwritten(self) -> bool:
        """Whether there is a definition and no table yet."""
        return self._snapshot.version < 0

    def refresh(self) -> Self:
        """Move to the newest version of the definition and of the table, and return this table."""
        found = self._catalog.table(self._named.full_name)
        self._named = found.definition
        self._state.follow(state_of(found))
        return self

    def append(
        self,
        data: RowsLike,
        *,
        on_segment: OnSegment | None = None,
        commit_as: str | None = None,
        segment_granularity: str | None = None,
        cluster_by: Sequence[str] | None = None,
        target_segment_rows: int | None = None,
    ) -> Commit:
        """Add rows as new segments; the first rows make the table.

        Parameters
        ----------
        data, on_segment, commit_as
            As of `Table.append`; values are cast to the declared types as Spark's ANSI mode
            assigns them.
        segment_granularity, cluster_by, target_segment_rows
            Of this statement's segments alone; None: as the definition says, else the table.
        """
        self._begin()
        options = given_options(segment_granularity, cluster_by, target_segment_rows)
        if self.is_unwritten:
            made = self._create(data, options, on_segment, commit_as)
            return (
                self.append(data, on_segment=on_segment, commit_as=commit_as, **options)
                if (made is None)
                else made
            )
        txn = transaction_of(commit_as)
        if txn is not None and txn[0] in self._snapshot.file.transactions:
            return Commit(self.version, 0, 0)
        return self._write(
            data,
            options,
            lambda entries, plan, write_id, files: Append(entries, plan.changes, plan.layout),
            "append",
            on_segment,
            txn,
        )

    def overwrite(
        self,
        data: RowsLike,
        interval: IntervalLike | None = None,
        *,
        filter: str | None = None,
        args: ArgumentsLike | None = None,
        timezone: str = "UTC",
        on_segment: OnSegment | None = None,
    ) -> Commit:
        """Replace all rows, or those of an interval or for which a condition is true.

        Parameters
        ----------
        data, interval, filter, args, timezone, on_segment
            As of `Table.overwrite`; values are cast as of `append`.
        """
        self._begin()
        if self.is_unwritten and (made := self._create(data, {}, on_segment, None)) is not None:
            return made
        if filter is not None or args is not None:
            rows = self._rows(data)
            return super().overwrite(
                rows, interval, filter=filter, args=args, timezone=timezone, on_segment=on_segment
            )

        from projseg.maintenance.row_changes.replace_rows import with_cut_segments

        base = self._snapshot
        bounds = None if interval is None else bounds_of(interval)

        def change_of(
            entries: tuple[Any, ...], plan: Prepared, write_id: str, files: list[str]
        ) -> Overwrite:
            change = Overwrite(entries, bounds, plan.changes, layout=plan.layout)
            return change if bounds is None else with_cut_segments(base, change, write_id, files)

        return self._write(data, {}, change_of, "overwrite", on_segment, None)

    def adopt(self, *, takes_over: bool = False) -> int:
        """Make the definition's columns and layout the table's, without rows.

        Parameters
        ----------
        takes_over : bool
            Whether it becomes the table's definition where another is.
        """
        if self.is_unwritten:
            properties = new_properties(self._named, None)
            self._snapshot = create_table(self._storage, properties, operation="adopt layout")
            self._record(self._named)
            return self.version
        plan = prepared(self._named, self.properties, takes_over=takes_over)
        if plan.is_change:
            self._snapshot = commit(
                self._storage,
                self._snapshot,
                ChangeColumns(plan.changes, plan.layout),
                write_id=new_write_id(),
                operation="adopt layout",
                note=self._note.asking(**said_of(plan.layout)),
            )
        self._record(plan.definition, "sometimes")
        return self.version

    def _declared_of(self, properties: TableProperties) -> DeclaredColumns:
        seen = self._seen
        if seen is None or seen[0] is not properties or seen[1] is not self._named:
            seen = (properties, self._named, declared_columns(self._named, properties))
            self._seen = seen
        return seen[2]

    def _begin(self) -> None:
        super()._check_newest()
        self.refresh()

    def _check_newest(self) -> None:
        super()._check_newest()
        self._require_written()

    def _require_written(self) -> None:
        if self.is_unwritten:
            raise InvalidInputError(
                "PROJSEG_NOT_A_TABLE",
                f"'{self._named.full_name}' is defined and was never written; append rows, or "
                "make the table with catalog.apply",
            )

    def _own_type(self, column: DeclaredColumn) -> pa.DataType | None:
        if column.stored is None:
            return None
        return self.properties.schema.field(column.stored).type

    def _rows(self, data: RowsLike) -> Iterable[pa.RecordBatch]:
        """Return rows as the table stores them, once it has the definition's columns."""
        self.adopt()
        self._named = replace(self._named, bindings=bindings_of(self._named, self.properties))
        declared = self._declared_of(self.properties)
        rows = batches_of(data, declared.schema)
        return cast_rows(rows, declared, self.properties, self._named)

    def _write(
        self,
        data: RowsLike,
        options: Mapping[str, Any],
        change_of: Callable[[tuple[Any, ...], Prepared, str, list[str]], Append | Overwrite],
        operation: str,
        on_segment: OnSegment | None,
        txn: tuple[str, int] | None,
    ) -> Commit:
        from projseg.maintenance.auto_compaction import after_commit

        base, storage, write_id = self._snapshot, self._storage, new_write_id()
        plan = prepared(self._named, base.properties)
        declared = declared_columns(plan.definition, plan.properties)
        rows = cast_rows(
            batches_of(data, declared.schema), declared, plan.properties, plan.definition
        )
        with removed_on_failure(storage, write_id, base.version) as files:
            entries = write_chosen(rows, plan.properties, options, storage, write_id, on_segment)
            files += [entry.file for entry in entries]
            snapshot = commit(
                storage,
                base,
                change_of(entries, plan, write_id, files),
                write_id=write_id,
                operation=operation,
                metrics=metrics_of(entries),
                txn=txn,
                note=self._note.asking(**said_of(plan.layout)),
            )
        made = commit_of(snapshot.version, entries)
        self._snapshot = after_commit(snapshot, entries)
        self._record(plan.definition, "sometimes")
        return made

    def _create(
        self,
        data: RowsLike,
        options: Mapping[str, Any],
        on_segment: OnSegment | None,
        commit_as: str | None,
    ) -> Commit | None:
        """Make the table with its first rows; None if another was faster, and rows are left."""
        storage, write_id, definition = self._storage, new_write_id(), self._named
        batches = iter(batches_of(data, self.schema))
        first = next(batches, None)
        schema = getattr(data, "schema", None) if first is None else first.schema
        found = schema if isinstance(schema, pa.Schema) else pa.schema([])
        properties = new_properties(definition, found)
        definition = replace(definition, bindings=bindings_of(definition, properties))
        declared = declared_columns(definition, properties)
        check_names(found, declared, definition)
        rows = cast_rows(
            chain(() if first is None else (first,), batches), declared, properties, definition
        )
        try:
            with removed_on_failure(storage, write_id, None) as files:
                entries = write_chosen(rows, properties, options, storage, write_id, on_segment)
                files += [entry.file for entry in entries]
                self._snapshot = create_table(
                    storage,
                    properties,
                    entries=entries,
                    write_id=write_id,
                    metrics=metrics_of(entries),
                    txn=transaction_of(commit_as),
                    note=self._note,
                )
        except InvalidInputError as error:
            if error.code != "PROJSEG_TABLE_EXISTS":
                raise
            self.refresh()
            if isinstance(data, Iterator | pa.RecordBatchReader):
                raise CommitConflictError(
                    "PROJSEG_COMMIT_CONFLICT",
                    f"nothing was committed: another writer made '{definition.full_name}', and the "
                    "rows cannot be read again; append them again",
                ) from error
            return None
        self._record(definition, "sometimes")
        return commit_of(self._snapshot.version, entries)

    def _record(self, definition: TableMetadata, counts: Counts = "never") -> None:
        """Tell the catalog what was seen; the rows are committed, whatever becomes of that.

        Segments are counted `now`, `sometimes` (after a minute), or `never`.
        """
        known = self._named

        def failure() -> str:
            name = known.full_name
            return f"version {self.version} of {name} is there; the catalog could not be told"

        with only_logged(LOGGER, failure):
            seen = seen_of(definition, self.properties)
            if self.is_unwritten:
                return
            if counts == "now" or (counts == "sometimes" and is_old(known.stored_status)):
                seen["stored_status"] = status_of(known, self._snapshot)
            elif all(getattr(known, key) == value for key, value in seen.items()):
                return
            self._named = replace(known, **seen)
            self._catalog.store.record(known.id, **seen, stored_version=self.version)


def record_seen(table: NamedRows, definition: TableMetadata, counts: Counts = "never") -> None:
    """Tell the catalog what was seen of a table, as `NamedRows` does after its writes."""
    table._record(definition, counts)  # noqa: SLF001 - of this module's class

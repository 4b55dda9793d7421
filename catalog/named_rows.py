"""`NamedRowEdits`: rows are written under a definition's columns and layout.

A write first adds and widens columns as declared, makes the definition's layout the table's own,
and casts values, all in the commit that has the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import pyarrow as pa
from msgspec.structs import replace

from projseg.algebra.expressions.sql_parameters import ArgumentsLike
from projseg.algebra.query.request import IntervalLike
from projseg.catalog.declared_table import bindings_of, declared_columns, new_properties
from projseg.catalog.named_state import NamedState
from projseg.catalog.named_writes import (
    Prepared,
    cast_rows,
    check_names,
    metrics_of,
    prepared,
    said_of,
    write_chosen,
)
from projseg.errors import CommitConflictError, InvalidInputError
from projseg.input_rows import RowsLike, batches_of
from projseg.maintenance.auto_compaction import after_commit
from projseg.maintenance.row_changes.delete_and_update import Corrected
from projseg.maintenance.row_changes.replace_rows import with_cut_segments
from projseg.segment_format.format_limits import name_key
from projseg.segment_format.logical_types import type_name
from projseg.table.row_edits import RowEdits
from projseg.table.segment_edits import bounds_of
from projseg.table.writes import Commit, OnSegment, commit_of, transaction_of
from projseg.table_layer.commits.commit import commit, create_table
from projseg.table_layer.commits.publish import removed_on_failure
from projseg.table_layer.metadata.change import Append, Overwrite
from projseg.table_layer.storage.paths import new_write_id


class NamedRowEdits:
    """The rows of a table, to be changed as its definition says."""

    def __init__(self, state: NamedState) -> None:
        self._state, self._edits = state, RowEdits(state)

    def append(
        self,
        data: RowsLike,
        options: Mapping[str, Any],
        *,
        on_segment: OnSegment | None,
        commit_as: str | None,
    ) -> Commit:
        """Add rows as new segments, in the layout that the options choose for them."""
        state = self._state
        state.begin()
        if state.is_unwritten:
            made = self._create(data, options, on_segment, commit_as)
            if made is not None:
                return made
            return self.append(data, options, on_segment=on_segment, commit_as=commit_as)
        txn = transaction_of(commit_as)
        if txn is not None and txn[0] in state.snapshot.file.transactions:
            return Commit(state.snapshot.version, 0, 0)
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
        interval: IntervalLike | None,
        filter: str | None,
        *,
        args: ArgumentsLike | None,
        timezone: str,
        on_segment: OnSegment | None,
    ) -> Commit:
        """Replace all rows, or those of an interval or for which a condition is true."""
        state = self._state
        state.begin()
        if state.is_unwritten and (made := self._create(data, {}, on_segment, None)) is not None:
            return made
        if filter is not None or args is not None:
            rows = self._stored_rows(data)
            return self._edits.overwrite(
                rows, interval, filter, args=args, timezone=timezone, on_segment=on_segment
            )
        base = state.snapshot
        bounds = None if interval is None else bounds_of(interval)

        def change_of(
            entries: tuple[Any, ...], plan: Prepared, write_id: str, files: list[str]
        ) -> Overwrite:
            change = Overwrite(entries, bounds, plan.changes, layout=plan.layout)
            return change if bounds is None else with_cut_segments(base, change, write_id, files)

        return self._write(data, {}, change_of, "overwrite", on_segment, None)

    def merge(
        self,
        data: RowsLike,
        on: Sequence[str],
        when_matched: Literal["update", "delete", "ignore"],
        when_not_matched: Literal["insert", "ignore"],
        *,
        dry_run: bool,
    ) -> Corrected:
        """Update or delete the rows whose keys are in `data`, and insert its other rows."""
        state = self._state
        state.begin()
        state.check_written()
        rows = self._stored_rows(data)
        keys = [on] if isinstance(on, str) else list(on)
        by_name, stored = {name_key(one.name): one for one in state.declared.columns}, []
        for key in keys:
            column = by_name.get(name_key(str(key)))
            if column is None or column.stored is None:
                stored.append(str(key))
                continue
            own = type_name(state.properties.schema.field(column.stored).type)
            if own != column.type:
                raise InvalidInputError(
                    "PROJSEG_DECLARED_TYPE",
                    f"key '{key}' is declared as {column.type} and stored as {own}; "
                    "merge by columns that are stored in their declared type",
                )
            stored.append(column.stored)
        return self._edits.merge(rows, stored, when_matched, when_not_matched, dry_run=dry_run)

    def update(
        self,
        values: Mapping[str, str],
        filter: str | None,
        interval: IntervalLike | None,
        args: ArgumentsLike | None,
        timezone: str,
        *,
        dry_run: bool,
    ) -> Corrected:
        """Set columns of the rows for which a condition is true."""
        state = self._state
        state.begin()
        state.check_written()
        unstored = {name_key(one.name) for one in state.declared.columns if one.stored is None}
        if isinstance(values, Mapping) and unstored & {name_key(str(name)) for name in values}:
            state.adopt()
        return self._edits.update(values, filter, interval, args, timezone, dry_run=dry_run)

    def _stored_rows(self, data: RowsLike) -> Iterable[pa.RecordBatch]:
        """Return rows as the table stores them, once it has the definition's columns."""
        state = self._state
        state.adopt()
        bindings = bindings_of(state.definition, state.properties)
        state.define(replace(state.definition, bindings=bindings))
        rows = batches_of(data, state.declared.schema)
        return cast_rows(rows, state.declared, state.properties, state.definition)

    def _write(
        self,
        data: RowsLike,
        options: Mapping[str, Any],
        change_of: Callable[[tuple[Any, ...], Prepared, str, list[str]], Append | Overwrite],
        operation: str,
        on_segment: OnSegment | None,
        txn: tuple[str, int] | None,
    ) -> Commit:
        state = self._state
        base, storage, write_id = state.snapshot, state.storage, new_write_id()
        plan = prepared(state.definition, base.properties)
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
                note=state.note.asking(**said_of(plan.layout)),
            )
        made = commit_of(snapshot.version, entries)
        state.move_to(after_commit(snapshot, entries))
        state.record(plan.definition, "sometimes")
        return made

    def _create(
        self,
        data: RowsLike,
        options: Mapping[str, Any],
        on_segment: OnSegment | None,
        commit_as: str | None,
    ) -> Commit | None:
        """Make the table with its first rows; None if another was faster, and rows are left."""
        state = self._state
        storage, write_id, definition = state.storage, new_write_id(), state.definition
        batches = iter(batches_of(data, state.reader.schema))
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
                snapshot = create_table(
                    storage,
                    properties,
                    entries=entries,
                    write_id=write_id,
                    metrics=metrics_of(entries),
                    txn=transaction_of(commit_as),
                    note=state.note,
                )
        except InvalidInputError as error:
            if error.code != "PROJSEG_TABLE_EXISTS":
                raise
            state.refresh()
            if isinstance(data, Iterator | pa.RecordBatchReader):
                raise CommitConflictError(
                    "PROJSEG_COMMIT_CONFLICT",
                    f"nothing was committed: another writer made '{definition.full_name}', and the "
                    "rows cannot be read again; append them again",
                ) from error
            return None
        state.move_to(snapshot)
        state.record(definition, "sometimes")
        return commit_of(snapshot.version, entries)

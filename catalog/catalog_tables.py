"""`CatalogTables`: the tables of a catalog's definitions: opened, counted, brought to these."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from msgspec import UNSET
from msgspec.structs import replace

from projseg.catalog.declared_table import unwritten
from projseg.catalog.definitions import Definitions
from projseg.catalog.named_state import NamedState
from projseg.catalog.named_table import CatalogTable
from projseg.catalog.named_writes import Counts, prepared, seen_of, status_of
from projseg.catalog.spec.spec_edits import merge_of
from projseg.catalog.spec.table_spec import SpecLike
from projseg.catalog.store.table_metadata import NameLike, TableMetadata, parse_name
from projseg.errors import InvalidInputError, ProjsegError
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.commits.open_version import open_as_of
from projseg.table_layer.metadata.change import Replace
from projseg.table_layer.metadata.known_properties import declare_scope
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.storage.paths import new_write_id

_DIFFERENCES: Final = pa.schema(dict.fromkeys(("field", "table", "definition"), pa.string()))
_EXPIRED: Final = pa.schema(
    {"file": pa.string(), "max_time": pa.timestamp("us", "UTC"), "rows": pa.int64()}
)
_PROBLEMS: Final = pa.schema(dict.fromkeys(("name", "code", "problem"), pa.string()))
_LAYOUT: Final = (
    "columns",
    "segment_granularity",
    "cluster_by",
    "target_segment_rows",
    "projections",
    "properties",
)


class CatalogTables:
    """The tables of definitions, which they ask for their definition and tell what was seen."""

    def __init__(self, definitions: Definitions) -> None:
        self.store = definitions.store
        self._definitions, self._places = definitions, definitions.places

    def flush(self) -> None:
        """Forget every definition that was read."""
        self._definitions.flush()

    def merge(self, name: NameLike, spec: SpecLike, version: int | None = None) -> int:
        """Merge a part of a spec into a definition."""
        return self._definitions.change(name, merge_of(spec), version)

    def table(self, name: NameLike, version: int | None = None) -> CatalogTable:
        """Open a table by name."""
        return CatalogTable(self.opened(name, version))

    def opened(self, name: NameLike, version: int | None = None) -> NamedState:
        """Return a version of the table of a name; None means the newest."""
        return self._state_of(self._definitions.recent(name), version)

    def _state_of(self, definition: TableMetadata, version: int | None = None) -> NamedState:
        storage = self._places.storage_of(definition)
        try:
            snapshot = open_as_of(storage, version)
        except InvalidInputError as error:
            is_new = definition.table_id is None and version is None
            if error.code == "PROJSEG_NOT_A_TABLE" and is_new:
                return NamedState(self, definition, unwritten(definition, storage))
            raise
        found = snapshot.properties.table_id
        if definition.table_id not in (None, found):
            raise InvalidInputError(
                "PROJSEG_TABLE_REPLACED",
                f"'{definition.full_name}' was the table with id {definition.table_id}, and "
                f"{storage.location} holds another ({found}); if that is meant, call "
                "rebind",
            )
        state = NamedState(self, definition, snapshot, is_pinned=version is not None)
        if version is None:
            state.record(definition)
        return state

    def apply(self, name: NameLike, dry_run: bool) -> pa.Table:
        """Make a definition's columns and layout its table's; return what differs."""
        state = self.opened(name)
        rows: list[dict[str, str]] = []
        if state.is_unwritten:
            rows.append({"field": "table", "definition": "a new one"})
        else:
            before = state.properties
            after = prepared(state.definition, before).properties
            for field in _LAYOUT:
                found, wanted = (_value_text(getattr(of, field)) for of in (before, after))
                if found != wanted:
                    rows.append({"field": field, "table": found, "definition": wanted})
        if not dry_run:
            state.adopt()
        return pa.Table.from_pylist(rows, _DIFFERENCES)

    def rebind(self, name: NameLike) -> int:
        """Take the table at a definition's location for its own, and return its version."""
        definition = self.store.load(parse_name(name))
        storage = self._places.storage_of(definition)
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
        state = NamedState(self, replace(definition, **seen), snapshot)
        return state.adopt(takes_over=True)

    def counted(self, definition: TableMetadata, counts: Counts) -> TableMetadata:
        """Return a definition with what its table has now.

        `counts` is the same as in `NamedState.record`.
        """
        state = self._state_of(definition)
        if state.is_unwritten:
            return definition
        state.record(state.definition, counts)
        return replace(state.definition, stored_status=status_of(definition, state.snapshot))

    def expire(self, name: NameLike, dry_run: bool) -> pa.Table:
        """Remove the segments whose rows are all older than the definition's `retention`."""
        state = self.opened(name)
        retention = state.definition.spec.layout.retention
        if retention is UNSET:
            raise InvalidInputError(
                "PROJSEG_BAD_SPEC",
                f"$.properties.retention: '{state.definition.full_name}' has none, so nothing of "
                "it expires; merge one, such as '400 days'",
            )
        scope, now = declare_scope(retain=retention), time.time_ns() // 1000
        entries = [] if state.is_unwritten else list(state.snapshot.segments)
        old = [
            entry
            for entry in entries
            if scope.reason_against(entry.min_time_us, entry.max_time_us, now) is not None
        ]
        if old and not dry_run:
            commit(
                state.storage,
                state.snapshot,
                Replace(frozenset(entry.listed_as for entry in old)),
                write_id=new_write_id(),
                operation="expire",
                metrics={"removed_segments": len(old)},
            )
        rows = (
            {"file": one.file, "max_time": one.max_time_us, "rows": one.live_row_count}
            for one in old
        )
        return pa.Table.from_pylist(list(rows), _EXPIRED)

    def problems(self) -> pa.Table:
        """Return the disagreements between definitions and their tables."""
        problems = []
        for found in self.store.listed(type="table"):
            try:
                table = self.table(found.full_name)
                if not table.is_unwritten:
                    table.query(limit=0)
                    self.apply(found.full_name, dry_run=True)
            except ProjsegError as error:
                row = {"code": error.code, "problem": error.message}
                problems.append({"name": str(found.full_name), **row})
        return pa.Table.from_pylist(problems, _PROBLEMS)


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(str(getattr(one, "name", one)) for one in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={text}" for key, text in sorted(value.items()))
    return str(value)

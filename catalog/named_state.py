"""`NamedState`: the version and the definition that a table of a catalog goes by."""

from __future__ import annotations

import logging
from functools import partial
from typing import Final, Protocol

from msgspec.structs import replace

from projseg.algebra.query.declared_columns import DeclaredColumns
from projseg.catalog.declared_table import declared_columns, new_properties
from projseg.catalog.named_writes import Counts, is_old, prepared, said_of, seen_of, status_of
from projseg.catalog.spec.spec_edits import SpecEdit
from projseg.catalog.spec.table_spec import SpecLike
from projseg.catalog.store.store_contract import Store
from projseg.catalog.store.table_metadata import NameLike, TableMetadata
from projseg.errors import InvalidInputError
from projseg.table.table_state import TableState
from projseg.table.version_reader import VersionReader
from projseg.table_layer.commits.commit import commit, create_table
from projseg.table_layer.commits.follow_up import only_logged
from projseg.table_layer.metadata.change import ChangeColumns
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.paths import new_write_id

LOGGER: Final = logging.getLogger("projseg.catalog")


class TableOpener(Protocol):
    """The part of a catalog that its tables use."""

    store: Store

    def opened(self, name: NameLike) -> NamedState:
        """Return the newest version of a table by name."""

    def merge(self, name: NameLike, spec: SpecLike, version: int | None = None) -> int:
        """Merge a part of a spec into a definition."""

    def flush(self) -> None:
        """Forget every definition that was read."""


class NamedState(TableState):
    """The version that a table of a catalog reads, and how it moves on with its definition."""

    def __init__(
        self,
        catalog: TableOpener,
        definition: TableMetadata,
        snapshot: Snapshot,
        *,
        is_pinned: bool = False,
    ) -> None:
        columns_of = partial(declared_columns, definition)
        reader = VersionReader(snapshot, columns_of, may_be_older=not is_pinned)
        super().__init__(reader, is_pinned=is_pinned)
        self.catalog, self.definition = catalog, definition

    @property
    def declared(self) -> DeclaredColumns:
        """The columns that the definition declares."""
        declared = self.reader.declared
        assert declared is not None, "a definition declares columns"
        return declared

    @property
    def is_unwritten(self) -> bool:
        """Whether there is a definition and no table yet."""
        return self.snapshot.version < 0

    def define(self, definition: TableMetadata) -> None:
        """Go by another definition."""
        self.definition = definition
        self.reader = self.reader.declaring(partial(declared_columns, definition))

    def refresh(self) -> None:
        """Read the newest version of the definition and of the table."""
        newest = self.catalog.opened(self.definition.full_name)
        self.define(newest.definition)
        self.follow(newest)

    def edit_definition(self, edit: SpecEdit) -> None:
        """Change the definition that the catalog has; a refresh reads it."""
        self.catalog.store.change(self.definition.full_name, edit)
        self.catalog.flush()

    def begin(self) -> None:
        """Move to the newest version, after which even the first rows may be written."""
        super().check_newest()
        self.refresh()

    def check_newest(self) -> None:
        """Refuse to write after a version that the caller chose, or where no table is."""
        super().check_newest()
        self.check_written()

    def check_written(self) -> None:
        """Refuse what needs a table where there is only a definition."""
        if self.is_unwritten:
            raise InvalidInputError(
                "PROJSEG_NOT_A_TABLE",
                f"'{self.definition.full_name}' is defined and was never written; append rows, or "
                "make the table with catalog.apply",
            )

    def adopt(self, *, takes_over: bool = False) -> int:
        """Make the definition's columns and layout the table's, and return its version."""
        if self.is_unwritten:
            properties = new_properties(self.definition, None)
            self.move_to(create_table(self.storage, properties, operation="adopt layout"))
            self.record(self.definition)
            return self.snapshot.version
        plan = prepared(self.definition, self.properties, takes_over=takes_over)
        if plan.is_change:
            snapshot = commit(
                self.storage,
                self.snapshot,
                ChangeColumns(plan.changes, plan.layout),
                write_id=new_write_id(),
                operation="adopt layout",
                note=self.note.asking(**said_of(plan.layout)),
            )
            self.move_to(snapshot)
        self.record(plan.definition, "sometimes")
        return self.snapshot.version

    def record(self, definition: TableMetadata, counts: Counts = "never") -> None:
        """Tell the catalog what was seen; `sometimes` counts segments once a minute has passed."""
        known = self.definition

        def failure() -> str:
            version, name = self.snapshot.version, known.full_name
            return f"version {version} of {name} is there; the catalog could not be told"

        with only_logged(LOGGER, failure):
            seen = seen_of(definition, self.properties)
            if self.is_unwritten:
                return
            if counts == "now" or (counts == "sometimes" and is_old(known.stored_status)):
                seen["stored_status"] = status_of(known, self.snapshot)
            elif all(getattr(known, key) == value for key, value in seen.items()):
                return
            self.define(replace(known, **seen))
            self.catalog.store.record(known.id, **seen, stored_version=self.snapshot.version)

"""Definitions that are being made with their first rows, and have no name until then."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import sqlalchemy as sa

from projseg.catalog.spec.table_spec import TableSpec
from projseg.catalog.store.table_metadata import (
    ACTIVE,
    DELETED,
    STAGED,
    Name,
    TableMetadata,
    metadata_of,
)
from projseg.catalog.store.tenant_edits import (
    DEFINITIONS,
    ROW,
    Edit,
    TenantEdits,
)
from projseg.errors import InvalidInputError


class StagedDefinitions(TenantEdits):
    """The staged definitions of a tenant."""

    def stage(
        self, name: Name, spec: TableSpec, location: Callable[[str], str | None]
    ) -> TableMetadata:
        """Make a definition without a name, and return it.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_NAMESPACE.
        """

        def work(edit: Edit) -> TableMetadata:
            id_, state = uuid.uuid4().hex, {"state": STAGED, "version": 0, "managed": 1}
            own = self._named(edit, name)
            self._add(edit, own, spec, id=id_, location=location(id_), **state)
            return self._require_staged(edit, id_)

        return self.edit(work)

    def publish(self, definition: str, due_us: int, *, replace: bool) -> int:
        """Give a staged definition its name; one that it replaces goes to the trash with its files.

        Returns the version.

        Raises
        ------
        InvalidInputError
            PROJSEG_TABLE_EXISTS unless it replaces; PROJSEG_UNKNOWN_TABLE if it is gone.
        """

        def work(edit: Edit) -> int:
            found = self._require_staged(edit, definition)
            present = self._active(edit.connection, found.full_name)
            if present is not None and not replace:
                raise InvalidInputError(
                    "PROJSEG_TABLE_EXISTS", f"'{present.full_name}' is defined already"
                )
            version = edit.note("create", str(found.full_name), found.id, found.spec.to_json())
            if present is not None:
                self._set(
                    edit,
                    present.id,
                    version,
                    state=DELETED,
                    due_us=due_us,
                    removes_files=int(present.managed),
                )
            self._set(edit, found.id, version, state=ACTIVE)
            return version

        return self.edit(work)

    def discard(self, definition: str) -> None:
        """Forget a staged definition whose files are gone."""

        def work(edit: Edit) -> None:
            edit.connection.execute(
                DEFINITIONS.delete().where(
                    DEFINITIONS.c.tenant == self.tenant,
                    DEFINITIONS.c.id == definition,
                    DEFINITIONS.c.state == STAGED,
                )
            )

        self.edit(work)

    def staged(self, before_us: int | None = None) -> list[TableMetadata]:
        """Return the staged definitions, or those that were staged before a time."""
        table = DEFINITIONS.c
        asked = sa.select(*ROW).where(table.tenant == self.tenant, table.state == STAGED)
        if before_us is not None:
            asked = asked.where(table.created_us < before_us)
        with self.database.reading() as connection:
            return [metadata_of(row) for row in connection.execute(asked)]

    def _require_staged(self, edit: Edit, definition: str) -> TableMetadata:
        asked = sa.select(*ROW).where(
            DEFINITIONS.c.tenant == self.tenant,
            DEFINITIONS.c.id == definition,
            DEFINITIONS.c.state == STAGED,
        )
        row = edit.connection.execute(asked).first()
        if row is None:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_TABLE", "the definition that was being made is gone; make it again"
            )
        return metadata_of(row)

"""Dropped definitions: each waits until it is due, may be brought back, and then goes."""

from __future__ import annotations

import sqlalchemy as sa

from projseg.catalog.store.table_metadata import (
    ACTIVE,
    DELETED,
    DELETING,
    Name,
    TableMetadata,
    metadata_of,
)
from projseg.catalog.store.tenant_edits import (
    CHANGES,
    DEFINITIONS,
    ROW,
    TENANTS,
    Edit,
    TenantEdits,
    check_version,
)
from projseg.errors import InvalidInputError


class Trash(TenantEdits):
    """The dropped definitions of a tenant."""

    def remove(
        self, name: Name, due_us: int, *, removes_files: bool, version: int | None = None
    ) -> TableMetadata:
        """Put a definition into the trash, and return it as it was.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE.
        """

        def work(edit: Edit) -> TableMetadata:
            present = self._require(edit.connection, name)
            check_version(present, version)
            made = edit.note("drop", str(present.full_name), present.id, None)
            self._set(
                edit,
                present.id,
                made,
                state=DELETED,
                due_us=due_us,
                removes_files=int(removes_files and present.managed),
            )
            return present

        return self.edit(work)

    def bring_back(self, name: Name, definition: str | None = None) -> int:
        """Bring the newest dropped definition of a name back, or one by its id.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE, PROJSEG_TABLE_EXISTS.
        """
        table = DEFINITIONS.c

        def work(edit: Edit) -> int:
            namespace, folded = name.folded
            asked = (
                sa.select(*ROW)
                .where(table.tenant == self.tenant, table.state == DELETED)
                .order_by(table.version.desc())
                .limit(1)
            )
            asked = (
                asked.where(table.id == definition)
                if definition is not None
                else asked.where(table.folded_namespace == namespace, table.folded == folded)
            )
            row = edit.connection.execute(asked).first()
            if row is None:
                raise InvalidInputError(
                    "PROJSEG_UNKNOWN_TABLE",
                    f"the trash holds no definition '{definition or name}'; it may have been due",
                )
            found = metadata_of(row)
            if self._active(edit.connection, found.full_name) is not None:
                raise InvalidInputError(
                    "PROJSEG_TABLE_EXISTS",
                    f"'{found.full_name}' is defined anew; rename that one first",
                )
            version = edit.note("undrop", str(found.full_name), found.id, found.spec.to_json())
            self._set(edit, found.id, version, state=ACTIVE, due_us=None, removes_files=0)
            return version

        return self.edit(work)

    def trash(self, due_us: int | None = None) -> list[tuple[TableMetadata, int, bool]]:
        """Return dropped definitions, when they are due, and whether their files go then."""
        table = DEFINITIONS.c
        asked = (
            sa.select(*ROW, table.due_us, table.removes_files)
            .where(table.tenant == self.tenant, table.state.in_((DELETED, DELETING)))
            .order_by(table.version)
        )
        if due_us is not None:
            asked = asked.where(table.due_us <= due_us)
        with self.database.reading() as connection:
            rows = connection.execute(asked).all()
        return [(metadata_of(row[:-2]), int(row[-2] or 0), bool(row[-1])) for row in rows]

    def begin_removal(self, definition: str) -> bool:
        """Mark a definition in the trash whose files are going; False if it was brought back."""
        table = DEFINITIONS.c

        def work(edit: Edit) -> bool:
            marked = edit.connection.execute(
                DEFINITIONS.update()
                .where(table.id == definition, table.state.in_((DELETED, DELETING)))
                .values(state=DELETING)
            )
            return bool(marked.rowcount)

        return self.edit(work)

    def forget(self, definition: str) -> None:
        """Remove the row of a definition whose files are gone, or stay."""

        def work(edit: Edit) -> None:
            edit.connection.execute(
                DEFINITIONS.delete().where(
                    DEFINITIONS.c.id == definition, DEFINITIONS.c.state == DELETING
                )
            )

        self.edit(work)

    def prune_changes(self, before_us: int) -> None:
        """Forget changes that are older; the feed then begins after them."""
        changes = CHANGES.c

        def work(edit: Edit) -> None:
            old = sa.and_(changes.tenant == self.tenant, changes.at_us < before_us)
            newest = edit.connection.execute(
                sa.select(sa.func.max(changes.version)).where(old)
            ).scalar()
            if newest is None:
                return
            edit.connection.execute(CHANGES.delete().where(old, changes.version <= newest))
            edit.connection.execute(
                TENANTS.update().where(TENANTS.c.tenant == self.tenant).values(kept_from=newest)
            )

        self.edit(work)

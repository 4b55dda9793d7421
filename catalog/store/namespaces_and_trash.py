"""The namespaces of a tenant, and its definitions without a name: staged ones and the trash.

Namespaces are one level of names; `default` is always there. A definition is staged while it is
made with its first rows. A dropped definition can be brought back until it is due, and is then
removed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import sqlalchemy as sa

from projseg.catalog.spec.table_spec import TableSpec
from projseg.catalog.store.table_metadata import (
    ACTIVE,
    DEFAULT_NAMESPACE,
    DELETED,
    DELETING,
    STAGED,
    Name,
    TableMetadata,
    check_new_name,
    metadata_of,
)
from projseg.catalog.store.tenant_edits import (
    CHANGES,
    DEFINITIONS,
    IS_ACTIVE,
    NAMESPACES,
    PAGE,
    ROW,
    TENANTS,
    Edit,
    TenantEdits,
    check_version,
    first_rows,
)
from projseg.errors import InvalidInputError

_DEFAULT: Final[dict[str, Any]] = {
    "name": DEFAULT_NAMESPACE,
    "comment": None,
    "owner": None,
    "properties": {},
}


class Namespaces(TenantEdits):
    """The namespaces of a tenant."""

    def namespaces(self) -> list[dict[str, Any]]:
        """Return the namespaces by name; `default` is always one."""
        found: list[dict[str, Any]] = []
        after, is_all = "", False
        while not is_all:
            rows, is_all = self.namespaces_page(after)
            found += rows
            after = str(found[-1]["name"]).casefold()
        return found

    def namespaces_page(
        self, after: str = "", most: int = PAGE
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return the namespaces after a name without case, and whether they are all."""
        own, folded = NAMESPACES.c.tenant == self.tenant, NAMESPACES.c.folded
        asked = sa.select(NAMESPACES).where(own, folded > after).order_by(folded).limit(most)
        with self.database.reading() as connection:
            rows, is_all = first_rows(connection, asked, most)
            default = self._namespace_row(connection, DEFAULT_NAMESPACE)
        found = [_shown_namespace(row) for row in rows]
        is_here = is_all or rows[-1].folded > DEFAULT_NAMESPACE
        if default is None and after < DEFAULT_NAMESPACE and is_here:
            found.append(_DEFAULT)
            found.sort(key=lambda one: one["name"].casefold())
        return found, is_all

    def namespace(self, name: str) -> dict[str, Any] | None:
        """Return a namespace, or None."""
        with self.database.reading() as connection:
            row = self._namespace_row(connection, name)
        if row is not None:
            return _shown_namespace(row)
        return _DEFAULT if name.casefold() == DEFAULT_NAMESPACE else None

    def put_namespace(
        self, name: str, comment: str | None, properties: Mapping[str, str] | None
    ) -> int:
        """Make a namespace."""

        def work(edit: Edit) -> int:
            present = self._find_namespace(edit.connection, check_new_name(name))
            if present is not None:
                raise InvalidInputError(
                    "PROJSEG_NAMESPACE_EXISTS", f"namespace '{present}' exists already; use it"
                )
            version = edit.note("create namespace", name, None, None)
            edit.connection.execute(
                NAMESPACES.insert().values(
                    tenant=self.tenant,
                    folded=name.casefold(),
                    name=name,
                    comment=comment,
                    properties=json.dumps(dict(properties or {})),
                    owner=self.user,
                    version=version,
                )
            )
            return version

        return self.edit(work)

    def remove_namespace(self, name: str, due_us: int, *, cascade: bool) -> int:
        """Remove a namespace; with `cascade` its definitions go to the trash, their data stays."""
        table, folded = DEFINITIONS.c, name.casefold()

        def work(edit: Edit) -> int:
            present = self._namespace(edit.connection, name)
            inside = sa.and_(
                table.tenant == self.tenant,
                IS_ACTIVE,
                table.folded_namespace == folded,
            )
            rows = edit.connection.execute(sa.select(*ROW).where(inside)).all()
            if rows and not cascade:
                raise InvalidInputError(
                    "PROJSEG_NAMESPACE_NOT_EMPTY",
                    f"namespace '{present}' holds {len(rows)} definitions, such as "
                    f"'{metadata_of(rows[0]).name}'; drop them first, or drop it with cascade",
                )
            version = edit.note("drop namespace", present, None, None)
            edit.connection.execute(
                DEFINITIONS.update()
                .where(inside)
                .values(state=DELETED, due_us=due_us, removes_files=0, version=version)
            )
            edit.connection.execute(
                NAMESPACES.delete().where(
                    NAMESPACES.c.tenant == self.tenant, NAMESPACES.c.folded == folded
                )
            )
            return version

        return self.edit(work)


class NamelessDefinitions(TenantEdits):
    """The staged and the dropped definitions of a tenant."""

    def stage(
        self, name: Name, spec: TableSpec, location: Callable[[str], str | None]
    ) -> TableMetadata:
        """Make a definition without a name, and return it."""

        def work(edit: Edit) -> TableMetadata:
            id_, state = uuid.uuid4().hex, {"state": STAGED, "version": 0, "managed": 1}
            present = self._active(edit.connection, name)
            if present is None:
                own = self._new_name(edit, name, spec.type)
            else:  # which `publish` may replace, and refuses otherwise
                own = self._judged(present, stays=False).full_name
            self._add(edit, own, spec, id=id_, location=location(id_), **state)
            return self._require_staged(edit, id_)

        return self.edit(work)

    def publish(self, definition: str, due_us: int, *, replace: bool) -> int:
        """Give a staged definition its name; one that it replaces goes to the trash with its files.

        Returns the version.
        """

        def work(edit: Edit) -> int:
            found = self._judged(self._require_staged(edit, definition))
            present = self._active(edit.connection, found.full_name)
            if present is not None:
                self._judged(present, stays=False)
            if present is not None and not replace:
                raise InvalidInputError(
                    "PROJSEG_TABLE_EXISTS", f"'{present.full_name}' is defined already"
                )
            version = edit.note("create", found.full_name, found.id, found.spec.to_json())
            if present is not None:
                self._bury(edit, present, version, due_us, removes_files=True)
            self._set(edit, found.id, version, state=ACTIVE)
            return version

        return self.edit(work)

    def discard(self, definition: str) -> None:
        """Forget a staged definition whose files are gone."""
        asked = DEFINITIONS.delete().where(self._in(STAGED), DEFINITIONS.c.id == definition)
        self.edit(lambda edit: edit.connection.execute(asked).close())

    def staged(self, before_us: int | None = None) -> list[TableMetadata]:
        """Return the staged definitions, or those that were staged before a time."""
        asked = sa.select(*ROW).where(self._in(STAGED))
        if before_us is not None:
            asked = asked.where(DEFINITIONS.c.created_us < before_us)
        with self.database.reading() as connection:
            return [metadata_of(row) for row in connection.execute(asked)]

    def by_id(self, definition: str, *states: str) -> TableMetadata | None:
        """Return the definition with an id, if it is in one of some states."""
        asked = sa.select(*ROW).where(self._in(*states), DEFINITIONS.c.id == definition)
        with self.database.reading() as connection:
            row = connection.execute(asked).first()
        return None if row is None else metadata_of(row)

    def _require_staged(self, edit: Edit, definition: str) -> TableMetadata:
        asked = sa.select(*ROW).where(self._in(STAGED), DEFINITIONS.c.id == definition)
        row = edit.connection.execute(asked).first()
        if row is None:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_TABLE", "the definition that was being made is gone; make it again"
            )
        return metadata_of(row)

    def remove(
        self, name: Name, due_us: int, *, removes_files: bool, version: int | None = None
    ) -> TableMetadata:
        """Put a definition into the trash, and return it as it was."""

        def work(edit: Edit) -> TableMetadata:
            present = self._require(edit.connection, name, stays=False)
            check_version(present, version)
            made = edit.note("drop", present.full_name, present.id, None)
            self._bury(edit, present, made, due_us, removes_files)
            return present

        return self.edit(work)

    def bring_back(self, name: Name, definition: str | None = None) -> int:
        """Bring the newest dropped definition of a name back, or one by its id."""
        table = DEFINITIONS.c

        def work(edit: Edit) -> int:
            namespace, folded = name.folded
            own: Any = table.id == definition
            if definition is None:
                own = sa.and_(table.folded_namespace == namespace, table.folded == folded)
            asked = sa.select(*ROW).where(self._in(DELETED), own).order_by(table.version.desc())
            row = edit.connection.execute(asked.limit(1)).first()
            if row is None:
                raise InvalidInputError(
                    "PROJSEG_UNKNOWN_TABLE",
                    f"the trash holds no definition '{definition or name}'; it may have been due",
                )
            found = self._judged(metadata_of(row))
            if self._active(edit.connection, found.full_name) is not None:
                raise InvalidInputError(
                    "PROJSEG_TABLE_EXISTS",
                    f"'{found.full_name}' is defined anew; rename that one first",
                )
            version = edit.note("undrop", found.full_name, found.id, found.spec.to_json())
            self._set(edit, found.id, version, state=ACTIVE, due_us=None, removes_files=0)
            return version

        return self.edit(work)

    def trash(
        self, due_us: int | None = None, page: int = PAGE, *, after: tuple[int, str] = (-1, "")
    ) -> Iterator[tuple[TableMetadata, int, bool]]:
        """Yield dropped definitions, when they are due, and whether their files go then.

        They are read page by page, after a key of version and id, by which they are ordered.
        """
        table = DEFINITIONS.c
        key = (table.version, table.id)
        while True:
            asked = (
                sa.select(*ROW, table.due_us, table.removes_files)
                .where(self._in(DELETED, DELETING), sa.tuple_(*key) > sa.tuple_(*after))
                .order_by(*key)
                .limit(page)
            )
            if due_us is not None:
                asked = asked.where(table.due_us <= due_us)
            with self.database.reading() as connection:
                rows, is_all = first_rows(connection, asked, page)
            found = [metadata_of(row[:-2]) for row in rows]
            for one, row in zip(found, rows, strict=True):
                yield one, int(row[-2] or 0), bool(row[-1])
            if is_all:
                return
            after = (found[-1].version, found[-1].id)

    def begin_removal(self, definition: str) -> bool:
        """Mark a definition in the trash that is due; False if it is not, or was brought back."""
        is_due = DEFINITIONS.c.due_us <= self.now_us()
        own = (self._in(DELETED, DELETING), DEFINITIONS.c.id == definition, is_due)
        asked = DEFINITIONS.update().where(*own).values(state=DELETING)
        return self.edit(lambda edit: bool(edit.connection.execute(asked).rowcount))

    def forget(self, definition: str) -> None:
        """Remove the row of a definition whose files are gone, or stay."""
        asked = DEFINITIONS.delete().where(self._in(DELETING), DEFINITIONS.c.id == definition)
        self.edit(lambda edit: edit.connection.execute(asked).close())

    def now_us(self) -> int:
        """Return the earlier one of this machine's and the catalog's time, microseconds UTC."""
        return self.database.now_us()

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

    def _in(self, *states: str) -> sa.ColumnElement[bool]:
        """Return the condition of the tenant's definitions in some states."""
        return sa.and_(DEFINITIONS.c.tenant == self.tenant, DEFINITIONS.c.state.in_(states))

    def _bury(
        self, edit: Edit, found: TableMetadata, version: int, due_us: int, removes_files: bool
    ) -> None:
        """Put a definition into the trash; the files of a registered table stay."""
        removes = int(removes_files and found.managed)
        self._set(edit, found.id, version, state=DELETED, due_us=due_us, removes_files=removes)


def _shown_namespace(row: Any) -> dict[str, Any]:
    return {
        "name": row.name,
        "comment": row.comment,
        "owner": row.owner,
        "properties": json.loads(row.properties or "{}"),
    }

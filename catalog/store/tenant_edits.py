"""The edits of one tenant: each takes the next number of its `head`.

That happens in the edit's own transaction and under the lock of the tenant's row, and the number is
the definition's new version. So numbers commit in order, and no two definitions ever have one
version. What the system records moves no version.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from projseg.catalog.spec.table_spec import TableSpec
from projseg.catalog.store.databases import Database
from projseg.catalog.store.grants import Caller
from projseg.catalog.store.kept_replies import KeptReply
from projseg.catalog.store.table_metadata import (
    ACTIVE,
    COLUMNS,
    DEFAULT_NAMESPACE,
    Name,
    TableMetadata,
    check_new_name,
    metadata_of,
)
from projseg.errors import CatalogConflictError, InvalidInputError, did_you_mean

T = TypeVar("T")
PAGE: Final = 1000
PAGE_BYTES: Final = 8 << 20
"""Of the texts of a page, which one row may pass."""
_ROWS_AT_ONCE: Final = 8

TENANTS: Final = sa.table(
    "tenants", *map(sa.column, ("tenant", "head", "kept_from", "warehouse", "roots", "created_us"))
)
_INFO: Final = sa.table("info", sa.column("epoch"))
NAMESPACES: Final = sa.table(
    "namespaces",
    *map(
        sa.column,
        ("tenant", "folded", "name", "comment", "properties", "owner", "version"),
    ),
)
DEFINITIONS: Final = sa.table(
    "definitions",
    *map(
        sa.column,
        (*COLUMNS, "tenant", "folded_namespace", "folded", "due_us", "removes_files"),
    ),
)
CHANGES: Final = sa.table(
    "changes",
    *map(
        sa.column,
        (
            *("tenant", "version", "definition", "name", "kind", "at_us", "by"),
            *("request_id", "spec"),
        ),
    ),
)
ROW: Final = tuple(DEFINITIONS.c[name] for name in COLUMNS)
_NAME: Final = ("tenant", "folded_namespace", "folded")
# A constant of the statement: no database looks for a bound value in its index of active names.
IS_ACTIVE: Final = DEFINITIONS.c.state == sa.literal_column(f"'{ACTIVE}'")
# Made once, as each statement by name reads it.
_ACTIVE_ROW: Final = sa.select(*ROW).where(
    IS_ACTIVE, *(DEFINITIONS.c[key] == sa.bindparam(key) for key in _NAME)
)


@dataclass
class Edit:
    """One transaction that changes a tenant's definitions, and holds the lock of the tenant's row.

    The request's id tells this edit from all others.
    """

    connection: sa.Connection
    tenant: str
    user: str | None
    request_id: str
    _version: int | None = None

    def bump(self) -> int:
        """Return the version that this edit makes; the head moves once."""
        if self._version is None:
            moved = (
                TENANTS.update()
                .where(TENANTS.c.tenant == self.tenant)
                .values(head=TENANTS.c.head + 1)
                .returning(TENANTS.c.head)
            )
            self._version = int(self.connection.execute(moved).scalar_one())
        return self._version

    def note(self, kind: str, name: Name | str, definition: str | None, spec: str | None) -> int:
        """Write what changed, and return the version that it made."""
        version = self.bump()
        self.connection.execute(
            CHANGES.insert().values(
                tenant=self.tenant,
                version=version,
                definition=definition,
                name=name.text if isinstance(name, Name) else name,
                kind=kind,
                at_us=now_us(),
                by=self.user,
                request_id=self.request_id,
                spec=spec,
            )
        )
        return version


@dataclass(frozen=True)
class TenantEdits:
    """A tenant's head, its changes, and transactions that edit its definitions and no others.

    The user is for the history. `kept` is kept with the edit in its own transaction, so that it is
    never done twice. The grants of the caller are checked in that transaction, on the definition
    there; whoever has the database is bound by none.
    """

    database: Database
    tenant: str = "default"
    user: str | None = None
    kept: KeptReply | None = None
    caller: Caller | None = None

    def epoch(self) -> str:
        """Return what differs after a backup was restored, whose versions may come again."""
        with self.database.reading() as connection:
            return str(connection.execute(sa.select(_INFO.c.epoch)).scalar_one())

    def head(self) -> int:
        """Return the version of the newest edit; 0 if there was none."""
        with self.database.reading() as connection:
            return int(self._tenant_value(connection, TENANTS.c.head) or 0)

    def changes(self, since: int, definition: str | None = None) -> list[Mapping[str, Any]]:
        """Return the changes after a version, in order."""
        found: list[Mapping[str, Any]] = []
        while True:
            rows, is_all = self.changes_page(since, definition)
            found += rows
            if is_all:
                return found
            since = int(rows[-1]["version"])

    def changes_page(
        self, since: int, definition: str | None = None
    ) -> tuple[list[Mapping[str, Any]], bool]:
        """Return the first changes after a version, in order, and whether they are all."""
        changes = CHANGES.c
        asked = (
            sa.select(CHANGES)
            .where(changes.tenant == self.tenant, changes.version > since)
            .order_by(changes.version)
            .limit(PAGE)
        )
        if definition is not None:
            asked = asked.where(changes.definition == definition)
        with self.database.reading() as connection:
            kept_from = int(self._tenant_value(connection, TENANTS.c.kept_from) or 0)
            head = int(self._tenant_value(connection, TENANTS.c.head) or 0)
            rows, is_all = first_rows(connection, asked, PAGE)
        if definition is None and not kept_from <= since <= head:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_VERSION",
                f"there are changes after versions {kept_from} to {head}, not after {since}; list "
                "the definitions anew",
            )
        return [dict(row._mapping) for row in rows], is_all

    def history(self, found: TableMetadata) -> list[Mapping[str, Any]]:
        """Return the changes of one definition that are kept, oldest first."""
        return self.changes(-1, found.id)

    def edit(self, work: Callable[[Edit], T]) -> T:
        """Do work in one transaction that holds the lock of the tenant's row.

        Raises the errors of `Database.edit`, and RepeatedRequestError if a request with the store's
        key was done before.
        """
        request_id = uuid.uuid4().hex

        def locked(connection: sa.Connection) -> T:
            self._lock(connection)
            if self.kept is not None:
                self.kept.check(connection)
            result = work(Edit(connection, self.tenant, self.user, request_id))
            if self.kept is not None:
                self.kept.keep(connection, result)
            return result

        def has_landed(connection: sa.Connection) -> bool:
            connection.execute(self._own_row())  # a COMMIT that is under way has its lock
            asked = sa.select(CHANGES.c.version).where(
                CHANGES.c.tenant == self.tenant, CHANGES.c.request_id == request_id
            )
            return connection.execute(asked).first() is not None

        return self.database.edit(locked, has_landed)

    def _lock(self, connection: sa.Connection) -> None:
        asked = self._own_row()
        if connection.execute(asked).first() is None:
            connection.execute(
                TENANTS.insert().values(
                    tenant=self.tenant, head=0, kept_from=0, created_us=now_us()
                )
            )
            connection.execute(asked)

    def _own_row(self) -> sa.Select[Any]:
        """Select the tenant's row, and lock it."""
        own = TENANTS.c.tenant == self.tenant
        return sa.select(TENANTS.c.head).where(own).with_for_update()

    def _tenant_value(self, connection: sa.Connection, column: Any) -> Any:
        own = TENANTS.c.tenant == self.tenant
        return connection.execute(sa.select(column).where(own)).scalar()

    def _active(self, connection: sa.Connection, name: Name) -> TableMetadata | None:
        key = dict(zip(_NAME, (self.tenant, *name.folded), strict=True))
        row = connection.execute(_ACTIVE_ROW, key).first()
        return None if row is None else metadata_of(row)

    def _require(
        self, connection: sa.Connection, name: Name, *, stays: bool = True
    ) -> TableMetadata:
        """Return the definition of a name, which is about to be edited."""
        found = self._active(connection, name)
        if found is None:
            self._judge_absent(connection, name)
            raise self._unknown(connection, name)
        return self._judged(found, stays=stays)

    def _judged(self, found: TableMetadata, *, stays: bool = True) -> TableMetadata:
        """Return a definition that the caller may edit, or may take away."""
        if self.caller is not None:
            self.caller.require("WRITE", found.full_name)
            if stays:
                self.caller.require_place(found)
        return found

    def _judge_absent(self, connection: sa.Connection, name: Name) -> None:
        """Refuse a caller who may not write a name that is not there."""
        if self.caller is not None:
            namespace = self._find_namespace(connection, name.namespace)
            own = Name(namespace or name.namespace.casefold(), name.name)
            self.caller.require("WRITE", own.folded_name)

    def _unknown(self, connection: sa.Connection, name: Name) -> InvalidInputError:
        """Return the error of a name without a definition; other names are for admins alone."""
        table = DEFINITIONS.c
        if self.caller is not None and not self.caller.is_admin:
            return InvalidInputError(
                "PROJSEG_UNKNOWN_TABLE", f"the catalog has no definition '{name}'"
            )
        asked = sa.select(table.namespace, table.name).where(table.tenant == self.tenant, IS_ACTIVE)
        known = (f"{one.namespace}.{one.name}" for one in connection.execute(asked.limit(PAGE)))
        return InvalidInputError(
            "PROJSEG_UNKNOWN_TABLE",
            f"the catalog has no definition '{name}'{did_you_mean(str(name), known)}",
        )

    def _namespace_row(self, connection: sa.Connection, name: str) -> Any:
        asked = sa.select(NAMESPACES).where(
            NAMESPACES.c.tenant == self.tenant, NAMESPACES.c.folded == name.casefold()
        )
        return connection.execute(asked).first()

    def _find_namespace(self, connection: sa.Connection, name: str) -> str | None:
        found = self._namespace_row(connection, name)
        is_default = name.casefold() == DEFAULT_NAMESPACE
        return found.name if found else DEFAULT_NAMESPACE if is_default else None

    def _namespace(self, connection: sa.Connection, name: str) -> str:
        found = self._find_namespace(connection, name)
        if found is None:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_NAMESPACE",
                f"the catalog has no namespace '{name}'; create it first",
            )
        return found

    def _new_name(self, edit: Edit, name: Name, type: str) -> Name:
        """Return a name that a definition may get, with its namespace as that is written."""
        self._judge_absent(edit.connection, name)
        own = Name(self._namespace(edit.connection, name.namespace), check_new_name(name.name))
        return own if self.caller is None else self.caller.new_name(own, type)

    def _add(self, edit: Edit, name: Name, spec: TableSpec, **values: Any) -> None:
        """Add a row of a new definition."""
        times = dict.fromkeys(("created_us", "updated_us"), now_us())
        users = dict.fromkeys(("owner", "updated_by"), self.user)
        said = {"type": spec.type, "spec": spec.to_json(), "removes_files": 0}
        row = {"tenant": self.tenant, **name_values(name), **times, **users, **said, **values}
        edit.connection.execute(DEFINITIONS.insert().values(row))

    def _rewrite(self, edit: Edit, present: TableMetadata, text: str, kind: str) -> int:
        if text == present.spec.to_json():
            return present.version
        version = edit.note(kind, present.full_name, present.id, text)
        self._set(edit, present.id, version, spec=text)
        return version

    def _set(self, edit: Edit, definition: str, version: int, **values: Any) -> None:
        edit.connection.execute(
            DEFINITIONS.update()
            .where(DEFINITIONS.c.id == definition)
            .values(version=version, updated_us=now_us(), updated_by=self.user, **values)
        )


def first_rows(
    connection: sa.Connection, asked: sa.Select[Any], limit: int
) -> tuple[list[Any], bool]:
    """Return the first rows of a query with a limit, and whether there are no more behind them.

    Their texts have `PAGE_BYTES` and one row more at most, whatever others wrote; one row at least.
    """
    found: list[Any] = []
    size, options = 0, {"yield_per": _ROWS_AT_ONCE}
    with connection.execute(asked, execution_options=options) as rows:
        for row in rows:
            if size > PAGE_BYTES:
                return found, False
            found.append(row)
            size += sum(len(value) for value in row if isinstance(value, str))
    return found, len(found) < limit


def now_us() -> int:
    """Return this machine's time, microseconds since 1970, UTC."""
    return time.time_ns() // 1000


def name_values(name: Name) -> dict[str, str]:
    """Return the values of a row that hold a definition's name."""
    namespace, folded = name.folded
    return {
        "namespace": name.namespace,
        "name": name.name,
        "folded_namespace": namespace,
        "folded": folded,
    }


def check_version(present: TableMetadata, wanted: int | None) -> None:
    """Refuse an edit of a definition at another version."""
    if wanted is not None and present.version != wanted:
        raise CatalogConflictError(
            "PROJSEG_CATALOG_CONFLICT",
            f"'{present.full_name}' is at version {present.version}, and the edit is for version "
            f"{wanted}; read it again and repeat the edit",
        )

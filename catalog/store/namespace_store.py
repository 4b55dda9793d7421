"""The namespaces of a tenant: one level of names; `default` is always there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from projseg.catalog.store.table_metadata import DEFAULT_NAMESPACE, DELETED, metadata_of
from projseg.catalog.store.tenant_edits import (
    DEFINITIONS,
    IS_ACTIVE,
    NAMESPACES,
    ROW,
    Edit,
    TenantEdits,
)
from projseg.errors import InvalidInputError


class Namespaces(TenantEdits):
    """The namespaces of a tenant."""

    def namespaces(self) -> list[dict[str, Any]]:
        """Return the namespaces by name; `default` is always one."""
        asked = sa.select(NAMESPACES).where(NAMESPACES.c.tenant == self.tenant)
        with self.database.reading() as connection:
            rows = [dict(row) for row in connection.execute(asked).mappings()]
        if all(row["folded"] != DEFAULT_NAMESPACE for row in rows):
            rows.append(dict.fromkeys(("comment", "properties", "owner"), None))
            rows[-1]["name"] = DEFAULT_NAMESPACE
        found = [
            {
                "name": row["name"],
                "comment": row["comment"],
                "owner": row["owner"],
                "properties": json.loads(row["properties"] or "{}"),
            }
            for row in rows
        ]
        return sorted(found, key=lambda row: row["name"].casefold())

    def put_namespace(
        self, name: str, comment: str | None, properties: Mapping[str, str] | None
    ) -> int:
        """Make a namespace.

        Raises
        ------
        InvalidInputError
            PROJSEG_NAMESPACE_EXISTS.
        """

        def work(edit: Edit) -> int:
            present = self._find_namespace(edit.connection, name)
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
        """Remove a namespace; with `cascade` its definitions go to the trash, their data stays.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_NAMESPACE, PROJSEG_NAMESPACE_NOT_EMPTY.
        """
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

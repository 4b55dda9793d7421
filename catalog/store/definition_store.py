"""The definitions of one tenant: read, listed, written, edited and renamed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
import sqlalchemy as sa

from projseg.catalog.spec.spec_edits import SpecEdit
from projseg.catalog.spec.table_spec import TableSpec
from projseg.catalog.store.access_store import Access
from projseg.catalog.store.namespaces_and_trash import NamelessDefinitions, Namespaces
from projseg.catalog.store.table_metadata import (
    ACTIVE,
    Action,
    Name,
    TableMetadata,
    TableStatus,
    check_action,
    metadata_of,
)
from projseg.catalog.store.tenant_edits import (
    DEFINITIONS,
    IS_ACTIVE,
    PAGE,
    ROW,
    Edit,
    check_version,
    first_rows,
    name_values,
)
from projseg.errors import InvalidInputError

_KEY: Final = (DEFINITIONS.c.folded_namespace, DEFINITIONS.c.folded)


class DefinitionStore(Namespaces, NamelessDefinitions):
    """The definitions of a tenant in a database."""

    warehouse: ClassVar[str | None] = None  # whoever opens the catalog says where tables lie
    roots: ClassVar[None] = None

    def access(self) -> Access:
        """Principals, tokens and grants, for whoever has the database."""
        return Access(self.database, self.tenant, self.user, self.kept, self.caller)

    def load(self, name: Name) -> TableMetadata:
        """Return the definition of a name."""
        with self.database.reading() as connection:
            found = self._active(connection, name)
            if found is None:
                raise self._unknown(connection, name)
        return found

    def find(self, name: Name) -> TableMetadata | None:
        """Return the definition of a name, or None."""
        with self.database.reading() as connection:
            return self._active(connection, name)

    def listed(
        self,
        namespace: str | None = None,
        type: str | None = None,
        page: int = PAGE,
        *,
        among: tuple[Collection[str] | None, Collection[str] | None] = (None, None),
        after: tuple[str, str] = ("", ""),
    ) -> Iterator[TableMetadata]:
        """Yield the definitions in the order of their names, page by page, after the key `after`.

        A key is `Name.folded`. `among` has some namespaces, and some names, in any case; None: all.
        """
        while True:
            asked = self._page(ROW, namespace, after, page)
            if type is not None:
                asked = asked.where(DEFINITIONS.c.type == type)
            for column, wanted in zip(_KEY, among, strict=True):
                if wanted is not None:
                    asked = asked.where(column.in_({one.casefold() for one in wanted}))
            with self.database.reading() as connection:
                rows, is_all = first_rows(connection, asked, page)
            found = [metadata_of(row) for row in rows]
            yield from found
            if is_all:
                return
            after = found[-1].full_name.folded

    def _page(
        self, columns: Sequence[Any], namespace: str | None, after: tuple[str, str], most: int
    ) -> sa.Select[Any]:
        """Select a page of definitions in the order of the index of names, which sorts none."""
        asked = sa.select(*columns).where(DEFINITIONS.c.tenant == self.tenant, IS_ACTIVE)
        if namespace is None:
            return asked.where(sa.tuple_(*_KEY) > sa.tuple_(*after)).order_by(*_KEY).limit(most)
        own, name = _KEY
        last = after[1] if after[0] == namespace.casefold() else ""
        asked = asked.where(own == namespace.casefold(), own >= after[0], name > last)
        return asked.order_by(name).limit(most)

    def names(self, namespace: str | None, after: tuple[str, str], most: int) -> list[Name]:
        """Return names of definitions, in order, after a key that `Name.folded` is."""
        asked = self._page((DEFINITIONS.c.namespace, DEFINITIONS.c.name), namespace, after, most)
        with self.database.reading() as connection:
            return [Name(row.namespace, row.name) for row in connection.execute(asked)]

    def put(
        self,
        name: Name,
        spec: TableSpec,
        action: Action = "new",
        version: int | None = None,
        *,
        location: Callable[[str], str | None] = lambda _: None,
        is_managed: bool = True,
    ) -> int:
        """Write a whole definition; return its version, or 0 if one was left as it is.

        `new`: it must not exist; `ifNew`: one that exists stays; `replace`: it must exist, at
        `version` if that is given; `force`: either. `location` makes the table's place of a new
        definition's id; `is_managed` says that the catalog chose it.
        """
        check_action(action)
        text = spec.to_json()

        def work(edit: Edit) -> int:
            present = self._active(edit.connection, name)
            if present is None:
                if action == "replace" or version is not None:
                    self._judge_absent(edit.connection, name)
                    raise self._unknown(edit.connection, name)
                return self._insert(edit, name, spec, text, location, is_managed)
            self._judged(present)
            if action == "ifNew":
                return 0
            if action == "new":
                raise InvalidInputError(
                    "PROJSEG_TABLE_EXISTS",
                    f"'{present.full_name}' is defined already, at version {present.version}; "
                    "edit it, replace it, or choose another name",
                )
            check_version(present, version)
            if spec.type != present.type:
                raise InvalidInputError(
                    "PROJSEG_TABLE_EXISTS",
                    f"'{present.full_name}' is of type {present.type}, and the spec of type "
                    f"{spec.type}; drop it first",
                )
            return self._rewrite(edit, present, text, "replace")

        return self.edit(work)

    def change(
        self,
        name: Name,
        change: SpecEdit,
        version: int | None = None,
    ) -> int:
        """Apply an edit to the newest spec of a definition, in one transaction.

        An edit that changes nothing keeps the version. Returns the version after it.
        """
        if version is not None:  # before the lock, for which others wait
            with self.database.reading() as connection:
                check_version(self._require(connection, name), version)

        def work(edit: Edit) -> int:
            present = self._require(edit.connection, name)
            check_version(present, version)
            return self._rewrite(edit, present, change.apply(present.spec).to_json(), change.kind)

        return self.edit(work)

    def rename(self, old: Name, new: Name) -> int:
        """Give a definition another name; its location stays. Returns the version."""

        def work(edit: Edit) -> int:
            present = self._require(edit.connection, old)
            if present.full_name == new:
                return present.version
            other = self._active(edit.connection, new)
            if other is not None and other.id != present.id:
                self._judged(other, stays=False)
                raise InvalidInputError(
                    "PROJSEG_TABLE_EXISTS", f"'{other.full_name}' is defined already"
                )
            name = self._new_name(edit, new, present.type)
            version = edit.note("rename", name, present.id, None)
            self._set(edit, present.id, version, **name_values(name))
            return version

        return self.edit(work)

    def record(self, definition: str, **facts: Any) -> None:
        """Write what was seen of a definition's table; its version stays."""
        values = {
            key: _text_of(value) if isinstance(value, Mapping | TableStatus) else value
            for key, value in facts.items()
        }

        def work(edit: Edit) -> None:
            edit.connection.execute(
                DEFINITIONS.update()
                .where(DEFINITIONS.c.tenant == self.tenant, DEFINITIONS.c.id == definition)
                .values(**values)
            )

        self.edit(work)

    def _insert(
        self,
        edit: Edit,
        name: Name,
        spec: TableSpec,
        text: str,
        location: Callable[[str], str | None],
        is_managed: bool,
    ) -> int:
        definition, own = uuid.uuid4().hex, self._new_name(edit, name, spec.type)
        version = edit.note("create", own, definition, text)
        place, state = location(definition), {"state": ACTIVE, "version": version}
        self._add(edit, own, spec, id=definition, location=place, managed=int(is_managed), **state)
        return version


def _text_of(value: Mapping[str, Any] | TableStatus) -> str:
    return msgspec.json.encode(value).decode()

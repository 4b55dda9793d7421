"""`Trash`: dropped definitions, which come back or go with their files."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from projseg.catalog.definitions import DAY_US, Definitions, trash_end_us
from projseg.catalog.store.table_metadata import NameLike, TableMetadata, parse_name
from projseg.errors import InvalidInputError

CHANGE_DAYS: Final = 90
DATA: Final = ("keep", "trash", "now")
_TRASH: Final = pa.schema(
    {
        "id": pa.string(),
        "name": pa.string(),
        "due": pa.timestamp("us", "UTC"),
        "removes_files": pa.bool_(),
    }
)
_REMOVED: Final = pa.schema(dict.fromkeys(("id", "name", "location"), pa.string()))


class Trash:
    """What was dropped of a tenant's definitions, and how it goes."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions, self._store = definitions, definitions.store

    def drop(self, name: NameLike, if_exists: bool, data: str, version: int | None) -> bool:
        """Drop a definition; return whether there was one."""
        if data not in DATA:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"data is {data!r}; it is one of {', '.join(DATA)}"
            )
        parsed = parse_name(name)
        if if_exists and self._store.find(parsed) is None:
            return False
        due_us = due_of(data)
        gone = self._store.remove(parsed, due_us, removes_files=data != "keep", version=version)
        self._definitions.flush()
        if data == "now":
            self._remove(gone, removes_files=gone.managed)
        return True

    def table(self) -> pa.Table:
        """Return the dropped definitions."""
        rows = (
            {"id": one.id, "name": str(one.full_name), "due": due, "removes_files": removes}
            for one, due, removes in self._store.trash()
        )
        return pa.Table.from_pylist(list(rows), _TRASH)

    def empty(self, dry_run: bool) -> pa.Table:
        """Remove what is due, and what was staged and never finished; return it."""
        now = self._store.now_us()
        due = list(self._store.trash(now))
        abandoned = self._store.staged(now - DAY_US)
        if not dry_run:
            for found in abandoned:
                self._definitions.abandon(found)
            due = [one for one in due if self._remove(one[0], removes_files=one[2])]
            self._store.prune_changes(now - CHANGE_DAYS * DAY_US)
        due += [(found, now, True) for found in abandoned]
        rows = (
            {
                "id": one.id,
                "name": str(one.full_name),
                "location": one.location if removes else None,
            }
            for one, _, removes in due
        )
        return pa.Table.from_pylist(list(rows), _REMOVED)

    def _remove(self, found: TableMetadata, *, removes_files: bool) -> bool:
        """Remove a dropped definition if it is due; a kill in between leaves a row for `empty`."""
        if not self._store.begin_removal(found.id):
            return False
        if removes_files:
            self._definitions.places.remove_own(found)
        self._store.forget(found.id)
        return True


def due_of(data: str) -> int:
    """Return when what is dropped now may go, by what becomes of its data."""
    return 0 if data == "now" else trash_end_us()

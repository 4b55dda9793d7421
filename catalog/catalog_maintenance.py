"""`Upkeep`: what keeps a catalog well: the trash, backups, and checks."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import pyarrow as pa
from msgspec import UNSET

from projseg.catalog.staged_definitions import DAY_US, TRASH_DAYS, abandon
from projseg.catalog.store.table_metadata import NameLike, TableMetadata, parse_name
from projseg.catalog.table_verbs import TableVerbs
from projseg.errors import InvalidInputError, ProjsegError
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata.change import Replace
from projseg.table_layer.metadata.known_properties import declare_scope
from projseg.table_layer.storage.paths import new_write_id

CHANGE_DAYS: Final = 90
DATA: Final = ("keep", "trash", "now")
_TIME: Final = pa.timestamp("us", "UTC")
_TRASH: Final = pa.schema(
    {"id": pa.string(), "name": pa.string(), "due": _TIME, "removes_files": pa.bool_()}
)
_EXPIRED: Final = pa.schema({"file": pa.string(), "max_time": _TIME, "rows": pa.int64()})
_REMOVED: Final = pa.schema(dict.fromkeys(("id", "name", "location"), pa.string()))
_PROBLEMS: Final = pa.schema(dict.fromkeys(("name", "code", "problem"), pa.string()))


class Upkeep(TableVerbs):
    """A catalog's trash, backups and checks."""

    def drop(
        self,
        name: NameLike,
        if_exists: bool = False,
        data: str = "keep",
        version: int | None = None,
    ) -> bool:
        """Drop a definition; for seven days `undrop` brings it back.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        if_exists : bool
            Whether one that is not there is no error.
        data : str
            `keep`: the table's files stay; `trash`: those of a managed table go with the
            definition, once it is due; `now`: at once. A registered table's files always stay.
        version : int or None
            The version that it must have.

        Returns
        -------
        bool
            Whether there was one.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE, PROJSEG_BAD_ARGUMENT.
        CatalogConflictError, CatalogError
            As of `create`.
        """
        if data not in DATA:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"data is {data!r}; it is one of {', '.join(DATA)}"
            )
        parsed = parse_name(name)
        if if_exists and self.store.find(parsed) is None:
            return False
        due_us = time.time_ns() // 1000 + (0 if data == "now" else TRASH_DAYS * DAY_US)
        gone = self.store.remove(parsed, due_us, removes_files=data != "keep", version=version)
        self.flush()
        if data == "now":
            self._remove(gone, removes_files=gone.managed)
        return True

    def undrop(self, name: NameLike, definition: str | None = None) -> int:
        """Bring the newest dropped definition of a name back, or one by its id.

        Parameters
        ----------
        name : str or pair of str
            The name that it had.
        definition : str or None
            Its id, as `trash` says.

        Returns
        -------
        int
            Its version.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_TABLE, PROJSEG_TABLE_EXISTS.
        CatalogError
            As of `create`.
        """
        try:
            return self.store.bring_back(parse_name(name), definition)
        finally:
            self.flush()

    def trash(self) -> pa.Table:
        """Return the dropped definitions.

        Returns
        -------
        pa.Table
            id, name, due, removes_files.

        Raises
        ------
        CatalogError
            As of `create`.
        """
        rows = (
            {"id": one.id, "name": str(one.full_name), "due": due, "removes_files": removes}
            for one, due, removes in self.store.trash()
        )
        return pa.Table.from_pylist(list(rows), _TRASH)

    def drop_namespace(self, name: str, cascade: bool = False) -> int:
        """Drop a namespace, and with `cascade` its definitions; data stays.

        Parameters
        ----------
        name : str
            Which.
        cascade : bool
            Whether its definitions go to the trash; else it must be empty.

        Returns
        -------
        int
            The tenant's version.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_NAMESPACE, PROJSEG_NAMESPACE_NOT_EMPTY.
        CatalogError
            As of `create`.
        """
        due_us = time.time_ns() // 1000 + TRASH_DAYS * DAY_US
        try:
            return self.store.remove_namespace(name, due_us, cascade=cascade)
        finally:
            self.flush()

    def expire(self, name: NameLike, dry_run: bool = True) -> pa.Table:
        """Remove the segments whose rows are all older than the definition's `retention`.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        dry_run : bool
            Only list them.

        Returns
        -------
        pa.Table
            file, max_time, rows of the segments that go, or went.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_SPEC if the definition has no retention; as of `table`.
        CatalogError, CommitError, StorageError
            As of `append`.
        """
        table = self.table(name)
        retention = table.definition.spec.layout.retention
        if retention is UNSET:
            raise InvalidInputError(
                "PROJSEG_BAD_SPEC",
                f"$.properties.retention: '{table.definition.full_name}' has none, so nothing of "
                "it expires; merge one, such as '400 days'",
            )
        scope, now = declare_scope(retain=retention), time.time_ns() // 1000
        entries = [] if table.is_unwritten else list(table.snapshot.segments)
        old = [
            entry
            for entry in entries
            if scope.reason_against(entry.min_time_us, entry.max_time_us, now) is not None
        ]
        if old and not dry_run:
            commit(
                table.snapshot.storage,
                table.snapshot,
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

    def gc(self, dry_run: bool = True) -> pa.Table:
        """Remove dropped definitions that are due, and those that were never finished, with files.

        Nothing is found by listing folders: only locations that a row names and that the catalog
        can compute again are emptied, and only of files with projseg's names.

        Parameters
        ----------
        dry_run : bool
            Only list them.

        Returns
        -------
        pa.Table
            id, name, location (null if files stay).

        Raises
        ------
        CatalogError, StorageError
            As of `create`; a repetition goes on.
        """
        now = time.time_ns() // 1000
        due = list(self.store.trash(now))
        abandoned = self.store.staged(now - DAY_US)
        if not dry_run:
            for found in abandoned:
                abandon(self, found)
            for found, _, removes_files in due:
                self._remove(found, removes_files=removes_files)
            self.store.prune_changes(now - CHANGE_DAYS * DAY_US)
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

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy a catalog that is a file, as of one moment.

        Parameters
        ----------
        path : str or path
            A new file.

        Raises
        ------
        InvalidInputError, UnsupportedFeatureError
            PROJSEG_BAD_ARGUMENT if something stands there; PROJSEG_UNSUPPORTED_STORAGE for
            PostgreSQL, which has `pg_dump`.
        """
        self.store.database.copy_to(Path(path))

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Put a backup in place of everything; edits since then are lost, rows never.

        Parameters
        ----------
        path : str or path
            Of `backup`.

        Raises
        ------
        CatalogUnavailableError, UnsupportedFeatureError
            If it is no catalog; PROJSEG_UNSUPPORTED_STORAGE for PostgreSQL.
        """
        self.store.database.restore_from(Path(path))
        self.flush()

    def migrate(self) -> bool:
        """Bring an older catalog to this release's schema; a file is copied beside itself first.

        Returns
        -------
        bool
            Whether there was anything to do.

        Raises
        ------
        CatalogError
            As of `create`.
        """
        return self.store.database.migrate()

    def check(self) -> pa.Table:
        """Return the disagreements between definitions and their tables.

        Returns
        -------
        pa.Table
            name, code, problem.

        Raises
        ------
        CatalogError
            As of `create`.
        """
        problems = []
        for found in self.store.listed(type="table"):
            try:
                table = self.table(found.full_name)
                if not table.is_unwritten:
                    table.query(limit=0)
                    self.apply(found.full_name)
            except ProjsegError as error:
                row = {"code": error.code, "problem": error.message}
                problems.append({"name": str(found.full_name), **row})
        return pa.Table.from_pylist(problems, _PROBLEMS)

    def _remove(self, found: TableMetadata, *, removes_files: bool) -> None:
        """Remove a dropped definition for good; a kill in between leaves a row for `gc`."""
        if not self.store.begin_removal(found.id):
            return
        if removes_files:
            self.places.remove_own(found)
        self.store.forget(found.id)

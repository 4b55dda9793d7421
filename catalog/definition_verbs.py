"""`DefinitionVerbs`: the columns, lists and changes of definitions; the status of their tables.

Commits by name count what became of the projections once a minute and keep it beside the
definition, so that a list of 10,000 tables opens none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec
import pyarrow as pa

from projseg.catalog.spec.spec_edits import SpecEdit, drop_of, hide_of, move_of
from projseg.catalog.spec.spec_rules import DESCRIPTION_BYTES_MAX
from projseg.catalog.store.table_metadata import (
    NameLike,
    ProjectionStatus,
    TableMetadata,
    parse_name,
)
from projseg.catalog.table_verbs import TableVerbs
from projseg.errors import InvalidInputError, ProjsegError

_CHANGES: Final = pa.schema(
    [
        ("version", pa.int64()),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("by", pa.string()),
        ("spec", pa.string()),
    ]
)

_STATUS: Final = pa.schema(
    [
        ("name", pa.string()),
        ("projection", pa.string()),
        ("table_version", pa.int64()),
        ("status", pa.string()),
        ("segments", pa.int64()),
        ("missing", pa.int64()),
        ("failed", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


class DefinitionVerbs(TableVerbs):
    """A catalog's definitions: their columns, names and changes."""

    def move_column(
        self, name: NameLike, column: str, where: str, anchor: str | None = None
    ) -> int:
        """Move a declared column.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        column : str
            Which.
        where : str
            `first`, `last`, `before`, `after`.
        anchor : str or None
            The column that it goes before or after.

        Returns
        -------
        int
            The definition's version.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_COLUMN, also if somebody dropped it meanwhile; PROJSEG_BAD_ARGUMENT.
        CatalogError
            As of `create`.
        """
        return self._change(name, move_of(column, where, anchor))

    def drop_columns(self, name: NameLike, columns: Iterable[str]) -> int:
        """Declare columns no longer; what is stored stays, in its stored type at the end.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        columns : iterable of str
            Which, in any case.

        Returns
        -------
        int
            The definition's version.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_COLUMN; PROJSEG_COLUMN_IN_USE if the layout names one.
        CatalogError
            As of `create`.
        """
        return self._change(name, drop_of(columns))

    def hide_columns(self, name: NameLike, columns: Iterable[str]) -> int:
        """Take columns out of sight by name; by path everything stays visible.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        columns : iterable of str
            Which, in any case.

        Returns
        -------
        int
            The definition's version.

        Raises
        ------
        InvalidInputError, CatalogError
            PROJSEG_BAD_SPEC for the time column; as of `create`.
        """
        return self._change(name, hide_of(hide=columns))

    def unhide_columns(self, name: NameLike, columns: Iterable[str]) -> int:
        """Bring hidden columns back.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        columns : iterable of str
            Which, in any case.

        Returns
        -------
        int
            The definition's version.

        Raises
        ------
        InvalidInputError, CatalogError
            As of `create`.
        """
        return self._change(name, hide_of(unhide=columns))

    def namespaces(self) -> list[str]:
        """Return the names of the namespaces; `default` is always one.

        Returns
        -------
        list of str
            In order, without regard to case.

        Raises
        ------
        CatalogError
            As of `create`.
        """
        return [found["name"] for found in self.store.namespaces()]

    def create_namespace(
        self,
        name: str,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> int:
        """Make a namespace.

        Parameters
        ----------
        name : str
            The new name.
        comment : str or None
            For people.
        properties : mapping of str to str, or None
            The user's own.

        Returns
        -------
        int
            The tenant's version.

        Raises
        ------
        InvalidInputError
            PROJSEG_NAMESPACE_EXISTS, PROJSEG_BAD_NAME, PROJSEG_BAD_ARGUMENT.
        CatalogError
            As of `create`.
        """
        checked_name = parse_name((name, "any")).namespace
        if not isinstance(comment, str | None) or "\0" in (comment or ""):
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", "a comment is a text without the character U+0000"
            )
        texts = {} if properties is None else properties
        is_map = isinstance(texts, Mapping)
        if not is_map or not all(isinstance(one, str) for pair in texts.items() for one in pair):
            raise InvalidInputError("PROJSEG_BAD_ARGUMENT", "properties are texts by name")
        size = len(msgspec.json.encode((comment, texts)))
        if size > DESCRIPTION_BYTES_MAX:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"comment and properties have {size} bytes; at most {DESCRIPTION_BYTES_MAX} are",
            )
        return self._edited(lambda: self.store.put_namespace(checked_name, comment, properties))

    def history(self, name: NameLike) -> pa.Table:
        """Return the changes of a definition that are kept, oldest first.

        Parameters
        ----------
        name : str or pair of str
            The definition.

        Returns
        -------
        pa.Table
            version, name (then), kind, at, by, spec (JSON text; null where it did not change).

        Raises
        ------
        InvalidInputError, CatalogError
            As of `spec`.
        """
        found = self.metadata(name)
        return _changes_table(self.store.history(found))

    def changes(self, since: int = 0) -> pa.Table:
        """Return all changes of the tenant's definitions after a version, in order.

        Parameters
        ----------
        since : int
            The newest version that is known.

        Returns
        -------
        pa.Table
            As of `history`.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_VERSION if not all of them are kept: list the definitions anew.
        CatalogError
            As of `create`.
        """
        return _changes_table(self.store.changes(since))

    def tables(
        self, namespace: str | None = None, like: str | None = None, type: str | None = None
    ) -> Iterator[TableMetadata]:
        """Yield the definitions in the order of their names.

        Parameters
        ----------
        namespace : str or None
            Only of this one.
        like : str or None
            Only names that match this pattern of `*` and `?`, in any case.
        type : str or None
            Only of this type.

        Returns
        -------
        iterator of TableMetadata
            Read page by page.

        Raises
        ------
        CatalogError
            As of `create`.
        """
        pattern = None if like is None else like.casefold()
        for found in self.store.listed(namespace, type):
            if pattern is None or fnmatchcase(found.name.casefold(), pattern):
                yield found

    def _change(self, name: NameLike, change: SpecEdit, version: int | None = None) -> int:
        parsed = parse_name(name)
        return self._edited(lambda: self.store.change(parsed, change, version))

    def _edited(self, edit: Callable[[], int]) -> int:
        try:
            return edit()
        finally:
            self.flush()


def _changes_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "at": row["at_us"]} for row in rows], _CHANGES)


class StatusVerbs(TableVerbs):
    """The status of a catalog's tables."""

    def status(self, name: NameLike | None = None, refresh: bool = False) -> pa.Table:
        """Return what became of the projections of tables.

        Parameters
        ----------
        name : str, pair of str, or None
            The definition; None: all tables.
        refresh : bool
            Open the tables and count anew; else as commits by name last kept it, once a minute.

        Returns
        -------
        pa.Table
            A row for each table, whose projection is null, and one for each projection: name,
            projection, table_version, status, segments (that hold it), missing, failed, rows,
            bytes, at. The status of a projection is ENABLED (in all segments), PARTIAL, DISABLED
            (in none) or FAILED; of a table ENABLED, FAILED if it could not be opened, and null if
            it was never written or counted.

        Raises
        ------
        InvalidInputError, CatalogError
            As of `spec`.
        """
        found: Iterable[TableMetadata]
        found = self.store.listed(type="table") if name is None else [self.metadata(name)]
        rows = (row for one in found if one.type == "table" for row in self._rows_of(one, refresh))
        return pa.Table.from_pylist(list(rows), _STATUS)

    def _rows_of(self, definition: TableMetadata, refresh: bool) -> Iterator[dict[str, Any]]:
        name, failed = str(definition.full_name), False
        if refresh:
            try:
                definition = self._counted(definition, "now")
            except ProjsegError:
                failed = True  # what was counted last is all that is known
        found = definition.stored_status
        if found is None:
            yield {"name": name, "status": "FAILED" if failed else None}
            return
        common = {"name": name, "table_version": found.table_version, "at": found.at_us}
        yield {
            **common,
            "status": "FAILED" if failed else "ENABLED",
            "segments": found.segments,
            "missing": 0,
            "failed": 0,
            "rows": found.rows,
            "bytes": found.bytes,
        }
        for one in found.projections:
            counts = {key: getattr(one, key) for key in ProjectionStatus.__struct_fields__[1:]}
            yield {**common, "projection": one.name, **counts}

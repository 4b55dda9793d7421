"""`Places`: the tables of folders and catalogs by their names, each at its newest version."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import projseg
from projseg.algebra.expressions.sql_parameters import ArgumentsLike
from projseg.catalog.store.table_metadata import RESERVED_NAMESPACE
from projseg.errors import InvalidInputError, did_you_mean
from projseg.table import Table, is_table
from projseg.table.sql import sql
from projseg.table.sql_statements import tables_in, unknown_table
from projseg.table.table_version import TableVersion, reader_of, table_at
from projseg.table_layer.commits.open_version import open_as_of
from projseg.table_layer.storage.paths import METADATA_PREFIX
from projseg.table_layer.storage.store_location import StorageOptionsLike

if TYPE_CHECKING:
    from projseg.catalog.catalog import Catalog
    from projseg.explain import Explain

_CATALOG: Final = re.compile(r"(?:https?|sqlite|postgresql)(?:\+\w+)?://", re.IGNORECASE)
_ASSIGNED: Final = re.compile(r"(?P<name>\w+)=(?P<place>.+)")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_DEFAULT: Final = "default."
_OPENED_AT_ONCE: Final = 16
_FOLDERS_MAX: Final = 10_000  # that are looked through, of one folder


class Places:
    """Tables, folders of tables and catalogs that a user names, as one set of tables by name.

    A table has the name of its folder, or is NAME=PLACE; a folder's tables are `name`, and
    `inner.name` in a folder within; a catalog's have their names there. Threads may share it:
    folders and catalogs are looked through anew for each list of names. Raises the errors of
    `Table` and `Catalog`, and PROJSEG_BAD_ARGUMENT if two tables have one name.
    """

    def __init__(
        self,
        places: Sequence[str | os.PathLike[str] | Catalog],
        storage_options: StorageOptionsLike | None = None,
    ) -> None:
        self._options = storage_options
        self._locations: dict[str, str] = {}
        self._folders: list[Path] = []
        self._catalogs: list[Catalog] = []
        self._tables: dict[str, Table] = {}
        self._lock = Lock()
        for place in places:
            self._add(place)
        with ThreadPoolExecutor(_OPENED_AT_ONCE) as threads:  # a store may take long for each
            opened = threads.map(self._open, self._locations.values())
            self._tables.update(zip(self._locations, opened, strict=True))

    def _add(self, place: str | os.PathLike[str] | Catalog) -> None:
        if not isinstance(place, str | os.PathLike):
            self._catalogs.append(place)
            return
        location = os.fspath(place)
        given = _ASSIGNED.fullmatch(location)
        path = Path(location)
        if given and not path.exists():
            self._name(given["name"], given["place"])
        elif _CATALOG.match(location) or path.is_file():
            self._catalogs.append(projseg.Catalog(location, storage_options=self._options))
        elif path.is_dir() and not is_table(location) and any(_tables_in(path)):
            self._folders.append(path)
        else:
            self._name(location.rstrip("/").rpartition("/")[2], location)

    def _name(self, name: str, location: str) -> None:
        if name in self._locations:
            if os.path.realpath(self._locations[name]) == os.path.realpath(location):
                return
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"{self._locations[name]} and {location} are both named '{name}'; give one as "
                "NAME=PLACE",
            )
        self._locations[name] = location

    def _open(self, location: str) -> Table:
        return Table(location, storage_options=self._options)

    def names(self) -> list[str]:
        """Return the names of all tables that are there now, in order."""
        return sorted(self._homes())

    def version(self, name: str, version: str | None = None) -> TableVersion:
        """Return a table at a version, a number or a tag or the newest, to be read.

        Raises PROJSEG_UNKNOWN_VERSION, PROJSEG_UNKNOWN_TAG and the errors of `table`.
        """
        table = self.table(name)
        if not version:
            return table
        number = int(version) if _NUMBER.fullmatch(version) else None
        reader = reader_of(table)
        tag = version if number is None else None
        return table_at(reader.at(open_as_of(reader.storage, number, tag=tag)))

    def table(self, name: str) -> Table:
        """Return a table at its newest version, as an object that does not move by itself.

        Raises PROJSEG_UNKNOWN_TABLE, and the errors of `Table` and `Catalog.table`.
        """
        with self._lock:
            kept = self._tables.get(name)
        if kept is not None:
            return kept.newest()
        homes = self._homes()
        if name not in homes:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_TABLE",
                f"there is no table '{name}'{did_you_mean(name, homes)}",
            )
        home = homes[name]
        if not isinstance(home, str):
            return home.table(name)
        table = self._open(home)
        with self._lock:
            self._tables[name] = table
        return table

    def _homes(self) -> dict[str, str | Catalog]:
        """Return where each name is; the first place that has one wins."""
        found: dict[str, str | Catalog] = dict(self._locations)
        for folder in self._folders:
            for name, location in _tables_in(folder):
                found.setdefault(name, location)
        for catalog in self._catalogs:
            for one in catalog.tables(type="table"):
                namespace, name = one.full_name
                found.setdefault(f"{namespace}.{name}".removeprefix(_DEFAULT), catalog)
        return found

    def sql(
        self,
        text: str,
        *,
        context: Mapping[str, Any] | None = None,
        args: ArgumentsLike | None = None,
    ) -> pa.Table:
        """Return the rows of a statement over the tables that it names, as `projseg.sql` does.

        If there is one table, every name after FROM is its; a catalog's `information_schema` is a
        table, too.
        """
        if self._catalogs and f"{RESERVED_NAMESPACE}." in text.casefold():
            found: pa.Table | Explain = self._catalogs[0].sql(text, context=context, args=args)
            return found
        names = self.names()
        if len(names) == 1:
            table = self.table(names[0])
            return table.sql(text, context=context, args=args, tables={names[0]: table})
        named = {".".join(parts).casefold() for parts in tables_in(text, args)}
        for one in sorted(named - {name.casefold() for name in names}):
            raise unknown_table(one, names)
        tables = {name: self.table(name) for name in names if name.casefold() in named}
        return sql(text, tables, context=context, args=args)


def _tables_in(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield name and location of the tables in a folder, and in the folders within.

    A damaged table is among them: who opens it sees why.
    """
    whole = folder.resolve()
    for inner in _folders_in(folder):
        if whole.is_relative_to(inner.resolve()):  # a link to the folder, or to what it is in
            continue
        if (inner / METADATA_PREFIX).is_dir():
            yield inner.name, str(inner)
            continue
        for place in _folders_in(inner):
            if not whole.is_relative_to(place.resolve()) and (place / METADATA_PREFIX).is_dir():
                yield f"{inner.name}.{place.name}", str(place)


def _folders_in(folder: Path) -> Iterator[Path]:
    if folder.is_dir() and os.access(folder, os.R_OK | os.X_OK):
        found = sorted(one for one in folder.iterdir() if one.is_dir())
        yield from islice(found, _FOLDERS_MAX)

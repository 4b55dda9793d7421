"""A warehouse: tables as folders, `<warehouse>/<namespace>/<table>`, and the requests for them.

Names are looked up without regard to case, and two that differ in nothing else cannot stand side
by side. A folder whose name begins with a dot is none: a table lies there while it is made or
removed, so that what stands under a name is always a whole table.

Each operation takes the content of a request, with `warehouse` and mostly `namespace` and `table`,
and replies with `result`; `ProjsegCatalog.scala` asks. `layout` is for writes to any table, and
`RebalanceWrites.scala` asks.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from projseg.algebra.time.zoned_buckets import Granularity
from projseg.catalog.store.table_metadata import DEFAULT_NAMESPACE, check_name
from projseg.errors import InvalidInputError, UnsupportedFeatureError
from projseg.segment_format.logical_types import type_name
from projseg.spark_engine.replies import Reply
from projseg.spark_engine.statement_requests import apply_column_changes, options_of
from projseg.table import Table
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.commits.open_version import version_at
from projseg.table_layer.metadata.change import SetProperties
from projseg.table_layer.metadata.known_properties import check_set, check_spelling
from projseg.table_layer.metadata.text_bounds import check_all_sizes
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.paths import METADATA_PREFIX, new_write_id

Request: TypeAlias = Mapping[str, Any]


class Warehouse:
    """The tables below one folder, a directory or `file:` URI, which need not exist."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        storage = open_storage(folder)
        if storage.is_remote:
            raise UnsupportedFeatureError(
                "PROJSEG_UNSUPPORTED_STORAGE",
                f"a warehouse is a folder, because stores cannot rename one; {storage.location} is "
                "none: name each table in the store by its location",
            )
        self._folder = Path(storage.location)

    def namespaces(self) -> list[str]:
        """Return the names of the namespaces; `default` is always one."""
        return sorted({DEFAULT_NAMESPACE, *_names(self._folder)})

    def namespace(self, name: str) -> Path:
        """Return the folder of a namespace."""
        found = _child(self._folder, name)
        if found is None and name.casefold() == DEFAULT_NAMESPACE:
            return self._folder / DEFAULT_NAMESPACE
        if found is None:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_NAMESPACE",
                f"warehouse {self._folder} has no namespace '{name}'; create it first",
            )
        return found

    def create_namespace(self, name: str) -> None:
        """Make a namespace."""
        if (found := _child(self._folder, name)) is not None:
            raise InvalidInputError(
                "PROJSEG_NAMESPACE_EXISTS",
                f"warehouse {self._folder} has namespace '{found.name}' already; use it",
            )
        (self._folder / name).mkdir(parents=True)

    def drop_namespace(self, name: str, *, cascade: bool) -> None:
        """Remove a namespace, and with `cascade` its tables."""
        folder = self.namespace(name)
        if not folder.exists():
            return
        if not cascade and (tables := self.tables(name)):
            raise InvalidInputError(
                "PROJSEG_NAMESPACE_NOT_EMPTY",
                f"namespace '{name}' holds {len(tables)} tables, such as '{tables[0]}'; drop them "
                "first, or drop it with CASCADE",
            )
        _remove(folder)

    def tables(self, namespace: str) -> list[str]:
        """Return the names of a namespace's tables."""
        folder = self.namespace(namespace)
        return sorted(name for name in _names(folder) if _is_table(folder / name))

    def table(self, namespace: str, name: str) -> Path:
        """Return the folder of a table."""
        folder = self.namespace(namespace)
        found = _child(folder, name)
        if found is None or not _is_table(found):
            raise InvalidInputError("PROJSEG_NOT_A_TABLE", f"{folder / name} holds no table")
        return found

    def staged(self, namespace: str) -> Path:
        """Return a new place beside a namespace's tables, where one can be made out of sight."""
        return _aside(self.namespace(namespace), "staged")

    def publish(self, staged: str, namespace: str, name: str) -> None:
        """Give a table that was made out of sight its name."""
        self._move(Path(staged), self.namespace(namespace), name)

    def rename(self, namespace: str, name: str, new_namespace: str, new_name: str) -> None:
        """Give a table another name."""
        self._move(self.table(namespace, name), self.namespace(new_namespace), new_name)

    def drop(self, namespace: str, name: str) -> None:
        """Remove a table and its files."""
        _remove(self.table(namespace, name))

    def _move(self, table: Path, folder: Path, name: str) -> None:
        found = _child(folder, name)
        if found is not None and found != table:
            raise InvalidInputError(
                "PROJSEG_TABLE_EXISTS", f"{found} is there already; choose another name"
            )
        folder.mkdir(parents=True, exist_ok=True)
        table.rename(folder / name)


def described(table: Table) -> dict[str, Any]:
    """Return a catalog's description of a table: location, version, columns and declarations."""
    return {
        "location": table.location,
        "version": table.version,
        "columns": {field.name: type_name(field.type) for field in table.schema},
        "options": options_of(table.properties),
        "properties": table.properties.properties,
    }


def set_properties(table: Table, changes: Mapping[str, str | None]) -> None:
    """Set free properties of a table, and remove those whose text is None."""
    base = table.snapshot
    check_spelling(changes, ())
    change = SetProperties(
        properties={name: text for name, text in changes.items() if text is not None},
        drop_properties=tuple(name for name, text in changes.items() if text is None),
    )
    commit(base.storage, base, change, write_id=new_write_id(), operation="set properties")


def _is_table(folder: Path) -> bool:
    """Whether a table lies in a folder, be it damaged."""
    return (folder / METADATA_PREFIX).is_dir()


def _names(folder: Path) -> list[str]:
    """Return the names of folders within one that need not exist."""
    found = folder.iterdir() if folder.exists() else ()
    return [path.name for path in found if path.is_dir() and not path.name.startswith(".")]


def _child(folder: Path, name: str) -> Path | None:
    """Return the folder of a name, in whatever case it is written, or None."""
    check_name(name)
    if (folder / name).is_dir():
        return folder / name
    folded = name.casefold()
    return next((folder / other for other in _names(folder) if other.casefold() == folded), None)


def _aside(folder: Path, why: str) -> Path:
    return folder / f".{why}-{uuid.uuid4().hex}"


def _remove(folder: Path) -> None:
    """Remove a folder at once, for all who look, and then its files."""
    removed = _aside(folder.parent, "dropped")
    folder.rename(removed)
    shutil.rmtree(removed)


def _described(warehouse: Warehouse, request: Request) -> dict[str, Any]:
    """Describe a table, at its newest version, at `version` or at `timestamp_us`."""
    location = warehouse.table(request["namespace"], request["table"])
    version = request.get("version")
    if (instant := request.get("timestamp_us")) is not None:
        version = version_at(open_storage(location), instant).version
    return described(Table(location, version))


def _change_columns(_: Warehouse, request: Request) -> None:
    """Change columns, once the properties that are to be set next of them are known to be fit."""
    table = Table(request["location"])
    changes = request.get("declared", {})
    check_set({name: text for name, text in changes.items() if text is not None})
    check_all_sizes(table.location, table.properties.properties, _changed(table, changes))
    apply_column_changes(table, request["changes"])


def _changed(table: Table, changes: Mapping[str, str | None]) -> dict[str, str]:
    found = {**table.properties.properties, **changes}
    return {name: text for name, text in found.items() if text is not None}


def _layout(request: Request) -> Reply:
    """Tell a table's time column, and the chunks of time that its segments lie within.

    Of a table that is not made yet, they are those of the request.
    """
    try:
        options = request.get("storage_options")
        properties = Table(request["location"], storage_options=options).properties
        column, granularity = properties.time_column, properties.segment_granularity
    except InvalidInputError as error:
        if error.code != "PROJSEG_NOT_A_TABLE":
            raise
        column = request.get("time_column")
        granularity = request.get("segment_granularity", "all")
    cut = Granularity.parse(granularity)
    chunk = {"months": cut.months, "micros": cut.micros, "origin": cut.origin}
    return {"time_column": column, **chunk}, b""


def _operation(act: Callable[[Warehouse, Request], object]) -> Callable[[Request], Reply]:
    return lambda request: ({"result": act(Warehouse(request["warehouse"]), request)}, b"")


_ACTS: Final[dict[str, Callable[[Warehouse, Request], object]]] = {
    "namespaces": lambda w, _: w.namespaces(),
    "namespace": lambda w, r: str(w.namespace(r["namespace"])),
    "create_namespace": lambda w, r: w.create_namespace(r["namespace"]),
    "drop_namespace": lambda w, r: w.drop_namespace(r["namespace"], cascade=r["cascade"]),
    "tables": lambda w, r: w.tables(r["namespace"]),
    "describe_table": _described,
    "stage_table": lambda w, r: str(w.staged(r["namespace"])),
    "publish_table": lambda w, r: w.publish(r["staged"], r["namespace"], r["table"]),
    "rename_table": lambda w, r: w.rename(
        r["namespace"], r["table"], r["new_namespace"], r["new_table"]
    ),
    "drop_table": lambda w, r: w.drop(r["namespace"], r["table"]),
    "change_table": _change_columns,
    "set_properties": lambda _, r: set_properties(Table(r["location"]), r["properties"]),
}
TABLES: Final = {
    "layout": _layout,
    **{name: _operation(act) for name, act in _ACTS.items()},
}

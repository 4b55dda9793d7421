"""An Iceberg table as a source: one list of its current snapshot's files, read by `pyiceberg`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from projseg.errors import InvalidInputError, ProjsegError, UnsupportedFeatureError
from projseg.extras import require
from projseg.memory.cache import KEPT
from projseg.memory.forks import side_by_side
from projseg.table_layer.foreign.source_files import (
    ListedFile,
    SourceFolder,
    bad_source,
    is_in_store,
    source_changed,
)
from projseg.table_layer.storage.store_location import StorageOptions

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.snapshots import Snapshot as IcebergSnapshot

_CATALOG: Final = "name"
"""The option that names a catalog, as pyiceberg's configuration calls it."""
_READS_ONLY: Final = {"init_catalog_tables": "false"}
_SECRET_LENGTH_MIN: Final = 4
_ROW_BYTES: Final = 512  # of a listed file in memory, about
_STORES: Final = {"s3a": "s3", "s3n": "s3"}


_FILE_PATH: Final = 2147483546  # the id of the column of paths in files of deletes
NO_ID: Final = -1
"""The id of a name that none, or more than one, is given."""


class IcebergFields(NamedTuple):
    """The types and ids of a schema's columns that a table can have, and why it lacks others."""

    types: dict[str, pa.DataType]
    ids: dict[str, int]
    left_out: dict[str, str]


class _DataFile(NamedTuple):
    """What a manifest says of one live file."""

    path: str
    byte_count: int
    row_count: int
    format: str
    sequence: int
    is_encrypted: bool
    partition: tuple[tuple[str, str | None], ...]


class _Deletes(NamedTuple):
    """The deletes of a live file of deletes: to which data files they may apply.

    Those of positions name files, between two paths if these are stated.
    """

    is_of_positions: bool
    sequence: int
    first_path: bytes | None
    last_path: bytes | None

    def may_hide_rows_of(self, file: _DataFile) -> bool:
        """Whether the file is not younger than the deletes, and may be one that they name."""
        if not self.is_of_positions:
            return file.sequence < self.sequence
        path = file.path.encode()
        is_before = self.first_path is not None and path < self.first_path
        is_after = self.last_path is not None and path > self.last_path
        return file.sequence <= self.sequence and not is_before and not is_after


def load(location: str, options: StorageOptions) -> IcebergTable:
    """Return an Iceberg table at its newest state, by its name in a catalog.

    Raises InvalidInputError (PROJSEG_BAD_SOURCE) if there is none, or the catalog does not answer.
    """
    require("pyiceberg", "a source in Iceberg")
    # Imported here: tables over other sources do without it.
    from pyiceberg.catalog import load_catalog

    properties = {**_READS_ONLY, **options}
    try:
        catalog = load_catalog(properties.pop(_CATALOG, None), **properties)
        try:
            return catalog.load_table(location)
        finally:
            catalog.close()
    except Exception as error:  # each kind of catalog raises what its client does
        raise _unread(location, error, options) from error


def _unread(location: str, error: Exception, options: StorageOptions) -> InvalidInputError:
    problem = (str(error) or type(error).__name__).splitlines()[0]
    for value in options.values():
        if len(value) >= _SECRET_LENGTH_MIN:
            problem = problem.replace(value, "...")
    return bad_source(
        f"iceberg:{location} cannot be read as a table of a catalog: {problem}; its main branch is "
        "read, by the catalog's properties in source_options or in pyiceberg's own configuration"
    )


def fields_of(table: IcebergTable) -> IcebergFields:
    """Return the columns of a table's current schema."""
    from pyiceberg.types import PrimitiveType

    schema = table.schema()
    found = IcebergFields({}, {}, {})
    for field in schema.fields:
        if not isinstance(field.field_type, PrimitiveType):
            found.left_out[field.name] = "nested values of Iceberg are not read"
        elif field.initial_default is not None:
            found.left_out[field.name] = "it has a value for rows that were written before it"
        else:
            _take(found, field.name, field.field_id, field.field_type)
    return found


def _take(found: IcebergFields, name: str, number: int, iceberg_type: Any) -> None:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    try:
        arrow_type = schema_to_pyarrow(iceberg_type)
    except (TypeError, ValueError, NotImplementedError):
        arrow_type = pa.null()
    is_fine = pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns"
    if is_fine or arrow_type == pa.null():
        found.left_out[name] = f"values of {iceberg_type} have no type here"
    else:
        found.types[name], found.ids[name] = arrow_type, number


def mapping_of(table: IcebergTable) -> dict[str, int] | None:
    """Return the ids of columns by their names in files without ids; None if there are no such."""
    mapping = table.metadata.name_mapping()
    if mapping is None:
        return None
    found: dict[str, int] = {}
    for field in mapping:
        for name in field.names:
            if field.field_id is None or found.setdefault(name, field.field_id) != field.field_id:
                found[name] = NO_ID
    return found


def files_of(table: IcebergTable, location: str, options: StorageOptions) -> list[ListedFile]:
    """Return the files of a table's current snapshot, with values of identity partitions by id.

    Raises InvalidInputError (PROJSEG_BAD_SOURCE) if one is of another format, encrypted, or at no
    place that is read; UnsupportedFeatureError (PROJSEG_SOURCE_DELETES) if rows of one may be
    deleted; StorageError (PROJSEG_SOURCE_CHANGED) if a list is not whole.
    """
    snapshot = table.current_snapshot()
    if snapshot is None:
        return []
    try:
        data, deletes = _entries_of(table, snapshot, location)
    except ProjsegError:
        raise
    except Exception as error:  # the file system, Avro and its schema each raise their own
        raise _unread(location, error, options) from error
    _require_whole(snapshot, data, location)
    for one in deletes:
        hidden = next((file for file in data if one.may_hide_rows_of(file)), None)
        if hidden is not None:
            raise UnsupportedFeatureError(
                "PROJSEG_SOURCE_DELETES",
                f"iceberg:{location} hides rows, perhaps of {hidden.path}, by files of deletes, "
                "which are not read: rewrite its data files, then call sync()",
            )
    return sorted(_listed_files(data, table.location(), location))


def _entries_of(
    table: IcebergTable, snapshot: IcebergSnapshot, location: str
) -> tuple[list[_DataFile], list[_Deletes]]:
    from pyiceberg.manifest import ManifestContent

    data: list[_DataFile] = []
    deletes: list[_Deletes] = []
    readers = [_ManifestReader(table, one, location) for one in snapshot.manifests(table.io)]
    missing = [one for one in readers if one.kept is None]
    is_remote = len(missing) > 1 and is_in_store(plain_path(table.location()))
    for _ in (side_by_side if is_remote else map)(_ManifestReader.read, missing):
        pass
    for one in readers:
        if one.manifest.content == ManifestContent.DATA:
            data += one.kept
        else:
            deletes += one.kept
    return data, deletes


class _ManifestReader:
    """Reads a manifest, which is never written again, once for each process."""

    def __init__(self, table: IcebergTable, manifest: ManifestFile, location: str) -> None:
        self._table, self.manifest, self._location = table, manifest, location
        ids = tuple(field.field_id for field in table.schema().fields)
        self._key = ("iceberg manifest", str(table.metadata.table_uuid), manifest.manifest_path,
                     manifest.manifest_length, ids)  # fmt: skip
        self.kept: Any = KEPT.get(self._key)

    def read(self) -> None:
        """Keep the live files that it lists."""
        from pyiceberg.manifest import ManifestContent

        manifest = self.manifest
        entries = manifest.fetch_manifest_entry(self._table.io)
        self._require_whole(entries)
        if manifest.content == ManifestContent.DATA:
            identities = _identities(self._table, manifest.partition_spec_id)
            self.kept = tuple(_data_file(one, identities) for one in entries)
        else:
            self.kept = tuple(map(_deletes, entries))
        KEPT.replace(self._key, self.kept, _ROW_BYTES * (1 + len(self.kept)))

    def _require_whole(self, entries: Iterable[Any]) -> None:
        manifest = self.manifest
        counts = [one.data_file.record_count for one in entries]
        stated = [
            (manifest.added_files_count, manifest.existing_files_count, len(counts), "files"),
            (manifest.added_rows_count, manifest.existing_rows_count, sum(counts), "rows"),
        ]
        for added, existing, found, what in stated:
            if added is not None and existing is not None and added + existing != found:
                raise source_changed(
                    f"iceberg:{self._location}",
                    f"lists {found} {what} in {manifest.manifest_path}, which is to have "
                    f"{added + existing}",
                )


def _identities(table: IcebergTable, spec_id: int) -> list[tuple[int, str, Any]]:
    """Return the place, the id and the type of partition columns that are columns as they are."""
    from pyiceberg.transforms import IdentityTransform

    types = {field.field_id: field.field_type for field in table.schema().fields}
    fields = table.specs()[spec_id].fields
    return [
        (place, str(field.source_id), types[field.source_id])
        for place, field in enumerate(fields)
        if isinstance(field.transform, IdentityTransform) and field.source_id in types
    ]


def _data_file(entry: Any, identities: Iterable[tuple[int, str, Any]]) -> _DataFile:
    file = entry.data_file
    partition = tuple(
        (number, _text_of(file.partition[place], iceberg_type))
        for place, number, iceberg_type in identities
    )
    return _DataFile(
        str(file.file_path),
        int(file.file_size_in_bytes),
        int(file.record_count),
        str(file.file_format.value),
        entry.sequence_number or 0,
        file.key_metadata is not None,
        partition,
    )


def _deletes(entry: Any) -> _Deletes:
    file = entry.data_file
    bounds = ((found or {}).get(_FILE_PATH) for found in (file.lower_bounds, file.upper_bounds))
    return _Deletes(file.content == 1, entry.sequence_number or 0, *bounds)


def _text_of(value: Any, iceberg_type: Any) -> str | None:
    """Return a partition's value as the text that `parquet_file.constant` reads."""
    kind = str(iceberg_type)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if kind == "date" and isinstance(value, int):
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if kind.startswith("timestamp") and isinstance(value, int):
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
        return (
            moment if kind.startswith("timestamptz") else moment.replace(tzinfo=None)
        ).isoformat()
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


def _require_whole(snapshot: IcebergSnapshot, data: Iterable[_DataFile], location: str) -> None:
    """Refuse a list of other files or rows than the snapshot sums up."""
    rows = [file.row_count for file in data]
    summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
    for name, found in (("total-data-files", len(rows)), ("total-records", sum(rows))):
        stated = summary.get(name)
        if stated is not None and stated != str(found):
            raise source_changed(
                f"iceberg:{location}", f"has {found} in its list and states {name} of {stated}"
            )


def _listed_files(data: Iterable[_DataFile], root: str, location: str) -> Iterator[ListedFile]:
    known: set[str] = set()
    root = plain_path(root)
    folder = SourceFolder(root)
    for file in data:
        path = _path_of(file, root, location, folder)
        if path in known:
            raise source_changed(path, f"is listed twice by iceberg:{location}")
        known.add(path)
        yield ListedFile(path, file.byte_count, "", file.partition, file.row_count)


def plain_path(path: str) -> str:
    """Return a path as files are read by it; none of its letters stands for another."""
    scheme, mark, rest = path.partition("://")
    if mark and scheme.lower() in _STORES:
        return f"{_STORES[scheme.lower()]}://{rest}"
    return path.removeprefix("file:").replace("///", "/", 1) if path.startswith("file:/") else path


def _path_of(file: _DataFile, root: str, location: str, folder: SourceFolder) -> str:
    shown = f"iceberg:{location} lists {file.path[:200]!r}"
    if file.format != "PARQUET" or file.is_encrypted:
        what = "encrypted" if file.is_encrypted else f"of the format {file.format}"
        raise bad_source(f"{shown}, which is {what}; only plain Parquet files are read")
    path = plain_path(file.path)
    is_elsewhere = is_in_store(root) and not is_in_store(path)
    if is_elsewhere or not (is_in_store(path) or path.startswith("/")):
        raise bad_source(f"{shown}, which is at no place that files of {root} may be")
    if ".." in path.split("/") or "\0" in path:
        raise bad_source(f"{shown}, which leads out of the table")
    if not is_in_store(path) and path.startswith(f"{root}/"):
        folder.require_no_link_out(path, shown)
    return path


def address_of(table: Any) -> tuple[str, Mapping[str, str]]:
    """Return the name of a loaded table, and the properties of its catalog.

    Raises InvalidInputError (PROJSEG_BAD_SOURCE) if no name would lead to it again.
    """
    identifier, catalog = table.name(), table.catalog
    if not hasattr(catalog, "properties") or any("." in part for part in identifier):
        raise bad_source(
            f"the Iceberg table {'.'.join(identifier)} has no name in a catalog by which it could "
            "be found again; give a table that a catalog has loaded"
        )
    properties = {key: value for key, value in catalog.properties.items() if value is not None}
    return ".".join(identifier), {**properties, _CATALOG: catalog.name}

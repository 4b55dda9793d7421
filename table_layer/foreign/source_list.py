"""What a source lists now: its files, in one list, and the version that the list is of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from projseg.segment_format.format_limits import name_key
from projseg.table_layer.foreign.source_files import (
    ListedFile,
    absolute_folder,
    absolute_pattern,
    bad_source,
    find_files,
    root_of,
)
from projseg.table_layer.metadata.table_properties import StoredSource
from projseg.table_layer.storage.store_location import StorageOptions

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
KINDS: Final = ("parquet", "delta", "iceberg")


class SourceList(msgspec.Struct, frozen=True):
    """One list of a source's files, by path, with the version and types that the source states.

    Without types, those of the files hold. `field_ids` has the columns' ids if files are read by
    ids, `name_mapping` is as in `StoredSource`; `left_out` says why no table can have a column;
    `root` is the folder of a source whose location is no place.
    """

    files: tuple[ListedFile, ...]
    version: str | None = None
    table_id: str | None = None
    types: Mapping[str, pa.DataType] | None = None
    field_ids: Mapping[str, int] | None = None
    name_mapping: Mapping[str, int] | None = None
    left_out: Mapping[str, str] = {}
    root: str | None = None


def parse_source(text: str) -> StoredSource:
    """Return a source that was given as a text, such as `parquet:/data/edits/**/*.parquet`."""
    kind, mark, location = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not mark or kind not in KINDS:
        raise bad_source(
            f"{text!r} is no source; write one of {', '.join(f'{kind}:' for kind in KINDS)} and "
            "where it is, such as parquet:/data/edits/**/*.parquet"
        )
    if kind == "delta":
        return StoredSource(kind="delta", location=absolute_folder(location))
    if kind == "iceberg":
        return StoredSource(kind="iceberg", location=_identifier(location))
    return StoredSource(kind="parquet", location=absolute_pattern(location))


def _identifier(text: str) -> str:
    if "." not in text or not all(part.strip() for part in text.split(".")):
        raise bad_source(
            f"'iceberg:{text}' names no table of a catalog; write iceberg:namespace.table, or give "
            "a loaded table of pyiceberg"
        )
    return text


def require_apart(source: StoredSource, location: str, root: str | None = None) -> None:
    """Raise InvalidInputError if a table lies among its source's files, or where a log may clean.

    `root` is the folder of a source whose location is no place.
    """
    is_pattern = source.kind == "parquet"
    folder = root_of(source.location) if is_pattern else root or source.location
    place = absolute_folder(location)
    if place == folder or (not is_pattern and place.startswith(f"{folder}/")):
        raise bad_source(f"{place} is a folder of the source; give the table a folder of its own")


def list_source(source: StoredSource, options: StorageOptions) -> SourceList:
    """Return what a source lists now.

    Raises InvalidInputError (PROJSEG_BAD_SOURCE) if it is another than before, and StorageError if
    its list is not whole (PROJSEG_SOURCE_CHANGED) or the storage fails.
    """
    if source.kind == "delta":
        return _delta_list(source, options)
    if source.kind == "iceberg":
        return _iceberg_list(source, options)
    listed = SourceList(tuple(find_files(source.location, options)))
    if not listed.files:
        raise bad_source(
            f"{source.location} has no Parquet files: is the folder mounted, and the pattern right?"
        )
    declared = {name_key(column.name): column.name for column in source.columns or ()}
    if declared:
        files = (_with_partition(one, declared) for one in listed.files)
        listed = replace(listed, files=tuple(files))
    return listed


def _delta_list(source: StoredSource, options: StorageOptions) -> SourceList:
    # Imported here: it draws on a package that no other source needs.
    from projseg.table_layer.foreign.delta_log import files_of, open_log, schema_of

    table = open_log(source.location, options)
    table_id = str(table.metadata().id)
    _require_same_table(source, table_id)
    files = sorted(files_of(table, source.location))
    return SourceList(tuple(files), str(table.version()), table_id, schema_of(table))


def _iceberg_list(source: StoredSource, options: StorageOptions) -> SourceList:
    # Imported here, as for Delta.
    from projseg.table_layer.foreign.iceberg_table import (
        fields_of,
        files_of,
        load,
        mapping_of,
        plain_path,
    )

    table = load(source.location, options)
    table_id = str(table.metadata.table_uuid)
    _require_same_table(source, table_id)
    fields, snapshot = fields_of(table), table.current_snapshot()
    return SourceList(
        tuple(files_of(table, source.location, options)),
        None if snapshot is None else str(snapshot.snapshot_id),
        table_id,
        fields.types,
        fields.ids,
        mapping_of(table),
        fields.left_out,
        plain_path(table.location()),
    )


def _require_same_table(source: StoredSource, table_id: str) -> None:
    if source.table_id not in (None, table_id):
        raise bad_source(
            f"{source.kind}:{source.location} is another table than the one that was attached: it "
            "was dropped and made again; attach it anew"
        )


def _with_partition(file: ListedFile, declared: Mapping[str, str]) -> ListedFile:
    """Return a file with the texts of those declared columns that its path names."""
    parts = [part.partition("=") for part in file.path.split("/")[:-1]]
    found = {
        declared[name_key(name)]: None if text == _NULL else unquote(text)
        for name, mark, text in parts
        if mark and name_key(name) in declared
    }
    return file._replace(partition=tuple(sorted(found.items())))

"""A Delta table as a source: one list of its log's newest version, read by `deltalake`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa

from projseg.errors import UnsupportedFeatureError
from projseg.extras import require
from projseg.table_layer.foreign.source_files import (
    ListedFile,
    SourceFolder,
    bad_source,
    is_in_store,
    source_changed,
)
from projseg.table_layer.storage.store_location import StorageOptions

if TYPE_CHECKING:
    from deltalake import DeltaTable

_PARTITION: Final = "partition."
_MAPPING: Final = "delta.columnMapping.mode"
_FEATURES: Final = frozenset(
    {"deletionVectors", "columnMapping", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
)
"""Features of readers that change nothing here, or are refused where they are used."""


def open_log(location: str, options: StorageOptions) -> DeltaTable:
    """Return a Delta table at its newest version.

    Raises InvalidInputError (PROJSEG_BAD_SOURCE) if there is none or one of a kind that is not
    read, and UnsupportedFeatureError (PROJSEG_SOURCE_DELETES) if it hides rows by deletion vectors.
    """
    require("deltalake", "a source in Delta")
    # Imported here: tables over other sources do without it.
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(location, storage_options=dict(options) or None)
    except BaseException as error:
        # A panic of the reader, as at a damaged checkpoint, is no Exception.
        is_failure = isinstance(error, DeltaError | OSError | ValueError)
        if not is_failure and type(error).__name__ != "PanicException":
            raise
        problem = (str(error) or type(error).__name__).splitlines()[0]
        raise bad_source(f"delta:{location} cannot be read as a Delta table: {problem}") from error
    features = set(table.protocol().reader_features or ())
    mode = table.metadata().configuration.get(_MAPPING, "none")
    if mode != "none" or not features <= _FEATURES:
        what = f"maps its columns by {mode}" if mode != "none" else f"needs {sorted(features)}"
        raise bad_source(f"delta:{location} {what}, which is not read; write it anew without")
    if "deletionVectors" in features and _has_vectors(table):
        raise UnsupportedFeatureError(
            "PROJSEG_SOURCE_DELETES",
            f"delta:{location} hides rows by deletion vectors, which are not read: take them out "
            "by OPTIMIZE or REORG TABLE ... APPLY (PURGE), then call sync()",
        )
    return table


def _has_vectors(table: DeltaTable) -> bool:
    try:
        return any(batch.num_rows for batch in table.deletion_vectors())
    except Exception:  # noqa: BLE001 - one that cannot be read is one
        return True


def files_of(table: DeltaTable, location: str) -> Iterator[ListedFile]:
    """Yield the files of a Delta table's version, with the values of its partition columns.

    Raises InvalidInputError (PROJSEG_BAD_SOURCE) if a path leads out of the table, and StorageError
    (PROJSEG_SOURCE_CHANGED) if the log names a file twice.
    """
    known: set[str] = set()
    folder = SourceFolder(location)
    for row in pa.table(table.get_add_actions(flatten=True)).to_pylist():
        path = _path_of(str(row["path"]), location, folder)
        if path in known:
            raise source_changed(path, f"is listed twice by delta:{location}")
        known.add(path)
        partition = {
            name.removeprefix(_PARTITION): _text_of(value)
            for name, value in row.items()
            if name.startswith(_PARTITION)
        }
        count = row.get("num_records")
        yield ListedFile(path, int(row["size_bytes"]), "", tuple(sorted(partition.items())), count)


def schema_of(table: DeltaTable) -> Mapping[str, pa.DataType]:
    """Return the columns of a Delta table, partition columns among them."""
    found = pa.schema(table.schema().to_arrow())
    return {field.name: field.type for field in found}


def _path_of(stated: str, location: str, folder: SourceFolder) -> str:
    """Return the path of a file, which lies below the table unless the log states a whole one."""
    path = unquote(stated)
    if is_in_store(path) or path.startswith(("/", "file:")):
        return path.removeprefix("file://")
    whole = f"{location.rstrip('/')}/{path}"
    if ".." in path.split("/"):
        raise bad_source(f"delta:{location} names {path[:200]!r}, which leads out of the table")
    if not is_in_store(whole):
        folder.require_no_link_out(whole, f"delta:{location} names {path[:200]!r}")
    return whole


def _text_of(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value.isoformat() if isinstance(value, date | datetime) else str(value)

"""Remove a table's files: all of them, or those of a commit that did not happen."""

from __future__ import annotations

import os

from projseg.table_layer.storage.paths import DATA_PREFIX, METADATA_PREFIX, prefix_of_write
from projseg.table_layer.storage.storage_contract import Storage


def remove_table(storage: Storage) -> None:
    """Remove every file of a table, and those of its folders that are empty then."""
    # The log first: what is half removed must not look like a table.
    for prefix in (METADATA_PREFIX, DATA_PREFIX):
        _remove_names(storage, prefix)
    _remove_empty_folders(storage)


def remove_write(storage: Storage, write_id: str) -> None:
    """Remove the files of a commit that no version of the log is, and folders that it made."""
    _remove_names(storage, prefix_of_write(write_id))
    _remove_empty_folders(storage)


def _remove_names(storage: Storage, prefix: str) -> None:
    for name in [file.name for file in storage.list_names(prefix)]:
        storage.delete(name)


def _remove_empty_folders(storage: Storage) -> None:
    if storage.is_remote:
        return
    for place, _, _ in os.walk(storage.location, topdown=False):
        try:
            os.rmdir(place)
        except OSError:
            continue

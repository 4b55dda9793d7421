"""Write and read the files that name deleted rows. SPEC.md "Table", deletion vectors."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.errors import CorruptTableError
from projseg.memory.cache import KEPT
from projseg.segment_format.file.deletion_vector import (
    decode_vector,
    encode_vector,
    vector_checksum,
)
from projseg.table_layer.metadata.segment_entry import DeletionVector, SegmentEntry
from projseg.table_layer.storage.local_files import create_unique, storage_error
from projseg.table_layer.storage.paths import new_vector_name
from projseg.table_layer.storage.storage_contract import PutOutcomeUnknownError, Storage

_NONE = np.empty(0, np.uint32)
_NONE.setflags(write=False)


def with_deleted_rows(
    storage: Storage,
    entry: SegmentEntry,
    row_ids: NDArray[np.uint32],
    write_id: str,
    files: list[str],
) -> SegmentEntry:
    """Write a deletion vector, durably, and return the entry of the segment with it.

    `row_ids` has all its deleted rows: those of earlier commits and of this one. `files` gets the
    name of the file before it is written.
    """
    name, content = new_vector_name(write_id), encode_vector(row_ids, entry.footer_checksum)
    files.append(name)
    try:
        create_unique(storage, name, content)
    except (FileExistsError, PutOutcomeUnknownError) as error:
        # Nothing lists the file yet, so it does not matter whether it exists.
        raise storage_error(error, "write", f"{storage.location}/{name}") from error
    vector = DeletionVector(name, len(content), vector_checksum(content), len(row_ids))
    return replace(entry, deletion_vector=vector)


def deleted_rows(storage: Storage, entry: SegmentEntry) -> NDArray[np.uint32]:
    """Return the deleted rows of a segment, uint32[k] ascending, read once while it is kept."""
    if entry.deletion_vector is None:
        return _NONE
    key = ("deleted", storage.location, entry.file, entry.deletion_vector)
    row_ids: NDArray[np.uint32] = KEPT.get_or_load(
        key, lambda: read_deleted_rows(storage, entry), lambda found: found.nbytes
    )
    return row_ids


def read_deleted_rows(storage: Storage, entry: SegmentEntry) -> NDArray[np.uint32]:
    """Return the deleted rows of a listed segment as the storage has them; see `deleted_rows`."""
    vector = entry.deletion_vector
    if vector is None:
        return _NONE
    path = f"{storage.location}/{vector.file}"
    try:
        content, size = storage.read_sized(vector.file, 0, vector.byte_count)
    except FileNotFoundError as error:
        raise CorruptTableError(
            "PROJSEG_SEGMENT_MISSING",
            f"{path} was committed and is missing; removed by hand, or by a vacuum if this version "
            "is old? restore it from a copy",
        ) from error
    if size != vector.byte_count:
        raise CorruptTableError(
            "PROJSEG_SEGMENT_DIFFERS",
            f"{path} was committed and has {size} bytes, not the {vector.byte_count} that the "
            "table lists; restore it from a copy",
        )
    row_ids = decode_vector(
        content,
        segment_checksum=entry.footer_checksum,
        row_count=entry.row_count,
        deleted_row_count=vector.row_count,
        checksum=vector.file_checksum,
        path=path,
    )
    row_ids.setflags(write=False)
    return row_ids


def live_row_ids(storage: Storage, entry: SegmentEntry) -> NDArray[np.uint32]:
    """Return the rows of a listed segment that are not deleted, uint32[k] ascending."""
    is_live = np.ones(entry.row_count, np.bool_)
    is_live[deleted_rows(storage, entry)] = False
    return np.flatnonzero(is_live).astype(np.uint32)

"""Deletion vectors: which rows of a segment are deleted, as a file of its own. SPEC.md section 14.

A vector names its segment by the checksum of that file's footer, so it cannot be taken for that of
another. It is never changed: a later delete writes a new one that holds the earlier rows too.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from projseg.errors import MissingPackageError
from projseg.kernels.roaring_read import MALFORMED, bitmap_count, read_bitmap
from projseg.memory.forks import late_import
from projseg.segment_format.byte_reader import ByteReader

VECTOR_MAGIC: Final = b"\x89PSEGDEL"
VECTOR_VERSION: Final = 1

VECTOR_HEAD_LAYOUT: Final = struct.Struct("<8sIIQ")  # SPEC.md section 14.1
_CHECKSUM: Final = struct.Struct("<Q")


def encode_vector(row_ids: NDArray[np.uint32], segment_checksum: int) -> bytes:
    """Return the file of deleted rows, of at least one row id."""
    with late_import:
        import pyroaring
    bitmap = pyroaring.BitMap(row_ids)
    bitmap.run_optimize()
    written, count = bitmap.serialize(), len(bitmap)
    if bitmap_count(np.frombuffer(written, np.uint8), int(row_ids.max()) + 1) != count:
        raise MissingPackageError(
            "PROJSEG_MISSING_PACKAGE",
            f"deleted rows are written by pyroaring, and {pyroaring.__version__} writes some sets"
            " in a form that no reader takes; install pyroaring 1.1 or later",
        )
    head = VECTOR_HEAD_LAYOUT.pack(VECTOR_MAGIC, VECTOR_VERSION, count, segment_checksum)
    content = head + written
    return content + _CHECKSUM.pack(_checksum(content))


def vector_checksum(content: bytes) -> int:
    """Return the checksum that the end of a vector's file states."""
    return int(_CHECKSUM.unpack(content[-_CHECKSUM.size :])[0])


def decode_vector(
    content: bytes,
    *,
    segment_checksum: int,
    row_count: int,
    deleted_row_count: int,
    checksum: int,
    path: str,
) -> NDArray[np.uint32]:
    """Return the deleted rows of a segment, uint32[deleted_row_count] ascending.

    `segment_checksum` is the checksum of the segment's footer. No memory is allocated for row ids
    before the bitmap is verified to hold exactly `deleted_row_count` ids.
    """
    body = memoryview(content)[: -_CHECKSUM.size]
    reader = ByteReader(body, path=path, part_name="deletion vector")
    magic, version, count, owner = reader.unpack(VECTOR_HEAD_LAYOUT)
    reader.require(magic == VECTOR_MAGIC, "is no deletion vector")
    reader.require(version == VECTOR_VERSION, f"has format version {version}")
    stated = vector_checksum(content)
    is_whole = stated == _checksum(body) == checksum
    reader.require(is_whole, "its checksum does not match its bytes, or not what the table lists")
    reader.require(owner == segment_checksum, "names rows of another segment")
    reader.require(
        count == deleted_row_count, f"states {count} rows, the table {deleted_row_count}"
    )
    bitmap = np.frombuffer(reader.take(reader.bytes_left), np.uint8)
    found = bitmap_count(bitmap, row_count)
    reader.require(found != MALFORMED, "its bitmap is malformed, or names rows beyond the last")
    reader.require(found == count, f"its bitmap holds {found} rows, not {count}")
    row_ids = read_bitmap(bitmap, row_count)
    assert row_ids is not None, "it was proved to be well formed"
    return row_ids


def _checksum(content: bytes | memoryview) -> int:
    return int(xxhash.xxh3_64_intdigest(content))

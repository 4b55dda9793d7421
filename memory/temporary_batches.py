"""Record batches in a temporary file, where those of a query take more memory than they may.

The file has no name: the system removes it with the process, however that ends.
"""

from __future__ import annotations

import errno
import os
import tempfile
from typing import Final

import msgspec
import pyarrow as pa

from projseg.errors import LimitExceededError, StorageError
from projseg.memory.memory_pool import parse_byte_count, quarter_of_memory

LIMIT_SETTING: Final = "PROJSEG_GROUP_BYTES"


def bytes_in_memory() -> int:
    """Return the most bytes that the groups, or the sorted rows, of one query may take."""
    given = os.environ.get(LIMIT_SETTING)
    return quarter_of_memory() if given is None else parse_byte_count(given, LIMIT_SETTING)


class Place(msgspec.Struct, frozen=True):
    """Where a batch stands in the file, in bytes."""

    start: int
    size: int


class TemporaryBatches:
    """Batches of one schema in a file of the temporary folder, made with the first of them.

    An error names the content, `groups` or `sorted rows`, and advises a caller who may need less of
    it.
    """

    def __init__(self, content: str, advice: str) -> None:
        self._content, self._advice = content, advice
        self._file: int | None = None
        self._size = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no file."""
        return self._file is None

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def write(self, batch: pa.RecordBatch) -> Place:
        """Append a batch.

        Raises LimitExceededError (PROJSEG_QUERY_TOO_LARGE) if the temporary folder has no room.
        """
        content = memoryview(batch.serialize())
        place = Place(self._size, len(content))
        try:
            if self._file is None:
                with tempfile.TemporaryFile(buffering=0, prefix="projseg-") as opened:
                    self._file = os.dup(opened.fileno())
            while content:
                written = os.pwrite(self._file, content, self._size)
                self._size += written
                content = content[written:]
        except OSError as error:
            raise self._no_room(error) from error
        return place

    def read(self, place: Place, schema: pa.Schema) -> pa.RecordBatch:
        """Return a batch that was written.

        Raises StorageError (PROJSEG_STORAGE_FAILED) if the file does not give it back.
        """
        assert self._file is not None
        content = bytearray(place.size)
        left, start = memoryview(content), place.start
        try:
            while left:  # the system reads at most two gigabytes at a time
                count = os.preadv(self._file, [left], start)
                if count == 0:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                left, start = left[count:], start + count
        except OSError as error:
            raise StorageError(
                "PROJSEG_STORAGE_FAILED",
                f"{self._content} in a temporary file cannot be read back:"
                f" {_system_reason(error)}. Look after the disk of TMPDIR, or let it name another"
                " folder",
                error.errno,
            ) from error
        return pa.ipc.read_record_batch(pa.py_buffer(content), schema)

    def _no_room(self, error: OSError) -> LimitExceededError:
        problem = f"there is no temporary folder for them: {error.strerror}"
        if tempfile.tempdir is not None:
            problem = (
                f"after {self._size >> 20} MiB the temporary folder {tempfile.tempdir} takes no"
                f" more of them: {_system_reason(error)}"
            )
        return LimitExceededError(
            "PROJSEG_QUERY_TOO_LARGE",
            f"{self._content} take more than {LIMIT_SETTING} allows, and {problem}."
            f" {self._advice}, or let TMPDIR name a folder with room",
        )


def _system_reason(error: OSError) -> str:
    return os.strerror(error.errno or errno.EIO)

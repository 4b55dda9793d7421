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

from projseg.errors import LimitExceededError
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
        """Return a batch that was written."""
        assert self._file is not None
        content = os.pread(self._file, place.size, place.start)
        return pa.ipc.read_record_batch(pa.py_buffer(content), schema)

    def _no_room(self, error: OSError) -> LimitExceededError:
        return LimitExceededError(
            "PROJSEG_QUERY_TOO_LARGE",
            f"{self._content} take more than {LIMIT_SETTING} allows, and after"
            f" {self._size >> 20} MiB the temporary folder {tempfile.gettempdir()} takes no more of"
            f" them: {os.strerror(error.errno or errno.EIO)}. {self._advice}, or let TMPDIR name a"
            " folder with room",
        )

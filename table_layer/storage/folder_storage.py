"""A folder within a table as a `Storage` of its own: each name with the folder before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from projseg.table_layer.storage.paths import VIEWS
from projseg.table_layer.storage.storage_contract import (
    ByteRange,
    SegmentSink,
    SizedRead,
    Storage,
    StoredFile,
)


@dataclass(frozen=True)
class ViewsFolder:
    """The folder of a table's views; it has no state and no credentials but the table's.

    Parameters
    ----------
    table : Storage
        Where the table is.
    """

    table: Storage

    @property
    def location(self) -> str:
        """The folder, for messages."""
        return f"{self.table.location}/{VIEWS.rstrip('/')}"

    @property
    def options(self) -> object:
        """The table's storage options; None if it has none."""
        return getattr(self.table, "options", None)

    @property
    def is_remote(self) -> bool:
        """Whether a call takes a round trip."""
        return self.table.is_remote

    def size(self, name: str) -> int:
        """Return a file's size in bytes; FileNotFoundError if there is none of that name."""
        return self.table.size(VIEWS + name)

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes from `offset`."""
        return self.table.read_range(VIEWS + name, offset, size)

    def read_sized(self, name: str, offset: int, size: int) -> SizedRead:
        """Return `size` bytes from `offset`, fewer where the file ends, and the file's size."""
        return self.table.read_sized(VIEWS + name, offset, size)

    def read_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return several ranges of one file."""
        return self.table.read_ranges(VIEWS + name, ranges)

    def put_if_absent(self, name: str, payload: bytes) -> None:
        """Create a durable file whole, or leave none."""
        self.table.put_if_absent(VIEWS + name, payload)

    def create(self, name: str) -> AbstractContextManager[SegmentSink]:
        """Return a sink for a file written in pieces."""
        return self.table.create(VIEWS + name)

    def list_names(self, prefix: str, after: str = "") -> Iterator[StoredFile]:
        """Yield the folder's files whose names start with a prefix."""
        found = self.table.list_names(VIEWS + prefix, VIEWS + after if after else "")
        return (file._replace(name=file.name.removeprefix(VIEWS)) for file in found)

    def turn(self) -> AbstractContextManager[None]:
        """Return a context that may wait for other committers."""
        return self.table.turn()

    def check_writable(self) -> None:
        """Raise StorageError if files can certainly not be written here."""
        self.table.check_writable()

    def delete(self, name: str) -> None:
        """Remove a file; no error if there is none."""
        self.table.delete(VIEWS + name)

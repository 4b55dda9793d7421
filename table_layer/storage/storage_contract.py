"""What a table needs of its storage: ranges to read, names created once, lists, deletes.

A put has three outcomes: done, refused, or unknown. A folder within a table is a `Storage` of its
own: each name with the folder before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from projseg.table_layer.storage.paths import VIEWS


class PutOutcomeUnknownError(OSError):
    """The file may or may not be there: read it back before saying anything about it."""


class PutNotDurableError(PutOutcomeUnknownError):
    """The file is there, but a power cut may still take it; reading it back proves nothing."""


class ByteRange(NamedTuple):
    """Bytes of a file: `size` of them from `offset`."""

    offset: int
    size: int


class SizedRead(NamedTuple):
    """Bytes that were read, and the size of the whole file."""

    content: bytes
    file_size: int


class StoredFile(NamedTuple):
    """One listed file: its name in the table, its size in bytes, its last change (UTC)."""

    name: str
    size: int
    modified_us: int


class SegmentSink(Protocol):
    """A file being written; nobody sees it under its name before `commit` returns."""

    def write(self, payload: bytes | bytearray | memoryview) -> None:
        """Append bytes; after a StorageError the sink is only good to abort."""

    def commit(self) -> None:
        """Make the file durable and give it its name; raise as `Storage.put_if_absent` does."""

    def abort(self) -> None:
        """Remove what was written, unless committed; never touches a file under its own name."""


class Storage(Protocol):
    """A table's directory or prefix. Names are those of `projseg.table_layer.storage.paths` only.

    Implementations are hashable, equal when they mean the same place, picklable and cheap.
    """

    @property
    def location(self) -> str:
        """The place as the user would name it, for messages."""

    @property
    def is_remote(self) -> bool:
        """Whether a call takes a round trip, so that a few at a time save time.

        A hint: whatever it says, the same calls give the same results.
        """

    def size(self, name: str) -> int:
        """Return a file's size in bytes; FileNotFoundError if there is none of that name."""

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes from `offset`.

        Raises FileNotFoundError if there is no file of that name, and CorruptTableError if the file
        ends before that: the caller knows its size, so it was cut.
        """

    def read_sized(self, name: str, offset: int, size: int) -> SizedRead:
        """Return `size` bytes from `offset`, fewer where the file ends, and the file's size.

        FileNotFoundError if there is no file of that name.
        """

    def read_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return several ranges of one file, each as `read_range` would."""

    def put_if_absent(self, name: str, payload: bytes) -> None:
        """Create a durable file whole, or leave none.

        Raises FileExistsError if the name is taken (by anyone, an earlier try of the caller
        included), PutOutcomeUnknownError if the file may be there, StorageError if it was certainly
        not created.
        """

    def create(self, name: str) -> AbstractContextManager[SegmentSink]:
        """Return a sink for a file written in pieces; leaving the context uncommitted aborts it."""

    def list_names(self, prefix: str, after: str = "") -> Iterator[StoredFile]:
        """Yield the table's files whose names start with one of `paths`' prefixes, in any order.

        `after` leaves out names up to it, itself included.
        """

    def turn(self) -> AbstractContextManager[None]:
        """Return a context that may wait for other committers, to save them and us retries.

        This is a hint: it may do nothing, and commits are correct without it. Never raises OSError.
        """

    def check_writable(self) -> None:
        """Raise StorageError if files can certainly not be written here.

        A hint for a writer that would otherwise fail after much work; passing proves nothing.
        """

    def delete(self, name: str) -> None:
        """Remove a file; no error if there is none."""


@dataclass(frozen=True)
class ViewsFolder:
    """The folder of a table's views; it has no state and no credentials but the table's."""

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

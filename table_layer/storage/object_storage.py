"""A table in an object store: S3 and what speaks like it, Google Cloud Storage, Azure.

An object appears whole or not at all, so the commit is one conditional put. SPEC.md "Table",
publishing in an object store, says what of a store that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from projseg.errors import CorruptTableError
from projseg.table_layer.storage.object_sink import ObjectSink, put_once
from projseg.table_layer.storage.paths import check_name, check_prefix, is_own_name
from projseg.table_layer.storage.storage_contract import ByteRange, SizedRead, StoredFile
from projseg.table_layer.storage.store_client import StoreClient, client_of, requested
from projseg.table_layer.storage.store_errors import status_of
from projseg.table_layer.storage.store_location import NO_OPTIONS, StorageOptions, StoreLocation

Result = TypeVar("Result")

_COALESCED_BYTES: Final = 128 << 10
"""Bytes between two parts that are read with them: fewer than a round trip is worth."""

_RANGE_NOT_SATISFIABLE: Final = 416


@dataclass(frozen=True)
class ObjectStorage:
    """A prefix of a bucket as a `Storage`; holds names and options and nothing open."""

    at: StoreLocation
    options: StorageOptions = NO_OPTIONS

    @property
    def is_remote(self) -> bool:
        """Every call is a round trip."""
        return True

    @property
    def location(self) -> str:
        """The location, without its options."""
        return str(self.at)

    @property
    def _client(self) -> StoreClient:
        return client_of(self.at, self.options)

    def check_options(self) -> None:
        """Refuse options that the store does not know; nothing is sent."""
        _ = self._client

    def size(self, name: str) -> int:
        """Return the size of an object in bytes."""
        store, path = self._client.patient, check_name(name)
        return int(self._requested("read", name, lambda: store.head(path))["size"])

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes, by one request.

        Raises
        ------
        CorruptTableError
            If the object is shorter.
        FileNotFoundError
            If there is no such object.
        StorageError
            If the store refuses or does not answer.
        """
        is_range = offset >= 0 and size >= 0
        content, length = (
            self.read_sized(name, offset, size) if is_range else SizedRead(b"", self.size(name))
        )
        if not is_range or len(content) < size:
            raise self._cut_short(name, offset + size, length)
        return content

    def read_sized(self, name: str, offset: int, size: int) -> SizedRead:
        """Return at most `size` bytes, and the object's size, which comes with them."""
        store, path = self._client.patient, check_name(name)

        def request() -> SizedRead:
            try:
                result = store.get(path, options={"range": (offset, offset + size)})
            except Exception as error:
                if status_of(error) != _RANGE_NOT_SATISFIABLE:
                    raise
                return SizedRead(b"", int(store.head(path)["size"]))
            return SizedRead(bytes(result.bytes()), int(result.meta["size"]))

        if size == 0:
            return SizedRead(b"", self.size(name))
        return self._requested("read", name, request)

    def read_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return several ranges; near ones by one request, others side by side."""
        store, path = self._client.patient, check_name(name)
        starts, sizes = [one.offset for one in ranges], [one.size for one in ranges]

        def request() -> list[bytes] | None:
            try:
                found = store.get_ranges(
                    path, starts=starts, lengths=sizes, coalesce=_COALESCED_BYTES
                )
            except Exception as error:
                if status_of(error) != _RANGE_NOT_SATISFIABLE:
                    raise
                return None
            return [bytes(part) for part in found]

        found = self._requested("read", name, request) if ranges else []
        if found is None or [len(part) for part in found] != sizes:
            raise self._cut_short(name, max(map(sum, ranges)), self.size(name))
        return found

    def put_if_absent(self, name: str, payload: bytes) -> None:
        """Create an object by a conditional put; outcomes as of `put_once`."""
        put_once(self._client, check_name(name), payload, f"{self.location}/{name}")

    @contextmanager
    def create(self, name: str) -> Iterator[ObjectSink]:
        """Yield a sink that uploads an object; nothing of it is visible before it commits.

        Raises
        ------
        FileExistsError
            By `ObjectSink.commit`, if the name is taken.
        StorageError
            If the store refuses or does not answer.
        """
        sink = ObjectSink(self._client, check_name(name), f"{self.location}/{name}")
        try:
            yield sink
        finally:
            sink.abort()

    def list_names(self, prefix: str, after: str = "") -> Iterator[StoredFile]:
        """Yield own objects under a prefix in the order of their names; others are passed over."""
        folder, _, begins = check_prefix(prefix).rpartition("/")
        # Names of a folder that begin alike follow each other, so that the rest need not be listed.
        start = after or (prefix if begins else None)
        listed = self._client.patient.list(folder, offset=start)
        while chunk := self._requested("list", folder, lambda: next(listed, None)):
            for one in chunk:
                name = one["path"]
                if is_own_name(name) and name.startswith(prefix):
                    modified_us = round(one["last_modified"].timestamp() * 1e6)
                    yield StoredFile(name, one["size"], modified_us)
                elif begins and not name.startswith(prefix):
                    return

    def turn(self) -> AbstractContextManager[None]:
        """Wait for nobody: a store has no locks."""
        return nullcontext()

    def delete(self, name: str) -> None:
        """Remove an object; no error if there is none."""
        store, path = self._client.patient, check_name(name)
        with suppress(FileNotFoundError):
            self._requested("remove", name, lambda: store.delete(path))

    def check_writable(self) -> None:
        """Tell nothing: only a put shows whether a store allows one."""

    def _requested(self, action: str, name: str, request: Callable[[], Result]) -> Result:
        return requested(action, f"{self.location}/{name}", request)

    def _cut_short(self, name: str, wanted: int, found: int) -> CorruptTableError:
        return CorruptTableError(
            "PROJSEG_FILE_CUT_SHORT",
            f"{self.location}/{name} should have at least {wanted} bytes and has {found}; restore "
            "it from a copy",
        )

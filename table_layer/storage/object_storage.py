"""A table in an object store: S3 and what speaks like it, Google Cloud Storage, Azure.

Objects are put whole and only if absent, or a segment in parts on its way.
"""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from projseg.errors import CorruptTableError, StorageError
from projseg.table_layer.storage.paths import check_name, check_prefix, is_own_name
from projseg.table_layer.storage.storage_contract import (
    ByteRange,
    PutOutcomeUnknownError,
    SizedRead,
    StoredFile,
)
from projseg.table_layer.storage.store_client import (
    StoreClient,
    client_of,
    requested,
    status_of,
    store_error,
    was_refused,
)
from projseg.table_layer.storage.store_location import NO_OPTIONS, StorageOptions, StoreLocation

if TYPE_CHECKING:
    from obstore import WritableFile

_TRIES_MAX: Final = 6
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 2.0
_RANDOM: Final = random.SystemRandom()

_PART_BYTES: Final = 8 << 20
_PARTS_AT_ONCE: Final = 4

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
        """Return exactly `size` bytes, by one request."""
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
        """Create an object by a conditional put; the outcomes are those of `_put_once`."""
        _put_once(self._client, check_name(name), payload, f"{self.location}/{name}")

    @contextmanager
    def create(self, name: str) -> Iterator[_ObjectSink]:
        """Yield a sink that uploads an object; nothing of it is visible before it commits.

        Raises StorageError if the store refuses or does not answer; if the name is taken,
        `_ObjectSink.commit` raises.
        """
        sink = _ObjectSink(self._client, check_name(name), f"{self.location}/{name}")
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


class _ObjectSink:
    """An object being written. No other call may write under its name."""

    def __init__(self, client: StoreClient, path: str, where: str) -> None:
        self._client = client
        self._path = path
        self._where = where
        self._held = bytearray()
        self._size = 0
        self._upload: WritableFile | None = None

    def write(self, payload: bytes | bytearray | memoryview) -> None:
        """Append bytes; an upload in parts begins when they are more than one part."""
        self._held += payload
        self._size += memoryview(payload).nbytes
        if len(self._held) >= _PART_BYTES:
            self._send()

    def _send(self) -> None:
        if self._upload is None:
            self._refuse_taken()
            # Imported here: it need not be installed.
            from obstore import open_writer

            self._upload = open_writer(
                self._client.patient,
                self._path,
                buffer_size=_PART_BYTES,
                max_concurrency=_PARTS_AT_ONCE,
            )
        upload, held = self._upload, bytes(self._held)
        self._held.clear()
        requested("write", self._where, lambda: upload.write(held))

    def commit(self) -> None:
        """Give the object its name, and raise what the contract says."""
        try:
            if self._upload is None:
                self._put(bytes(self._held))
            else:
                self._finish(self._upload)
        finally:
            self.abort()

    def _put(self, content: bytes) -> None:
        try:
            _put_once(self._client, self._path, content, self._where)
        except (FileExistsError, PutOutcomeUnknownError):
            # A request that arrived twice, or whose answer was lost, meets its own object.
            if self._size_there() != len(content) or self._read() != content:
                raise

    def _read(self) -> bytes:
        def request() -> bytes:
            return bytes(self._client.patient.get(self._path).bytes())

        return requested("read", self._where, request)

    def _finish(self, upload: WritableFile) -> None:
        self._send()
        try:
            requested("write", self._where, upload.close)
        except (FileNotFoundError, StorageError) as error:
            # A repeated request to finish an upload that is finished fails. The name is this sink's
            # alone, so an object of this size is the one that was sent.
            if self._size_there() != self._size:
                raise PutOutcomeUnknownError(errno.EIO, str(error), self._where) from None

    def abort(self) -> None:
        """Drop what was written; parts that were sent stay invisible until the store drops them."""
        self._upload = None
        self._held.clear()

    def _refuse_taken(self) -> None:
        if self._size_there() is not None:
            raise FileExistsError(errno.EEXIST, "the name is taken", self._where)

    def _size_there(self) -> int | None:
        try:
            head = requested("read", self._where, lambda: self._client.patient.head(self._path))
        except FileNotFoundError:
            return None
        return int(head["size"])


def _put_once(client: StoreClient, path: str, payload: bytes, where: str) -> None:
    """Create an object by a conditional put.

    While the store does not say what happened, the put is tried again: it then either succeeds, or
    finds an object that this call or another one made. Only reading it back tells which.
    """
    failure: StorageError | None = None
    is_sure = True
    for failed_tries in range(_TRIES_MAX):
        if failed_tries:
            longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**failed_tries)
            time.sleep(_RANDOM.uniform(0, longest))
        failed = _try(client, path, payload)
        if failed is None:
            return
        if _is_conflict(failed):
            if not is_sure:
                break
            # A store may also refuse because another put is under way, which may fail yet.
            if _exists(client, path, where):
                raise FileExistsError(errno.EEXIST, "the name is taken", where)
            failure = store_error(failed, "write", where)
            continue
        failure = store_error(failed, "write", where)
        if not was_refused(failed):
            is_sure = False
        elif failure.code != "PROJSEG_STORE_UNREACHABLE":
            break
    if is_sure and failure is not None:
        raise failure
    problem = failure.message if failure is not None else "the store's answer was lost"
    raise PutOutcomeUnknownError(errno.EIO, problem, where)


def _try(client: StoreClient, path: str, payload: bytes) -> Exception | None:
    """Put once; return the failure, or None."""
    from obstore.exceptions import BaseError

    try:
        client.strict.put(path, payload, mode="create", use_multipart=False)
    except (BaseError, OSError, ValueError) as error:
        return error
    return None


def _is_conflict(failed: Exception) -> bool:
    return type(failed).__name__ in ("AlreadyExistsError", "PreconditionError")


def _exists(client: StoreClient, path: str, where: str) -> bool:
    try:
        requested("read", where, lambda: client.patient.head(path))
    except FileNotFoundError:
        return False
    return True

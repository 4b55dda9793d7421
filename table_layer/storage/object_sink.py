"""Objects put into a store: whole and only if absent, or a segment in parts on its way."""

from __future__ import annotations

import errno
import random
import time
from typing import TYPE_CHECKING, Final

from projseg.errors import StorageError
from projseg.table_layer.storage.storage_contract import PutOutcomeUnknownError
from projseg.table_layer.storage.store_client import StoreClient, requested
from projseg.table_layer.storage.store_errors import store_error, was_refused

if TYPE_CHECKING:
    from obstore import WritableFile


_TRIES_MAX: Final = 6
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 2.0
_RANDOM: Final = random.SystemRandom()


def put_once(client: StoreClient, path: str, payload: bytes, where: str) -> None:
    """Create an object by a conditional put.

    While the store does not say what happened, the put is tried again: it then either succeeds, or
    finds an object that this call or another one made. Only reading it back tells which.

    Parameters
    ----------
    client : StoreClient
        The connections to the store.
    path : str
        The object, within the table.
    payload : bytes
        Its content.
    where : str
        The object, as the user would name it.

    Raises
    ------
    FileExistsError
        If the name is taken, and not by this call.
    PutOutcomeUnknownError
        If the object may be this call's.
    StorageError
        If this call certainly created nothing.
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


_PART_BYTES: Final = 8 << 20
_PARTS_AT_ONCE: Final = 4


class ObjectSink:
    """An object being written. No other call may write under its name.

    Parameters
    ----------
    client : StoreClient
        The connections to the store.
    path : str
        The object, within the table.
    where : str
        The object, as the user would name it.
    """

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
        """Give the object its name.

        Raises
        ------
        FileExistsError
            If the name is taken.
        PutOutcomeUnknownError
            If the object may be there.
        StorageError
            If it certainly is not.
        """
        try:
            if self._upload is None:
                self._put(bytes(self._held))
            else:
                self._finish(self._upload)
        finally:
            self.abort()

    def _put(self, content: bytes) -> None:
        try:
            put_once(self._client, self._path, content, self._where)
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

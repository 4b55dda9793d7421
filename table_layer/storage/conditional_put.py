"""Create an object only if it is absent, and say honestly what became of it."""

from __future__ import annotations

import errno
import random
import time
from typing import Final

from projseg.errors import StorageError
from projseg.table_layer.storage.storage_contract import PutOutcomeUnknownError
from projseg.table_layer.storage.store_client import StoreClient, requested
from projseg.table_layer.storage.store_errors import store_error, was_refused

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

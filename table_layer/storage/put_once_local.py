"""Create a file under a name that nobody else uses, and know afterwards that it is there."""

from __future__ import annotations

from projseg.table_layer.storage.storage_contract import (
    PutNotDurableError,
    PutOutcomeUnknownError,
    Storage,
)


def create_unique(storage: Storage, name: str, payload: bytes) -> None:
    """Create a file under a name that nobody else uses; a lost answer is looked up.

    Raises
    ------
    PutNotDurableError
        If the file is there and may not survive a power cut.
    StorageError
        If it was not created, or nobody can tell.
    """
    try:
        storage.put_if_absent(name, payload)
    except PutNotDurableError:
        raise
    except (FileExistsError, PutOutcomeUnknownError):
        # A request that arrives twice is refused the second time.
        try:
            found = storage.read_sized(name, 0, len(payload) + 1).content
        except FileNotFoundError:
            found = b""
        if found != payload:
            raise

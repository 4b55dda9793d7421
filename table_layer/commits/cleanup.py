"""Remove the files of a failed write, once it is certain that no table version lists them.

Deleting after a failure is how tables lose rows: a commit may have landed though its answer was
lost. So files go only if the failure says that nothing was committed, and the log agrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from projseg.errors import CommitStateUnknownError, InvalidInputError, ProjsegError
from projseg.table_layer.commits.publish import LogVersion
from projseg.table_layer.metadata.snapshot import latest_version, read_version
from projseg.table_layer.storage.storage_contract import Storage


@contextmanager
def removed_on_failure(
    storage: Storage,
    write_id: str,
    base_version: int | None,
    read: Callable[[Storage, int], LogVersion | None] = read_version,
) -> Iterator[list[str]]:
    """Yield a list for the names of files written; they are removed if the commit is refused.

    They stay if the error does not tell whether the commit happened (`CommitStateUnknownError`, an
    interruption), if the log cannot be read, and if it holds this write id.

    Parameters
    ----------
    storage : Storage
        The table.
    write_id : str
        Of the commit that was to list them.
    base_version : int or None
        No version up to this one can list them; None if there was no table.
    read : callable
        Returns a version of the log, None if it has none of that number.
    """
    files: list[str] = []
    try:
        yield files
    except CommitStateUnknownError:
        raise
    except ProjsegError:
        if files and not _may_be_listed(storage, write_id, base_version, read):
            remove(storage, files)
        raise


def remove(storage: Storage, files: Sequence[str]) -> None:
    """Remove files that no table version can list, the last first.

    A file that cannot be removed stays; no version lists it.
    """
    for file in reversed(files):
        with suppress(OSError):
            storage.delete(file)


def _may_be_listed(
    storage: Storage,
    write_id: str,
    base_version: int | None,
    read: Callable[[Storage, int], LogVersion | None],
) -> bool:
    first = 0 if base_version is None else base_version + 1
    try:
        for version in range(first, latest_version(storage) + 1):
            snapshot = read(storage, version)
            if snapshot is None or snapshot.file.write_id == write_id:
                return True
    except InvalidInputError as error:
        return error.code != "PROJSEG_NOT_A_TABLE"
    except (ProjsegError, OSError):
        return True
    return False

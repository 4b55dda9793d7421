"""Files of a local folder: created once, and the operating system's errors in plain words."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import stat
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from projseg.errors import CorruptTableError, StorageError
from projseg.table_layer.storage.paths import is_own_name
from projseg.table_layer.storage.storage_contract import (
    PutNotDurableError,
    PutOutcomeUnknownError,
    Storage,
)

_RANDOM: Final = random.SystemRandom()
_TURN_SECONDS_MAX: Final = 2.0
_FIRST_PAUSE_SECONDS: Final = 0.001
_LONGEST_PAUSE_SECONDS: Final = 0.02
SYNCED: Final[set[tuple[int, int, str, int]]] = set()
"""Names of folders that this process has made durable, by their folder's inode and their own."""
_SYNCED_MAX: Final = 1 << 12


def create_unique(storage: Storage, name: str, payload: bytes) -> None:
    """Create a file under a name that nobody else uses; a lost answer is looked up."""
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


class _Meaning(NamedTuple):
    code: str
    problem: str
    remedy: str


_FULL: Final = _Meaning(
    "PROJSEG_STORAGE_FULL", "the disk or its quota is full", "free some space and try again"
)
_FORBIDDEN: Final = _Meaning(
    "PROJSEG_NO_PERMISSION",
    "this process has no permission",
    "give its user the right, or run it as another user",
)
_READ_ONLY: Final = _Meaning(
    "PROJSEG_READ_ONLY_STORAGE",
    "the file system is mounted read-only",
    "mount it writable, or write to another location",
)
_NOT_A_FILE: Final = _Meaning(
    "PROJSEG_NOT_A_FILE",
    "something else stands where a file or folder of the table belongs",
    "remove it or choose another location; symbolic links inside a table are not followed",
)
_TOO_MANY_OPEN: Final = _Meaning(
    "PROJSEG_TOO_MANY_OPEN_FILES",
    "too many files are open",
    "raise the limit (ulimit -n), or close what is not needed",
)
_MEANINGS: Final = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: _READ_ONLY,
    errno.ENOTDIR: _NOT_A_FILE,
    errno.EISDIR: _NOT_A_FILE,
    errno.ELOOP: _NOT_A_FILE,
    errno.EMFILE: _TOO_MANY_OPEN,
    errno.ENFILE: _TOO_MANY_OPEN,
}


def storage_error(error: OSError, action: str, path: str) -> StorageError:
    """Return the error of a failed system call, in a user's words."""
    unknown = _Meaning(
        "PROJSEG_STORAGE_FAILED",
        error.strerror or type(error).__name__,
        "try again when the storage works",
    )
    code, problem, remedy = _MEANINGS.get(error.errno or 0, unknown)
    return StorageError(code, f"cannot {action} {path}: {problem}; {remedy}", error.errno)


class explained:
    """Raise StorageError for an OSError inside, unless it is an answer and no failure.

    An answer passes through: that there is no such file, or that there is one.
    """

    __slots__ = ("_action", "_passing", "_path")

    def __init__(self, action: str, path: str, answer: type[OSError] = FileNotFoundError) -> None:
        self._action, self._path = action, path
        self._passing = (answer, PutOutcomeUnknownError, StorageError)

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, self._passing):
            raise storage_error(error, self._action, self._path) from error


def take_turn(folder: int) -> None:
    """Wait for the advisory lock of a folder, by its descriptor, but not for long."""
    deadline = time.monotonic() + _TURN_SECONDS_MAX
    pause = _FIRST_PAUSE_SECONDS
    while time.monotonic() < deadline:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_RANDOM.uniform(0, pause))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        else:
            return


def remember_synced(name: tuple[int, int, str, int]) -> None:
    """Note in `SYNCED`, which stays small, that a folder's name is durable."""
    if len(SYNCED) >= _SYNCED_MAX:
        SYNCED.clear()
    SYNCED.add(name)


def regular_size(status: os.stat_result) -> int:
    """Return a file's size; OSError if it is no regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EISDIR, "not a regular file")
    return status.st_size


def cut_short(root: str, name: str, wanted: int, found: int) -> CorruptTableError:
    """Return the error of a file that has fewer bytes than it should."""
    problem = f"{root}/{name} should have at least {wanted} bytes and has {found}"
    return CorruptTableError("PROJSEG_FILE_CUT_SHORT", f"{problem}; restore it from a copy")


def foreign_files(storage: Storage) -> Iterator[str]:
    """Yield files in a table's folder whose names projseg did not give; none of a store.

    Links are listed, but not followed.
    """
    if storage.is_remote or not os.path.isdir(storage.location):
        return
    for folder, folders, files in os.walk(storage.location):
        links = [one for one in folders if os.path.islink(os.path.join(folder, one))]
        for base in (*files, *links):
            name = os.path.relpath(os.path.join(folder, base), storage.location)
            if not is_own_name(name):
                yield name


def entry_status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Return the status of an entry of a folder; None if it was deleted meanwhile."""
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # deleted since the directory was read
        return None

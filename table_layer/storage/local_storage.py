"""A table in a local directory. SPEC.md "Table", publishing on a local file system.

A file appears under its name only whole and durable: temporary file with O_EXCL, write, fsync,
`link`, unlink of the temporary name, fsync of the directory. `link` is the commit because it
refuses an existing name; rename would replace it. Directories are entered one by one without
following symbolic links, so a table copied from elsewhere cannot point outside itself.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from projseg.errors import StorageError, without_secrets
from projseg.table_layer.storage.local_files import (
    SYNCED,
    cut_short,
    entry_status,
    explained,
    regular_size,
    remember_synced,
    storage_error,
    take_turn,
)
from projseg.table_layer.storage.paths import (
    DATA_PREFIX,
    MANIFEST_PREFIX,
    METADATA_PREFIX,
    RESULTS,
    check_name,
    check_prefix,
    is_listed_inside,
    is_own_name,
    temporary_name,
)
from projseg.table_layer.storage.storage_contract import (
    ByteRange,
    PutNotDurableError,
    PutOutcomeUnknownError,
    SizedRead,
    StoredFile,
)

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WAITING_BYTES_MAX: Final = 1 << 16  # that are held back, so that few calls write small parts
_LINK_REFUSED: Final = frozenset(
    {errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EMLINK}
    | {errno.ENOENT, errno.ENOTSUP, errno.EXDEV}
)
"""Errors after which `link` certainly made no name; after any other it may have."""


@dataclass(frozen=True)
class LocalStorage:
    """A directory, by its absolute path, as a `Storage`; holds nothing open.

    It is durable, which syncs what is written, but for tables that no other process ever opens.
    """

    root: str
    is_durable: bool = True

    def __repr__(self) -> str:
        return f"LocalStorage({without_secrets(self.root)!r})"

    @property
    def is_remote(self) -> bool:
        """A call takes microseconds."""
        return False

    @property
    def location(self) -> str:
        """The directory's absolute path."""
        return self.root

    def size(self, name: str) -> int:
        """Return the size in bytes of a regular file."""
        with self._explained("read", name), _parent(self.root, check_name(name)) as (folder, base):
            return regular_size(os.stat(base, dir_fd=folder, follow_symlinks=False))

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes; the file's length is compared before memory is taken."""
        with self._opened(name) as (descriptor, length):
            return self._read_exactly(descriptor, length, name, ByteRange(offset, size))

    def read_sized(self, name: str, offset: int, size: int) -> SizedRead:
        """Return at most `size` bytes, and the file's size."""
        with self._explained("read", name):
            descriptor = self._descriptor(name)
            try:
                length = regular_size(os.fstat(descriptor))
                there = max(0, min(size, length - offset))
                return SizedRead(_read_fully(descriptor, offset, there), length)
            finally:
                os.close(descriptor)

    def read_ranges(self, name: str, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return the bytes of several ranges, opening the file once.

        Raises what `read_range` raises.
        """
        with self._opened(name) as (descriptor, length):
            return [self._read_exactly(descriptor, length, name, one) for one in ranges]

    @contextmanager
    def _opened(self, name: str) -> Iterator[tuple[int, int]]:
        """Yield (descriptor, length) of a regular file."""
        with self._explained("read", name):
            descriptor = self._descriptor(name)
            try:
                yield descriptor, regular_size(os.fstat(descriptor))
            finally:
                os.close(descriptor)

    def _descriptor(self, name: str) -> int:
        """Return the descriptor of a file, for the caller to close."""
        folder, base = _entered(self.root, check_name(name))
        try:
            return os.open(base, _READ_FLAGS, dir_fd=folder)
        finally:
            os.close(folder)

    def _read_exactly(self, descriptor: int, length: int, name: str, wanted: ByteRange) -> bytes:
        offset, size = wanted
        if not 0 <= offset <= offset + size <= length:
            raise cut_short(self.root, name, offset + size, length)
        content = _read_fully(descriptor, offset, size)
        if len(content) < size:
            raise cut_short(self.root, name, offset + size, offset + len(content))
        return content

    def put_if_absent(self, name: str, payload: bytes) -> None:
        """Publish a whole file by `link`."""
        with self.create(name) as sink:
            sink.write(payload)
            sink.commit()

    @contextmanager
    def create(self, name: str) -> Iterator[_LocalSink]:
        """Open a temporary file beside `name`, for `_LocalSink.commit` to publish.

        Raises FileExistsError if the name is taken, StorageError if the system refuses to create a
        file.
        """
        with ExitStack() as stack:
            with explained("write", f"{self.root}/{name}", FileExistsError):
                parent = _parent(
                    self.root, check_name(name), create=True, is_durable=self.is_durable
                )
                folder, base = stack.enter_context(parent)
                if _exists(base, folder):
                    raise FileExistsError(errno.EEXIST, "the name is taken", name)
                temporary = temporary_name(name).rpartition("/")[2]
                path = f"{self.root}/{name}"
                sink = _LocalSink(folder, base, temporary, path, is_durable=self.is_durable)
            stack.callback(sink.abort)
            yield sink

    def list_names(self, prefix: str, after: str = "") -> Iterator[StoredFile]:
        """Yield own files under a prefix; foreign names and symbolic links are passed over."""
        inside = check_prefix(prefix).rpartition("/")[0]
        try:
            with self._explained("list", inside), _parent(self.root, f"{inside}/") as (folder, _):
                listed = _list_folder(folder, inside, prefix)
                yield from (file for file in listed if file.name > after)
        except FileNotFoundError:
            return
        except StorageError as error:
            if error.code != "PROJSEG_NOT_A_FILE" or os.path.isdir(self.root):
                raise

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for other committers of this machine, by an advisory lock on the log's folder.

        The kernel releases the lock of a process that dies. A stopped process delays others by
        `_TURN_SECONDS_MAX` at most: `link` keeps the order, not this lock.
        """
        with ExitStack() as stack:
            with suppress(OSError):
                folder, _ = stack.enter_context(_parent(self.root, METADATA_PREFIX))
                take_turn(folder)
                stack.callback(_give_turn, folder)
            yield

    def delete(self, name: str) -> None:
        """Remove a file and make the removal durable."""
        with (
            suppress(FileNotFoundError),
            self._explained("remove", name),
            _parent(self.root, check_name(name)) as (folder, base),
        ):
            os.unlink(base, dir_fd=folder)
            if self.is_durable:
                os.fsync(folder)
        with suppress(OSError):  # a result is a table of its own, whose folders go with it
            while (name := name.rpartition("/")[0]).startswith(RESULTS):
                os.rmdir(os.path.join(self.root, name))

    def check_writable(self) -> None:
        """Ask the system whether files can be made where the table keeps or will keep them."""
        for name in (DATA_PREFIX, METADATA_PREFIX, MANIFEST_PREFIX):
            folder = os.path.join(self.root, name)
            while not os.path.lexists(folder):
                folder = os.path.dirname(folder)
            as_effective_user = os.access in os.supports_effective_ids
            if not os.path.isdir(folder):
                raise storage_error(OSError(errno.ENOTDIR, ""), "write to", folder)
            if not os.access(folder, os.W_OK | os.X_OK, effective_ids=as_effective_user):
                is_read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
                refused = OSError(errno.EROFS if is_read_only else errno.EACCES, "")
                raise storage_error(refused, "write to", folder)

    def _explained(self, action: str, name: str) -> explained:
        return explained(action, f"{self.root}/{name}")


def _give_turn(folder: int) -> None:
    with suppress(OSError):  # closing the folder gives it up as well
        fcntl.flock(folder, fcntl.LOCK_UN)


class _LocalSink:
    """A file being written: it has a temporary name until `commit` publishes it."""

    def __init__(
        self, folder: int, base: str, temporary: str, path: str, *, is_durable: bool = True
    ) -> None:
        self._is_durable = is_durable
        self._folder = folder
        self._base = base
        self._temporary = temporary
        self._path = path
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._descriptor = os.open(temporary, _CREATE_FLAGS, 0o644, dir_fd=folder)

    def write(self, payload: bytes | bytearray | memoryview) -> None:
        """Append all bytes, a little later where they are few."""
        self._waiting.append(bytes(payload))
        self._waiting_bytes += len(self._waiting[-1])
        if self._waiting_bytes >= _WAITING_BYTES_MAX:
            self._write_waiting()

    def _write_waiting(self) -> None:
        """Write what is held back, however many calls that takes."""
        rest = memoryview(b"".join(self._waiting))
        self._waiting, self._waiting_bytes = [], 0
        with explained("write", self._path, FileExistsError):
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def commit(self) -> None:
        """Make the bytes durable, then the name; PutNotDurableError says that one may be lost.

        The file is there then, and may not survive a power cut. A failed fsync is never repeated on
        the same file: the kernel may have dropped the pages and would report success.
        """
        self._write_waiting()
        with explained("write", self._path, FileExistsError):
            if self._is_durable:
                os.fsync(self._descriptor)
            self._close()
            self._link()
        self._remove_temporary()
        if not self._is_durable:
            return
        try:
            os.fsync(self._folder)
        except OSError as error:
            raise PutNotDurableError(error.errno, error.strerror, self._path) from error

    def _link(self) -> None:
        try:
            os.link(self._temporary, self._base, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except FileExistsError:
            raise
        except OSError as error:
            if error.errno in _LINK_REFUSED:
                raise
            raise PutOutcomeUnknownError(error.errno, error.strerror, self._path) from error

    def abort(self) -> None:
        """Close and remove the temporary file; a published file stays."""
        with suppress(OSError):
            self._close()
        self._remove_temporary()

    def _close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _remove_temporary(self) -> None:
        # A temporary file that cannot be removed now does no harm: no version lists it.
        if self._temporary:
            temporary, self._temporary = self._temporary, ""
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self._folder)


@contextmanager
def _parent(
    root: str, name: str, *, create: bool = False, is_durable: bool = True
) -> Iterator[tuple[int, str]]:
    """Yield (descriptor of the directory that holds `name`, the name's last part)."""
    descriptor, base = _entered(root, name, create=create, is_durable=is_durable)
    try:
        yield descriptor, base
    finally:
        os.close(descriptor)


def _entered(
    root: str, name: str, *, create: bool = False, is_durable: bool = True
) -> tuple[int, str]:
    """Return what `_parent` yields; the descriptor is the caller's to close."""
    *folders, base = name.split("/")
    if create and not os.path.isdir(os.path.join(root, folders[0])):
        _make_durably(root, is_durable=is_durable)
    # Unless it may be made, one folder is entered at once: it alone must be no link.
    first = "" if create or not folders else f"/{folders.pop(0)}"
    descriptor = os.open(root + first, _FOLDER_FLAGS | (os.O_NOFOLLOW if first else 0))
    try:
        for folder in folders:
            if create:
                _make_folder(folder, descriptor, is_durable=is_durable)
            inner = os.open(folder, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=descriptor)
            outer, descriptor = descriptor, inner
            os.close(outer)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, base


def _make_folder(folder: str, parent: int, *, is_durable: bool) -> None:
    is_there = _exists(folder, parent)
    if not is_there:
        with suppress(FileExistsError):
            os.mkdir(folder, dir_fd=parent)
    if not is_durable:
        return
    # Synced even if the folder exists: who made it may have died before it was durable. That is
    # done once by each process, as a name that was synced stays until it is removed.
    inside, itself = os.fstat(parent), os.stat(folder, dir_fd=parent, follow_symlinks=False)
    name = (inside.st_dev, inside.st_ino, folder, itself.st_ino)
    if is_there and name in SYNCED:
        return
    SYNCED.discard(name)
    os.fsync(parent)
    remember_synced(name)


def _make_durably(root: str, *, is_durable: bool) -> None:
    parent = os.path.dirname(root)
    if not os.path.isdir(root):
        if not os.path.isdir(parent):
            _make_durably(parent, is_durable=is_durable)
        with suppress(FileExistsError):
            os.mkdir(root)
    if not is_durable:
        return
    with suppress(PermissionError):  # a parent that only lets us pass was made by its owner
        descriptor = os.open(parent, _FOLDER_FLAGS)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _exists(base: str, folder: int) -> bool:
    with suppress(FileNotFoundError):
        os.stat(base, dir_fd=folder, follow_symlinks=False)
        return True
    return False


def _read_fully(descriptor: int, offset: int, size: int) -> bytes:
    pieces = []
    while size and (piece := os.pread(descriptor, size, offset)):
        pieces.append(piece)
        offset, size = offset + len(piece), size - len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _list_folder(folder: int, inside: str, prefix: str) -> Iterator[StoredFile]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = f"{inside}/{entry.name}"
            if f"{name}/".startswith(prefix) and is_listed_inside(f"{name}/"):
                inner = os.open(entry.name, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
                try:
                    yield from _list_folder(inner, name, f"{name}/")
                finally:
                    os.close(inner)
            elif name.startswith(prefix) and is_own_name(name):
                status = entry_status(entry)
                if status is not None and stat.S_ISREG(status.st_mode):
                    yield StoredFile(name, status.st_size, status.st_mtime_ns // 1000)

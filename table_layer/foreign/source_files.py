"""Foreign files, on a disk or in a store: found by a pattern, and read without any change.

A file is known by its path, its size and a tag: of a store the ETag, of a disk the time of its last
change in nanoseconds and its inode. A read of a file that is another one by then is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from projseg.errors import InvalidInputError, StorageError
from projseg.table_layer.storage.local_files import storage_error
from projseg.table_layer.storage.locate_storage import is_uri, path_of_uri
from projseg.table_layer.storage.store_client import client_of, requested, status_of
from projseg.table_layer.storage.store_location import (
    NO_OPTIONS,
    STORE_SCHEMES,
    StorageOptions,
    StoreLocation,
    parse_store_location,
)

if TYPE_CHECKING:
    from obstore import GetOptions

_WILD: Final = re.compile(r"[*?\[]")
_IN_WORK: Final = re.compile(r"/[_.][^/=]*(?:/|\Z)")
_LISTS_MAX: Final = 5  # until two agree
_PAGE: Final = 1000  # objects that a store lists in one answer
_PRECONDITION_FAILED: Final = 412


class ListedFile(NamedTuple):
    """A file, at a path or a location in a store, as its source lists it now.

    `tag` and `names` are as in `ForeignFile`; `partition` has the texts of its partition columns,
    by stored names if there are `names`.
    """

    path: str
    byte_count: int
    tag: str
    partition: tuple[tuple[str, str | None], ...] = ()
    row_count: int | None = None
    names: tuple[tuple[str, str], ...] | None = None

    def column_of(self, name: str) -> str | None:
        """Return the file's name of a column; None if it lacks it."""
        return name if self.names is None else dict(self.names).get(name)

    @property
    def identity(self) -> tuple[str, int, str]:
        """A key that no other file of its source has."""
        return self.path, self.byte_count, self.tag


class Reads(Protocol):
    """Reads of one file, which is the listed one whenever they return."""

    def __call__(self, offset: int, size: int) -> bytes:
        """Return at most `size` bytes from `offset`."""


def bad_source(problem: str) -> InvalidInputError:
    """Return the error of a source that no table can have."""
    return InvalidInputError("PROJSEG_BAD_SOURCE", problem)


def source_changed(path: str, problem: str) -> StorageError:
    """Return the error of a file that is no longer what its source listed."""
    return StorageError(
        "PROJSEG_SOURCE_CHANGED",
        f"{path} {problem}; call refresh(), or ask again: the source has changed",
    )


def source_gone(path: str) -> StorageError:
    """Return the error of a listed file that is not there."""
    return StorageError(
        "PROJSEG_SOURCE_GONE",
        f"{path} is gone from the source, so its rows cannot be read; ask the newest version, or "
        "what groups of this version can answer",
    )


def find_files(pattern: str, options: StorageOptions = NO_OPTIONS) -> list[ListedFile]:
    """Return the files of a pattern by their paths, read until two lists agree.

    Names that begin with `_` or `.` are those of work in progress, and left out.
    """
    found = _listing(pattern, options)
    for _ in range(_LISTS_MAX):
        if is_in_store(pattern) and len(found) < _PAGE:
            return found
        again = _listing(pattern, options)
        if again == found:
            return found
        found = again
    raise source_changed(pattern, "lists other files each time it is asked")


class SourceFolder:
    """The folder of a source on a disk, which no link may lead out of; made for each list."""

    def __init__(self, root: str) -> None:
        self._real = os.path.realpath(root)
        self._below: dict[str, bool] = {}

    def require_no_link_out(self, path: str, shown: str) -> None:
        """Refuse a file below it that is a link to what is not: PROJSEG_BAD_SOURCE."""
        folder = os.path.dirname(path)
        is_below = self._below.get(folder)
        if is_below is None:
            is_below = self._below[folder] = self._holds(f"{os.path.realpath(folder)}/")
        if not is_below or (os.path.islink(path) and not self._holds(os.path.realpath(path))):
            raise bad_source(f"{shown}, a link out of the table")

    def _holds(self, real: str) -> bool:
        return real.startswith(f"{self._real.rstrip('/')}/")


def is_in_store(path: str) -> bool:
    """Whether a path is a location in an object store."""
    return is_uri(path) and path.partition(":")[0].lower() in STORE_SCHEMES


def absolute_folder(text: str) -> str:
    """Return a place as it is stored: an absolute path, or a location in a store."""
    if not text.strip() or "\0" in text:
        raise bad_source(f"{text!r} names no files; write parquet:/folder/**/*.parquet")
    if is_uri(text) and not is_in_store(text):
        text = path_of_uri(text)
    return text.rstrip("/") if is_in_store(text) else os.path.abspath(text)


def absolute_pattern(text: str) -> str:
    """Return a pattern of files as it is stored: absolute, with what is meant by a folder."""
    text = absolute_folder(text)
    if _WILD.search(text) is None and not text.lower().endswith(".parquet"):
        text = f"{text.rstrip('/')}/**/*.parquet"
    return text


def _listing(pattern: str, options: StorageOptions) -> list[ListedFile]:
    plain, matches = root_of(pattern), _matcher(pattern)
    each = _in_store(plain, options) if is_in_store(pattern) else _on_disk(plain)
    return sorted(one for one in each if matches(one.path) and _is_published(one.path, plain))


def root_of(pattern: str) -> str:
    """Return the folder before the first part with a wild card."""
    wild = _WILD.search(pattern)
    fixed = pattern if wild is None else pattern[: wild.start()]
    return fixed.rpartition("/")[0] or "/"


def _matcher(pattern: str) -> Any:
    parts = []
    for piece in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]*\]|.", pattern, re.DOTALL):
        if piece == "**/":
            parts.append("(?:[^/]+/)*")
        elif piece == "**":
            parts.append(".*")
        elif piece in "*?":
            parts.append("[^/]*" if piece == "*" else "[^/]")
        elif len(piece) > 1:
            parts.append("[" + piece[1:-1].replace("\\", "\\\\").replace("!", "^", 1) + "]")
        else:
            parts.append(re.escape(piece))
    try:
        return re.compile("".join(parts), re.DOTALL).fullmatch
    except re.error as error:
        raise bad_source(f"{pattern} is no pattern of files: {error}") from error


def _is_published(path: str, root: str) -> bool:
    return _IN_WORK.search(path, len(root.rstrip("/"))) is None


def _on_disk(folder: str) -> Iterator[ListedFile]:
    waiting = [folder]
    while waiting:
        inner = waiting.pop()
        try:
            with os.scandir(inner) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.is_file():
                        yield _listed(entry.path, entry.stat())
        except FileNotFoundError:
            continue  # what went meanwhile is not listed
        except OSError as error:
            raise storage_error(error, "list", inner) from error


def _listed(path: str, found: os.stat_result) -> ListedFile:
    return ListedFile(path, found.st_size, f"{found.st_mtime_ns}-{found.st_ino}")


def _in_store(folder: str, options: StorageOptions) -> Iterator[ListedFile]:
    place = parse_store_location(folder)
    bucket = StoreLocation(place.scheme, place.bucket, "")
    listed = client_of(bucket, options).patient.list(place.prefix or None)
    while chunk := requested("list", folder, lambda: next(listed, None)):
        for one in chunk:
            yield ListedFile(f"{bucket}/{one['path']}", int(one["size"]), _tag_of(one))


def _tag_of(meta: Any) -> str:
    return str(meta["e_tag"] or meta["version"] or round(meta["last_modified"].timestamp() * 1e6))


@contextmanager
def reads_of(file: ListedFile, options: StorageOptions = NO_OPTIONS) -> Iterator[Reads]:
    """Yield the reads of a file, and prove afterwards that it is still the one that was listed.

    Raises StorageError: PROJSEG_SOURCE_GONE, PROJSEG_SOURCE_CHANGED if another file has its place,
    or the system's error.
    """
    if is_in_store(file.path):
        yield _StoreReads(file, options)
        return
    try:
        descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as missing:
        raise source_gone(file.path) from missing
    except OSError as error:
        raise storage_error(error, "read", file.path) from error
    try:
        _require_same(file, descriptor)
        yield _DiskReads(descriptor)
        _require_same(file, descriptor)
    finally:
        os.close(descriptor)


def _require_same(file: ListedFile, descriptor: int) -> None:
    found = _listed(file.path, os.fstat(descriptor))
    if found.byte_count != file.byte_count:
        raise source_changed(
            file.path, f"has {found.byte_count} bytes, and {file.byte_count} were listed"
        )
    if file.tag and found.tag != file.tag:
        raise source_changed(file.path, "was written anew since it was listed")


class _DiskReads:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __call__(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)


class _StoreReads:
    def __init__(self, file: ListedFile, options: StorageOptions) -> None:
        place = parse_store_location(file.path)
        bucket = StoreLocation(place.scheme, place.bucket, "")
        self._store = client_of(bucket, options).patient
        self._file, self._key = file, place.prefix

    def __call__(self, offset: int, size: int) -> bytes:
        file = self._file
        wanted = min(size, file.byte_count - offset)
        if wanted <= 0:
            return b""
        options: GetOptions = {"range": (offset, offset + wanted)}
        if file.tag.startswith('"') or file.tag.startswith("W/"):
            options["if_match"] = file.tag

        def request() -> bytes | None:
            try:
                result = self._store.get(self._key, options=options)
            except Exception as error:
                is_other = status_of(error) == _PRECONDITION_FAILED
                if is_other or type(error).__name__ == "PreconditionError":
                    return None
                raise
            if int(result.meta["size"]) != file.byte_count or _tag_of(result.meta) != file.tag:
                return None if file.tag else bytes(result.bytes())
            return bytes(result.bytes())

        try:
            content = requested("read", file.path, request)
        except FileNotFoundError as missing:
            raise source_gone(file.path) from missing
        if content is None or len(content) < wanted:
            raise source_changed(file.path, "was written anew since it was listed")
        return content

"""Files of JSON lines that many processes write side by side, each a file of its own.

A thread that asks puts a record into a queue; another thread makes its line and writes lines in
batches. So no question waits for a disk, and none fails by one.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from projseg.memory.memory_pool import parse_byte_count

try:
    import fcntl
except ImportError:  # on Windows no other process removes a file that is open
    fcntl = None  # type: ignore[assignment]

SETTING: Final = "PROJSEG_QUERY_LOG"
"""The folder; nothing is written without it."""
BYTES_SETTING: Final = "PROJSEG_QUERY_LOG_BYTES"
LOG_LINE_BYTES_MAX: Final = 1 << 16
FILE_BYTES_MAX: Final = 64 << 20
_QUEUED_MAX: Final = 100_000
_BATCH_SECONDS: Final = 1.0
_SECONDS_AT_EXIT: Final = 5.0
_BYTES: Final = "1G"
_PATTERN: Final = "queries-*.jsonl"
_LOGGER: Final = logging.getLogger("projseg.query_log")

MakeRecord: TypeAlias = Callable[[], Mapping[str, Any]]


class LogFile:
    """The file that this process appends to; a new one where the last is full.

    A folder that is missing is made for its owner alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None
        self._size = 0

    def append(self, lines: Iterable[bytes]) -> None:
        """Append whole lines; OSError if the storage takes no more, and no line is torn."""
        batch: list[bytes] = []
        for line in lines:
            batch.append(line)
            if sum(map(len, batch)) >= LOG_LINE_BYTES_MAX:
                self._write(b"".join(batch))
                batch = []
        if batch:
            self._write(b"".join(batch))

    def close(self) -> None:
        """Close the file, which others may then remove."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, content: bytes) -> None:
        if self._size >= FILE_BYTES_MAX:
            self.close()
        if self._descriptor is None:
            self._open()
        assert self._descriptor is not None
        written = 0
        try:
            while written < len(content):
                written += os.write(self._descriptor, content[written:])
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(content)

    def _open(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._make_room()
        start = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        name = f"queries-{start}-{os.getpid()}-{os.urandom(4).hex()}.jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._descriptor, self._size = os.open(self._folder / name, flags, 0o600), 0
        if fcntl is not None:
            with suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _make_room(self) -> None:
        """Remove the oldest files that no process writes, if all together are too large."""
        most = parse_byte_count(os.environ.get(BYTES_SETTING, _BYTES), BYTES_SETTING)
        found: list[tuple[int, Path, int]] = []
        for path in self._folder.glob(_PATTERN):
            with suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime_ns, path, status.st_size))
        total = sum(size for _, _, size in found)
        for _, path, size in sorted(found):
            if total <= most:
                return
            with suppress(OSError):
                if _is_written(path):
                    continue
                path.unlink()
                total -= size


def _is_written(path: Path) -> bool:
    if fcntl is None:
        return False
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


class QueryLog:
    """The log of this process in a folder."""

    def __init__(self, folder: str) -> None:
        self._file = LogFile(Path(folder))
        self._queue: deque[MakeRecord] = deque()
        self._is_waiting = threading.Event()
        self._writing = threading.Lock()
        self._has_warned = False
        self._dropped_count = 0
        threading.Thread(target=self._run, name="projseg-query-log", daemon=True).start()

    def put(self, make: MakeRecord) -> None:
        """Log what a function makes, which another thread calls."""
        if len(self._queue) >= _QUEUED_MAX:
            self._dropped_count += 1
            return
        self._queue.append(make)
        if not self._is_waiting.is_set():
            self._is_waiting.set()

    def flush(self, seconds: float = _SECONDS_AT_EXIT) -> None:
        """Write the queued records, unless the storage takes longer than some seconds."""
        if self._writing.acquire(timeout=seconds):
            try:
                self._write_queued()
            finally:
                self._writing.release()

    def _run(self) -> None:
        while True:
            self._is_waiting.wait()
            time.sleep(_BATCH_SECONDS)
            self._is_waiting.clear()
            with self._writing:
                self._write_queued()

    def _write_queued(self) -> None:
        lines = []
        while self._queue:
            make = self._queue.popleft()
            try:
                lines.append(_line(make()))
            except Exception as error:  # noqa: BLE001 - no question fails by its record
                self._warn(f"a query could not be described: {type(error).__name__}")
        if not lines:
            return
        try:
            self._file.append(lines)
        except Exception as error:  # noqa: BLE001 - as above: also a setting that is no size
            self._warn(f"queries are not logged: {error}")
            return
        if self._dropped_count:
            self._warn(f"{self._dropped_count} queries were not logged: they came too fast")
            self._dropped_count = 0

    def _warn(self, problem: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            _LOGGER.warning("%s; this is said once", problem)


def _line(record: Mapping[str, Any]) -> bytes:
    content = msgspec.json.encode(record)
    if len(content) >= LOG_LINE_BYTES_MAX:
        content = msgspec.json.encode({**record, "query": None, "reasons": {}, "sources": {}})
    return content[: LOG_LINE_BYTES_MAX - 1] + b"\n"


_logs: dict[str, QueryLog] = {}


def query_log(folder: str | None = None) -> QueryLog | None:
    """Return the log of a folder, or of the one that the environment names; None: there is none."""
    folder = folder or os.environ.get(SETTING)
    if not folder:
        return None
    if "://" in folder:
        _warn_of_place(folder.partition("://")[0])
        return None
    folder = os.path.abspath(folder)
    found = _logs.get(folder)
    if found is None:
        found = _logs[folder] = QueryLog(folder)
    return found


@cache
def _warn_of_place(scheme: str) -> None:
    _LOGGER.warning(
        "queries are not logged: a log is a folder of a disk, and %s names one at %s://",
        SETTING,
        scheme,
    )


def flush_query_logs() -> None:
    """Write the records that this process has queued."""
    for log in list(_logs.values()):
        log.flush()


def _forget() -> None:
    """Leave the logs of a forked child to its parent, and start new ones."""
    global _logs
    inherited, _logs = _logs, {}
    for log in inherited.values():
        with suppress(OSError):
            log._file.close()  # noqa: SLF001 - of this module's class


os.register_at_fork(after_in_child=_forget)
atexit.register(flush_query_logs)

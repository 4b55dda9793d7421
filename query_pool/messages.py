"""What the processes of a pool tell each other: connections, questions and replies.

A question travels as a pickle, for only processes of one pool are connected. Rows are an Arrow
stream: small ones come in the message itself. Large ones come as a file in memory that has no name,
which the worker writes once and the other side maps: its columns are that memory, and are never
copied. The memory is free when the table, or the process, is gone, whatever became of the worker.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import socket
import struct
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple
from weakref import WeakSet

import pyarrow as pa

from projseg.algebra.expressions.sql_parameters import Arguments
from projseg.algebra.query.context import context_options, parse_context
from projseg.algebra.query.query_parts import query_of
from projseg.algebra.query.request import Query
from projseg.errors import InvalidInputError, ProjsegError
from projseg.memory.door import Door, door_of_question, through
from projseg.memory.forks import hold_while_forking
from projseg.table.table_version import TableVersion, table_at
from projseg.table.version_reader import VersionReader
from projseg.table_layer.commits.open_version import open_as_of
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.storage_contract import Storage

SENT_AT_ONCE_BYTES_MAX: Final = 1 << 16
"""A message of so many bytes is sent without waiting for the other end, if that has read all."""
MAPPED_BYTES_MIN: Final = 1 << 22
"""Answers of so many bytes are mapped; to send smaller ones takes less time than to map them."""


class Channel:
    """One end of a connection between two processes; used by one thread, but for `close`.

    A process that ends, in whatever way, closes its end, and the other end meets EOFError: nobody
    waits for a process that is gone. A forked child closes the ends that its parent has open.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._seconds = 0.0
        with _lock:
            _open.add(self)

    def fileno(self) -> int:
        """Return the descriptor of this end."""
        return self._connection.fileno()

    def send(self, content: bytes | memoryview, deadline: float | None = None) -> None:
        """Send a message."""
        with self._until(deadline):
            self._connection.send_bytes(content)

    def receive(self, deadline: float | None = None) -> bytes:
        """Return the next message, waiting until `deadline` by `time.monotonic`."""
        with self._until(deadline):
            return self._connection.recv_bytes()

    def send_file(self, descriptor: int) -> None:
        """Send an open file, which stays open here; the other end calls `receive_file`."""
        with self._until(None), self._socket() as end:
            socket.send_fds(end, [b"f"], [descriptor])

    def receive_file(self, deadline: float | None = None) -> int:
        """Return the descriptor of a file that was sent, which the caller closes."""
        with self._until(deadline), self._socket() as end:
            _, descriptors, _, _ = socket.recv_fds(end, 1, 1)
        if not descriptors:
            raise EOFError
        return descriptors[0]

    def close(self) -> None:
        """Close this end."""
        self._connection.close()

    @contextmanager
    def _until(self, deadline: float | None) -> Iterator[None]:
        """Let the system end calls that take longer, and return the error that they fail with."""
        seconds = 0.0
        if deadline is not None and (seconds := deadline - time.monotonic()) <= 0:
            raise TimeoutError
        try:
            if seconds != self._seconds:
                self._limit(seconds)
            yield
        except BlockingIOError as error:
            raise TimeoutError from error
        except OSError as error:
            raise EOFError from error

    def _limit(self, seconds: float) -> None:
        limit = struct.pack("ll", int(seconds), math.ceil(seconds % 1 * 999_999))
        with self._socket() as end:
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                end.setsockopt(socket.SOL_SOCKET, option, limit)
        self._seconds = seconds

    @contextmanager
    def _socket(self) -> Iterator[socket.socket]:
        with socket.fromfd(self.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as end:
            end.setblocking(True)  # whatever a caller made the default of sockets
            yield end


_open: Final[WeakSet[Channel]] = WeakSet()
_lock: Final = threading.RLock()
hold_while_forking(_lock)


def _close_in_child() -> None:
    for channel in list(_open):
        channel.close()
    _open.clear()


os.register_at_fork(after_in_child=_close_in_child)


class VersionName(NamedTuple):
    """A version of a pool's table: the table's name, its number, and the commit that made it."""

    table: str
    version: int
    write_id: str


class VersionsOf:
    """The versions of one table: the last one in use is kept, others are opened."""

    def __init__(self, storage: Storage, last: Snapshot | None = None) -> None:
        self._storage = storage
        self._last = last

    def named(self, wanted: VersionName) -> TableVersion:
        """Return a version."""
        if self._last is None or self._last.file.write_id != wanted.write_id:
            found = open_as_of(self._storage, wanted.version)
            if found.file.write_id != wanted.write_id:
                raise InvalidInputError(
                    "PROJSEG_UNKNOWN_VERSION",
                    f"version {wanted.version} of table {self._storage.location} is another than "
                    "the one that was opened: the table was made anew meanwhile; open the new one",
                )
            self._last = found
        return table_at(VersionReader(self._last))


class TableQuestion(NamedTuple):
    """A call of `query` or `sql` of `TableVersion`, as it travels, and the door it came by."""

    version: VersionName
    method: str
    first: Any
    others: Mapping[str, Any]
    door: Door

    @classmethod
    def of_thread(
        cls, version: VersionName, method: str, first: Any, others: Mapping[str, Any]
    ) -> TableQuestion:
        """Return a question that this thread asks."""
        door = door_of_question("sql" if method == "sql" else "python")
        return cls(version, method, first, others, door)

    def __str__(self) -> str:
        # Values of users stay out of messages.
        others = [
            f"{name}={... if name == 'args' else value!r}"
            for name, value in self.others.items()
            if value
        ]
        return f"{self.method}({', '.join([repr(self.first), *others])})"

    def to_bytes(self) -> bytes:
        """Return a pickle."""
        try:
            return _pickled(self)
        except Exception:  # noqa: BLE001 - whatever a caller's object raises
            plain = self._plain()
        try:
            return _pickled(plain)
        except Exception as error:
            raise InvalidInputError(
                "PROJSEG_BAD_QUERY", f"the question cannot be sent to a worker: {self}: {error}"
            ) from error

    def answer(self, version: TableVersion, threads: int) -> pa.Table:
        """Return the answer of a version, by `threads` threads unless the question sets it."""
        first, others = self.first, dict(self.others)
        if isinstance(first, Query):
            first = replace(first, context=_with_threads(first.context, threads))
        else:
            others["context"] = _with_threads(others.get("context"), threads)
        with through(self.door):
            rows: pa.Table = getattr(version, self.method)(first, **others)
        return rows

    def _plain(self) -> TableQuestion:
        """Return the same in forms of projseg's own, such as a tuple for a generator."""
        if self.method == "query":
            return self._replace(first=query_of(self.first, **self.others), others={})
        context = context_options(parse_context(self.others["context"]))
        return self._replace(others={"context": context, "args": Arguments.of(self.others["args"])})


class _Pickler(pickle.Pickler):
    """Takes texts of a caller's own class for plain ones: a worker may not know the class."""

    def reducer_override(self, value: Any) -> Any:
        return (str, (str.__str__(value),)) if isinstance(value, str) else NotImplemented


def _pickled(question: TableQuestion) -> bytes:
    content = io.BytesIO()
    _Pickler(content).dump(question)
    return content.getvalue()


def _with_threads(context: Any, threads: int) -> Any:
    if context is None:
        return {"threads": threads}
    return {"threads": threads, **context} if isinstance(context, dict) else context


def send_rows(channel: Channel, rows: pa.Table) -> None:
    """Reply with rows; EOFError if nobody is there to read them.

    Raises OSError or pa.ArrowException if they have no room; then nothing was sent.
    """
    # The bytes of whole buffers are known at once; slices of them may be far fewer.
    is_small = rows.get_total_buffer_size() < MAPPED_BYTES_MIN or rows.nbytes < MAPPED_BYTES_MIN
    if is_small or not hasattr(os, "memfd_create"):
        sink = pa.BufferOutputStream()
        _write(sink, rows)
        channel.send(memoryview(sink.getvalue()))
        return
    descriptor = os.memfd_create("projseg-answer", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", buffering=0, closefd=False) as file:
            _write(pa.PythonFile(file, mode="w"), rows)
        channel.send(b"")
        channel.send_file(descriptor)
    finally:
        os.close(descriptor)


def error_to_bytes(error: Exception) -> bytes:
    """Return an error as a pickle; one that no pickle holds as `PROJSEG_INTERNAL`, by its name."""
    trace = "".join(traceback.format_exception(error))
    if not isinstance(error, ProjsegError):
        error.add_note(f"In a worker of the query pool:\n{trace}")
    try:
        content = pickle.dumps(error)
        pickle.loads(content)  # noqa: S301 - our own; a class may take other arguments than it keeps
    except Exception:  # noqa: BLE001 - whatever the class raises
        named = ProjsegError("PROJSEG_INTERNAL", f"{type(error).__name__}: {error}")
        named.add_note(error.__notes__[-1])
        return pickle.dumps(named)
    return content


def receive_reply(channel: Channel, deadline: float | None) -> pa.Buffer:
    """Return the next reply."""
    if content := channel.receive(deadline):
        return pa.py_buffer(content)
    descriptor = channel.receive_file(deadline)
    try:
        with pa.memory_map(f"/proc/self/fd/{descriptor}") as file:
            return file.read_buffer()
    finally:
        os.close(descriptor)


def rows_of(reply: pa.Buffer) -> pa.Table:
    """Return the rows of a reply."""
    if reply.slice(0, 1).to_pybytes() == pickle.PROTO:  # which no Arrow stream begins with
        raise pickle.loads(reply)  # noqa: S301 - our own
    return pa.ipc.open_stream(reply).read_all()


def _write(sink: pa.NativeFile, rows: pa.Table) -> None:
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)

"""One end of a connection between two processes: messages of bytes, with which a file may come.

A message is its size (8 bytes, little-endian) and that many bytes; the descriptor of a file comes
with the first of them. A process that ends, in whatever way, closes its end, and the other end then
reads the end of the stream: nobody waits for a process that is gone.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from weakref import WeakSet

from projseg.memory.forks import hold_while_forking

_SIZE: Final = struct.Struct("<Q")
SENT_AT_ONCE_BYTES_MAX: Final = 1 << 16
"""A message of so many bytes is sent without waiting for the other end, if that has read all."""


@dataclass(frozen=True, slots=True)
class Message:
    """What one end sent.

    Parameters
    ----------
    content : memoryview
        Its bytes.
    descriptor : int or None
        A file that came with them, which the receiver closes.
    """

    content: memoryview
    descriptor: int | None = None


class Channel:
    """One end of a connection; used by one thread at a time, but for `close`.

    A forked child closes the ends that its parent has open, as they are the parent's alone.

    Parameters
    ----------
    end : socket
        Connected to the other end; the channel closes it.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._read_ahead = b""
        with _lock:
            _open.add(self)

    def fileno(self) -> int:
        """Return the descriptor of this end; -1 once it is closed."""
        return self._end.fileno()

    def send(
        self,
        content: bytes | memoryview,
        descriptor: int | None = None,
        *,
        deadline: float | None = None,
    ) -> None:
        """Send a message, and a file with it, which stays open here.

        Parameters
        ----------
        content : bytes or memoryview
            The message.
        descriptor : int or None
            The file.
        deadline : float or None
            As of `receive`.

        Raises
        ------
        EOFError
            If the other end is closed.
        TimeoutError
            If the other end has not taken the message by the deadline.
        """
        head = _SIZE.pack(len(content))
        with self._until(deadline):
            if descriptor is not None:
                socket.send_fds(self._end, [head], [descriptor])
                self._end.sendall(content)
            elif len(content) <= SENT_AT_ONCE_BYTES_MAX:
                self._end.sendall(head + content)
            else:
                self._end.sendall(head)
                self._end.sendall(content)

    def receive(self, deadline: float | None = None) -> Message:
        """Return the next message.

        Parameters
        ----------
        deadline : float or None
            Until when to wait, by `time.monotonic`.

        Raises
        ------
        EOFError
            If the other end is closed.
        TimeoutError
            If the whole message is not there by the deadline; the channel is of no more use.
        """
        descriptors: list[int] = []
        try:
            first = self._first(descriptors, deadline)
            (size,) = _SIZE.unpack_from(first)
            content = memoryview(first)[_SIZE.size :]
            if len(content) < size:
                content = self._rest(content, size, deadline)
            elif len(content) > size:
                self._read_ahead, content = bytes(content[size:]), content[:size]
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        return Message(content, descriptors[0] if descriptors else None)

    def close(self) -> None:
        """Close this end."""
        self._end.close()

    def _first(self, descriptors: list[int], deadline: float | None) -> bytes:
        """Return the first bytes of a message, its size at least; add the file that they bring."""
        found, self._read_ahead = self._read_ahead, b""
        while len(found) < _SIZE.size:
            with self._until(deadline):
                more, files, _, _ = socket.recv_fds(self._end, SENT_AT_ONCE_BYTES_MAX, 1)
            descriptors += files
            if not more:
                raise EOFError
            found += more
        return found

    def _rest(self, begun: memoryview, size: int, deadline: float | None) -> memoryview:
        whole = memoryview(bytearray(size))
        whole[: len(begun)] = begun
        left = whole[len(begun) :]
        while left:
            with self._until(deadline):
                count = self._end.recv_into(left)
            if count == 0:
                raise EOFError
            left = left[count:]
        return whole

    @contextmanager
    def _until(self, deadline: float | None) -> Iterator[None]:
        """Let one call of the socket wait until then, and tell what it fails with."""
        seconds = None if deadline is None else deadline - time.monotonic()
        if seconds is not None and seconds <= 0:
            raise TimeoutError
        try:
            if seconds != self._end.gettimeout():
                self._end.settimeout(seconds)
            yield
        except TimeoutError:
            raise
        except OSError as error:
            raise EOFError from error


_open: Final[WeakSet[Channel]] = WeakSet()
_lock: Final = threading.RLock()
hold_while_forking(_lock)


def _close_in_child() -> None:
    for channel in list(_open):
        channel.close()
    _open.clear()


os.register_at_fork(after_in_child=_close_in_child)

"""A worker's reply: the rows of an answer as an Arrow stream, or the error that it met.

A small answer comes in the message itself. A large one comes as a file in memory that has no name,
which the worker writes once and the other side maps: its columns are that memory, and are never
copied. The memory is free when the table, or the process, is gone, whatever became of the worker.
"""

from __future__ import annotations

import json
import os
from typing import Final

import pyarrow as pa

from projseg.query_pool.channel import Channel, Message
from projseg.query_pool.told_errors import error_of, told

MAPPED_BYTES_MIN: Final = 1 << 22
"""Answers of so many bytes are mapped; to send smaller ones takes less time than to map them."""

_ROWS: Final = b"r"
_FILE: Final = b"f"
_ERROR: Final = b"e"


def send_rows(channel: Channel, rows: pa.Table) -> None:
    """Reply with rows.

    Raises
    ------
    EOFError
        If nobody is there to read them.
    OSError, pa.ArrowException
        If they have no room; nothing was sent.
    """
    # The bytes of whole buffers are known at once; slices of them may be far fewer.
    is_small = rows.get_total_buffer_size() < MAPPED_BYTES_MIN or rows.nbytes < MAPPED_BYTES_MIN
    if is_small or not hasattr(os, "memfd_create"):
        sink = pa.BufferOutputStream()
        sink.write(_ROWS)
        _write(sink, rows)
        channel.send(memoryview(sink.getvalue()))
        return
    descriptor = os.memfd_create("projseg-answer", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", buffering=0, closefd=False) as file:
            _write(pa.PythonFile(file, mode="w"), rows)
        channel.send(_FILE, descriptor)
    finally:
        os.close(descriptor)


def send_error(channel: Channel, error: Exception) -> None:
    """Reply with an error."""
    channel.send(_ERROR + json.dumps(told(error)).encode())


def rows_of(message: Message) -> pa.Table:
    """Return the rows of a reply.

    Raises
    ------
    Exception
        The error, if the reply is one.
    """
    kind = bytes(message.content[:1])
    if kind == _ERROR:
        raise error_of(json.loads(bytes(message.content[1:])))
    if message.descriptor is None:
        return pa.ipc.open_stream(pa.py_buffer(message.content[1:])).read_all()
    try:
        with pa.memory_map(f"/proc/self/fd/{message.descriptor}") as file:
            mapped = file.read_buffer()
    finally:
        os.close(message.descriptor)
    return pa.ipc.open_stream(mapped).read_all()


def _write(sink: pa.NativeFile, rows: pa.Table) -> None:
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)

"""A worker's life: it answers one question after the other until nobody is left to ask.

A thread waits for the other end of its channel to close, so that a worker ends at once with the
process that it works for, also in the middle of a question.
"""

from __future__ import annotations

import os
import pickle
import select
import threading
from collections.abc import Mapping
from contextlib import suppress

from projseg.errors import InvalidInputError
from projseg.query_pool.messages import (
    Channel,
    TableQuestion,
    VersionsOf,
    error_to_bytes,
    send_rows,
)


def work(channel: Channel, tables: Mapping[str, VersionsOf], threads: int) -> None:
    """Answer the questions of a channel until its other end is closed.

    Parameters
    ----------
    channel : Channel
        Brings questions and takes replies.
    tables : mapping of str to VersionsOf
        By their names in the pool.
    threads : int
        For a question that does not name a number.
    """
    threading.Thread(target=_end_with, args=(channel.fileno(),), daemon=True).start()
    with suppress(EOFError):
        while True:
            _answer(channel, tables, threads)


def _answer(channel: Channel, tables: Mapping[str, VersionsOf], threads: int) -> None:
    content = channel.receive()
    try:
        question = _question(content)
        version = tables[question.version.table].named(question.version)
        send_rows(channel, question.answer(version, threads))
    except EOFError:
        raise
    except Exception as error:  # noqa: BLE001 - the worker outlives a question that it cannot answer
        channel.send(error_to_bytes(error))


def _question(content: bytes) -> TableQuestion:
    try:
        question: TableQuestion = pickle.loads(content)  # noqa: S301 - of our own pool
    except (AttributeError, ImportError) as error:
        raise InvalidInputError(
            "PROJSEG_BAD_QUERY",
            f"a value of the query has a class that the pool's workers cannot import ({error}); "
            "give plain numbers, texts and times",
        ) from error
    return question


def _end_with(descriptor: int) -> None:
    """End this process when the other end of a connection is closed."""
    closing = select.poll()
    closing.register(descriptor, 0)  # which reports nothing but the end
    closing.poll()
    os._exit(0)

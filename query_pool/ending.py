"""How a process ended, in words, and its end within a bounded time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_SECONDS_MAX: Final = 5.0
_PAUSE_SECONDS: Final = 0.002


def ended(pid: int, patience_seconds: float = 0) -> str:
    """End a child of this process and say how it ended.

    A process that waits for its disk or network cannot be ended; it is waited for a few seconds
    only, and left.

    Parameters
    ----------
    pid : int
        The child.
    patience_seconds : float
        How long it may take to end by itself.
    """

    def kill() -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    return ending_of(lambda: _ending(pid), kill, patience_seconds)


def ending_of(ending: Callable[[], str], kill: Callable[[], None], patience_seconds: float) -> str:
    """Return how a process ended, which is killed if it does not end by itself.

    Parameters
    ----------
    ending : callable
        Returns how it ended, or nothing while it runs.
    kill : callable
        Kills it.
    patience_seconds : float
        How long it may take to end by itself.
    """
    told = _awaited(ending, patience_seconds)
    if not told:
        kill()
        told = _awaited(ending, _SECONDS_MAX)
    return told or "does not end"


def words_of(code: int) -> str:
    """Return an exit code, as `os.waitstatus_to_exitcode` returns it, in words."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _ending(pid: int) -> str:
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return "ended"  # another part of this process waits for all its children
    return words_of(os.waitstatus_to_exitcode(status)) if found else ""


def _awaited(ending: Callable[[], str], seconds: float) -> str:
    end = time.monotonic() + seconds
    while not (told := ending()) and time.monotonic() < end:
        time.sleep(_PAUSE_SECONDS)
    return told

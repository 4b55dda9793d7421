"""What a forked process does before its work: it lets go of what is its parent's alone."""

from __future__ import annotations

import os
import signal
import stat
from contextlib import suppress
from typing import Final

_STANDARD_STREAMS: Final = 3


def let_go(kept: int) -> None:
    """Leave a parent's signal handlers and connections to the parent.

    A connection that a child keeps open stays open when the parent closes it. Descriptors are
    overlaid instead of closed: objects of the parent, of which this process has copies, may close
    them later, when their numbers would be those of other files.

    Parameters
    ----------
    kept : int
        A descriptor that is this process's own.
    """
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)) or number == signal.SIGCHLD:
            signal.signal(number, signal.SIG_DFL)
    ignore_interrupts()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in _open_descriptors():
        if descriptor >= _STANDARD_STREAMS and descriptor not in (kept, nothing):
            with suppress(OSError):
                mode = os.fstat(descriptor).st_mode
                if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
                    os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)


def ignore_interrupts() -> None:
    """Leave Ctrl-C, which reaches all processes of a terminal, to the pool's own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _open_descriptors() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir("/dev/fd")]
    return list(range(os.sysconf("SC_OPEN_MAX")))

"""Keep a forked child from inheriting locks that threads of its parent hold.

A fork copies the memory of the process and only the thread that forks. A lock that another thread
holds at that moment stays locked in the child for ever, and what it guards may be half changed. So
the locks of process-wide state are taken before a fork and given back on both sides.
"""

from __future__ import annotations

# Modules that take locks of their own before a fork come first: Python then takes theirs after
# ours, so that what holds one of ours may still wait for one of theirs.
import concurrent.futures.thread  # noqa: F401
import logging  # noqa: F401
import os
from typing import Final, Protocol


class _Lock(Protocol):
    def acquire(self) -> object: ...

    def release(self) -> None: ...


_LOCKS: Final[list[_Lock]] = []


def hold_while_forking(lock: _Lock) -> None:
    """Let no fork happen while another thread holds `lock`.

    Parameters
    ----------
    lock : lock
        Held for short moments only, and never while waiting for another such lock.
    """
    _LOCKS.append(lock)


def _acquire() -> None:
    for lock in _LOCKS:
        lock.acquire()


def _release() -> None:
    for lock in reversed(_LOCKS):
        lock.release()


os.register_at_fork(before=_acquire, after_in_parent=_release, after_in_child=_release)

"""Fixtures: no test may leave a file descriptor behind, nor a thread."""

import gc
import os
import threading
import time

import pytest

_PATIENCE_SECONDS = 5


@pytest.fixture(autouse=True)
def no_open_files():
    before = descriptors()
    yield
    left = descriptors() - before
    if left:
        gc.collect()  # not always: it takes up to a second where Spark and Numba are loaded
        left = descriptors() - before
    end = time.monotonic() + _PATIENCE_SECONDS
    while left and time.monotonic() < end:  # a thread may still read for a query that failed
        time.sleep(0.05)
        left = descriptors() - before
    assert left == set(), f"a file was left open: {left}"


@pytest.fixture(autouse=True)
def no_threads():
    before = running_threads()
    yield
    assert running_threads() <= before, "a thread was left running"


def running_threads():
    """Return the running threads, except the pool that all queries of the process share."""
    return {t.ident for t in threading.enumerate() if not t.name.startswith("projseg")}


def descriptors():
    """Return (number, target) of every open file of this process."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        # Multiprocessing keeps the memory of its barriers; sockets belong to a Spark session, or
        # with the events that tell of them to the connections to an object store.
        if "/pym-" not in target and not target.startswith(("socket:", "anon_inode:[event")):
            found.add((number, target))
    return found

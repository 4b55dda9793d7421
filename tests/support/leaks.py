"""A fixture: no test may leave a file descriptor or a thread behind."""

import gc
import os
import threading

import pytest


@pytest.fixture(autouse=True)
def no_leaks():
    before = descriptors()
    threads = threading.active_count()
    yield
    gc.collect()
    assert descriptors() - before == set(), "a file was left open"
    assert threading.active_count() == threads, "a thread was left running"


def descriptors():
    """Return (number, target) of every open file of this process."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if "/pym-" not in target:  # multiprocessing keeps the memory of its barriers
            found.add((number, target))
    return found

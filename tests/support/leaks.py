"""Fixtures: no test may leave a file descriptor behind, nor a thread."""

import gc
import os
import threading

import pytest


@pytest.fixture(autouse=True)
def no_open_files():
    before = descriptors()
    yield
    gc.collect()
    assert descriptors() - before == set(), "a file was left open"


@pytest.fixture(autouse=True)
def no_threads():
    before = threading.active_count()
    yield
    assert threading.active_count() == before, "a thread was left running"


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

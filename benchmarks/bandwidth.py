"""Measure memory bandwidth on this machine in this run, after J. McCalpin's STREAM."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
from numpy.typing import NDArray

from projseg.benchmarks.records import Bandwidth

__all__ = ["best_bandwidth", "measure_bandwidth"]

_BYTES_PER_THREAD: Final = 512 << 20  # far beyond any cache
_REPEATS: Final = 5


def measure_bandwidth(thread_count: int) -> Bandwidth:
    """Return the best of several reads and copies of 512 MiB a thread."""
    words = _BYTES_PER_THREAD // 8
    sources = [np.ones(words, dtype=np.int64) for _ in range(thread_count)]
    targets = [np.zeros(words, dtype=np.int64) for _ in range(thread_count)]

    def read(index: int) -> None:
        # A bitwise reduction keeps up with memory, and NumPy releases the GIL in it.
        np.bitwise_or.reduce(sources[index])

    def copy(index: int) -> None:
        np.copyto(targets[index], sources[index])

    with ThreadPoolExecutor(thread_count) as pool:
        total = thread_count * _BYTES_PER_THREAD
        return Bandwidth(
            read_bytes_per_second=total / _best_seconds(pool, read, sources),
            copy_bytes_per_second=2 * total / _best_seconds(pool, copy, sources),
        )


def best_bandwidth(*measured: Bandwidth) -> Bandwidth:
    """Return the best of several measurements."""
    return Bandwidth(
        read_bytes_per_second=max(one.read_bytes_per_second for one in measured),
        copy_bytes_per_second=max(one.copy_bytes_per_second for one in measured),
    )


def _best_seconds(
    pool: ThreadPoolExecutor, task: Callable[[int], None], sources: list[NDArray[np.int64]]
) -> float:
    best = float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter()
        list(pool.map(task, range(len(sources))))
        best = min(best, time.perf_counter() - start)
    return best

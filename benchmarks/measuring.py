"""What is measured around a query: the times of a turn, peak memory, and the machine.

In a turn a query is repeated, so that warm answers are timed. Other engines worked since the last
turn, and the processor's caches hold their data. A quick answer would be timed while it fills the
caches again; for a slow one this hardly matters. So a quick query is asked again at once, and the
first answer of the turn does not count. The rule looks at the clock alone, and is the same for
every engine.
"""

from __future__ import annotations

import math
import os
import platform
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

_LIBRARIES: Final = ("projseg", "numpy", "numba", "pyarrow", "duckdb", "chdb", "pyspark")
_BYTES_PER_THREAD: Final = 512 << 20  # far beyond any cache
_REPEATS: Final = 5
_SAMPLE_SECONDS: Final = 0.02

ANSWERS_PER_TURN: Final = 4  # at most; the first does not count where there are more
TURN_MS: Final = 100.0  # no answer is begun after so much of the turn

Clock = Callable[[], float]


class TurnTime(NamedTuple):
    """Medians over the answers that count."""

    milliseconds: float
    cpu_milliseconds: float  # of this process, all threads


def take_turn(
    ask: Callable[[], object], *, clock: Clock = time.perf_counter, cpu: Clock = time.process_time
) -> TurnTime:
    """Ask again and again until four answers or 100 ms, whichever comes first.

    An answer is let go outside the time measured; clocks count seconds.
    """
    times: list[tuple[float, float]] = []
    start = clock()
    while len(times) < ANSWERS_PER_TURN and (clock() - start) * 1000.0 < TURN_MS:
        asked, cpu_asked = clock(), cpu()
        answer = ask()
        times.append(((clock() - asked) * 1000.0, (cpu() - cpu_asked) * 1000.0))
        del answer
    milliseconds, cpu_milliseconds = zip(*(times[1:] or times), strict=True)
    return TurnTime(statistics.median(milliseconds), statistics.median(cpu_milliseconds))


def ask_at_once(clients: Sequence[Callable[[], object]], seconds: float) -> dict[str, Any]:
    """Return the rate and latencies of clients that each ask as soon as they have an answer."""
    times: list[float] = []
    started = threading.Barrier(len(clients) + 1)

    def ask_again_and_again(ask: Callable[[], object]) -> None:
        own: list[float] = []
        started.wait()
        end = time.perf_counter() + seconds
        while not own or time.perf_counter() < end:
            asked = time.perf_counter()
            ask()
            own.append(time.perf_counter() - asked)
        times.extend(own)

    threads = [threading.Thread(target=ask_again_and_again, args=(ask,)) for ask in clients]
    for thread in threads:
        thread.start()
    started.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    taken = time.perf_counter() - begun
    times.sort()
    p50, p99 = (times[math.ceil(share * len(times)) - 1] * 1000 for share in (0.5, 0.99))
    return {"per second": len(times) / taken, "p50 ms": p50, "p99 ms": p99}


@contextmanager
def peak_memory(*, is_wanted: bool = True) -> Iterator[list[int]]:
    """Yield a list that gets the peak bytes of this process and its children; none without psutil.

    Mapped files do not count: they are the page cache's, and staged rows are read by mapping.
    """
    found: list[int] = []
    members, stop = _processes() if is_wanted else None, threading.Event()
    if members is None:
        yield found
        return
    peak = 0

    def sample() -> None:
        nonlocal peak
        is_last = False
        while not is_last:
            is_last = stop.wait(_SAMPLE_SECONDS)  # one more sample after the end
            memory = members(lambda one: one.memory_info())
            peak = max(peak, sum(one.rss - getattr(one, "shared", 0) for one in memory))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join()
        found.append(peak)


def processor_seconds() -> float:
    """Return the processor time of this process and its children that are running."""
    members = _processes()
    if members is None:
        return time.process_time()
    return float(sum(one.user + one.system for one in members(lambda one: one.cpu_times())))


def _processes() -> Callable[[Callable[[Any], Any]], list[Any]] | None:
    """Return a function that asks this process and its children; None without psutil."""
    try:
        import psutil  # optional: extra [bench]
    except ImportError:
        return None
    this = psutil.Process()

    def answers_of(ask: Callable[[Any], Any]) -> list[Any]:
        found = []
        for member in (this, *this.children(recursive=True)):
            try:
                found.append(ask(member))
            except psutil.NoSuchProcess:  # ended since it was listed
                continue
        return found

    return answers_of


def describe_machine() -> dict[str, Any]:
    """Return the machine, the libraries and the commit that a run's figures depend on."""
    root = checkout()
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _git(root, "rev-parse", "HEAD"),
        "has_local_changes": bool(_git(root, "status", "--porcelain", "--untracked-files=no")),
        "cpu": _cpu_name(),
        "cpu_count": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": _versions(),
    }


def checkout() -> Path | None:
    """Return the root of the working tree that this code runs from; None when installed."""
    root = Path(__file__).resolve().parents[1]
    return root if (root / ".git").exists() else None


def read_bandwidth(thread_count: int) -> float:
    """Return bytes read a second, the best of several reads of 512 MiB a thread."""
    sources = [np.ones(_BYTES_PER_THREAD // 8, dtype=np.int64) for _ in range(thread_count)]
    with ThreadPoolExecutor(thread_count) as pool:
        # A bitwise reduction keeps up with memory, and NumPy releases the GIL in it.
        seconds = _best_seconds(lambda: list(pool.map(np.bitwise_or.reduce, sources)))
    return thread_count * _BYTES_PER_THREAD / seconds


def _best_seconds(task: Callable[[], object]) -> float:
    """Return the least time of several."""
    taken = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        task()
        taken.append(time.perf_counter() - start)
    return min(taken)


def _versions() -> dict[str, str]:
    found = {}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _git(root: Path | None, *arguments: str) -> str | None:
    """Return git's output; None outside a checkout or without git."""
    git = shutil.which("git")
    if root is None or git is None:
        return None
    done = subprocess.run(  # noqa: S603  fixed arguments, no shell
        [git, "-C", str(root), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None

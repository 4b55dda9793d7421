"""One turn of an engine at one query: it is repeated, so that warm answers are timed.

Other engines worked since the last turn, and the processor's caches hold their data. A quick answer
would be timed while it fills the caches again; for a slow one this hardly matters. So a quick query
is asked again at once, and the first answer of the turn does not count. The rule looks at the clock
alone, and is the same for every engine.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

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

    Parameters
    ----------
    ask : callable
        Gives one answer, which is let go outside the time measured.
    clock, cpu : callable
        Seconds, and seconds of the processor.
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

"""One turn of an engine at one query: it is repeated, so that warm answers are timed.

Other engines worked since the last turn, and the processor's caches hold their data. A quick answer
would be timed while it fills the caches again; for a slow one this hardly matters. So a quick query
is asked again at once, and the first answer of the turn does not count. The rule looks at the clock
alone, and is the same for every engine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["ANSWERS_PER_TURN", "TURN_MS", "TurnTime", "take_turn"]

ANSWERS_PER_TURN: Final = 4  # at most; the first does not count where there are more
TURN_MS: Final = 100.0  # no answer is begun after so much of the turn

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class TurnTime:
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

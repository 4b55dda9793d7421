"""Which of many candidates to store within a budget: greedily by benefit per byte, then exchanges.

The benefit of a set grows with it, and a candidate adds to a larger set no more than to a smaller
one; so greedy choices, compared with the best single candidate, are within a bound of the best set.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_LEAST_SHARE: Final = 0.01  # of the benefit of all, that a member must add
_EXCHANGES_MAX: Final = 200


class SavedTimes:
    """Milliseconds that each candidate saves for each shape; a set saves the greatest of them.

    These are float64[candidates, shapes], not negative.
    """

    def __init__(self, saved: NDArray[np.float64]) -> None:
        self._saved = saved

    def of(self, members: Iterable[int]) -> float:
        """Return the milliseconds that a set of candidates saves."""
        chosen = list(members)
        return float(self._saved[chosen].max(axis=0).sum()) if chosen else 0.0

    def added(self, members: Sequence[int], candidate: int) -> float:
        """Return the milliseconds that a candidate adds to those of a set."""
        return self.of([*members, candidate]) - self.of(members)


def choose_within(
    saved: SavedTimes,
    sizes: Sequence[int],
    budget: float,
    check: Callable[[], object] = lambda: None,
    *,
    exchanges: bool = True,
) -> list[int]:
    """Return the candidates of a set that saves much within a budget of bytes, in order of choice.

    `check` is called now and then; its error ends the search. Chosen candidates are exchanged for
    others if `exchanges`, which takes most of the time.
    """
    fitting = [place for place, size in enumerate(sizes) if size <= budget]
    by_byte = _greedy(saved, sizes, budget, fitting, per_byte=True)
    by_time = _greedy(saved, sizes, budget, fitting, per_byte=False)
    chosen = max((by_byte, by_time), key=saved.of)
    check()
    if exchanges:
        chosen = _exchanged(saved, sizes, budget, chosen, fitting, check)
    return _without_small(saved, chosen)


def _greedy(
    saved: SavedTimes,
    sizes: Sequence[int],
    budget: float,
    fitting: Sequence[int],
    *,
    per_byte: bool,
) -> list[int]:
    """Choose lazily: what a candidate adds only falls, so most are not looked at again."""

    def worth(gain: float, place: int) -> float:
        return gain / max(sizes[place], 1) if per_byte else gain

    waiting = [(-worth(saved.of([place]), place), place, 0) for place in fitting]
    heapq.heapify(waiting)
    chosen: list[int] = []
    left = budget
    while waiting:
        rated, place, round_ = heapq.heappop(waiting)
        if sizes[place] > left or rated >= 0:
            continue
        if round_ == len(chosen):
            chosen.append(place)
            left -= sizes[place]
        else:
            gain = saved.added(chosen, place)
            heapq.heappush(waiting, (-worth(gain, place), place, len(chosen)))
    return chosen


def _exchanged(
    saved: SavedTimes,
    sizes: Sequence[int],
    budget: float,
    chosen: list[int],
    fitting: Sequence[int],
    check: Callable[[], object],
) -> list[int]:
    """Put one candidate in the place of another, or beside all, while that saves more."""
    for _ in range(_EXCHANGES_MAX):
        check()
        best, gain = None, saved.of(chosen) * (1 + 1e-9) + 1e-9
        used = sum(sizes[one] for one in chosen)
        for place in fitting:
            if place in chosen:
                continue
            for gone in (None, *chosen):
                size = used + sizes[place] - (0 if gone is None else sizes[gone])
                if size > budget:
                    continue
                other = [one for one in chosen if one != gone] + [place]
                if (total := saved.of(other)) > gain:
                    best, gain = other, total
        if best is None:
            return chosen
        chosen = best
    return chosen


def _without_small(saved: SavedTimes, chosen: list[int]) -> list[int]:
    """Return a set without members that add next to nothing to the others."""
    kept = list(chosen)
    whole = saved.of(kept)
    for one in reversed(chosen):
        others = [each for each in kept if each != one]
        if whole - saved.of(others) < _LEAST_SHARE * whole:
            kept, whole = others, saved.of(others)
    return kept

"""A turn repeats quick answers until they are warm, and asks for slow ones once."""

from __future__ import annotations

import pytest

from projseg.benchmarks.measuring import TurnTime, take_turn


class _Engine:
    """Takes these milliseconds of a clock of its own, twice of them on processors."""

    def __init__(self, *milliseconds):
        self.answers, self._left = 0, list(milliseconds)
        self.seconds = self.cpu_seconds = 0.0

    def ask(self):
        milliseconds = self._left.pop(0)
        self.answers += 1
        self.seconds += milliseconds / 1000
        self.cpu_seconds += milliseconds / 500

    def turn(self):
        return take_turn(self.ask, clock=lambda: self.seconds, cpu=lambda: self.cpu_seconds)


@pytest.mark.parametrize(
    ("milliseconds", "answers", "median"),
    [
        ([9, 2, 4, 3, 1], 4, 3),  # quick: four answers, the first of them cold
        ([60, 50, 40], 2, 50),  # 100 ms are over after the second
        ([90, 4, 40, 40], 3, 22),
        ([2000, 1], 1, 2000),  # slow: once
    ],
)
def test_a_turn_repeats_what_is_quick(milliseconds, answers, median):
    engine = _Engine(*milliseconds)
    time = engine.turn()
    assert engine.answers == answers
    assert time == TurnTime(pytest.approx(median), pytest.approx(2 * median))


def test_a_failure_ends_the_turn():
    with pytest.raises(IndexError):
        _Engine(1, 1).turn()

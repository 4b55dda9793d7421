"""Is a run worse than an earlier one? Only projseg's own figures can regress.

The machine may be slower during one of two runs. Where both contain peers, the median ratio of the
peers' times measures this drift, and every time of the later run is divided by it. A query
regressed when both its median and its minimum did, which one disturbed round cannot cause.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from projseg.benchmarks.results import Figure, ScenarioResults, format_measure
from projseg.errors import InvalidInputError

SLOWER_BY_MORE_THAN: Final = 0.25
LARGER_BY_MORE_THAN: Final = 0.02
_NOISE: Final = {"ms": 0.1, "s": 0.1}  # smaller differences are noise
_FREE: Final = {"rounds", "peers", "queries"}  # arguments in which compared runs may differ

_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing two runs found."""

    drift: float  # how much slower the machine was in the later run, by the peers
    ratios: dict[_Key, float]  # (table, case, way) -> later / earlier of the first measure
    regressions: tuple[str, ...]  # a sentence each


def compare_results(
    earlier: ScenarioResults, later: ScenarioResults, *, tolerance: float = SLOWER_BY_MORE_THAN
) -> Comparison:
    """Compare projseg's figures of two runs of one scenario over the same rows.

    Parameters
    ----------
    earlier, later : ScenarioResults
        With equal arguments but for rounds, engines and queries.
    tolerance : float
        Share by which a time may grow.

    Returns
    -------
    Comparison
        Cases that only one run has are not compared.

    Raises
    ------
    InvalidInputError
        If the runs are of other scenarios or other arguments.
    """
    plans = [{"scenario": one.scenario, **one.arguments} for one in (earlier, later)]
    for name in sorted((plans[0].keys() | plans[1].keys()) - _FREE):
        before, after = (plan.get(name) for plan in plans)
        if before != after:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"the runs differ in {name}: {before} and {after}; compare runs of equal arguments",
            )
    pairs = list(_pairs(earlier, later))
    changes = [
        _least(after, measure) / _least(before, measure)
        for before, after in pairs
        if before.way in earlier.peers and (measure := _time_of(before)) and _least(before, measure)
    ]
    drift = statistics.median(changes) if changes else 1.0
    ratios: dict[_Key, float] = {}
    problems: list[str] = []
    for before, after in pairs:
        if before.way in earlier.peers:
            continue
        measure = _time_of(before)
        if measure and (first := before.number(measure)):
            ratio = (after.number(measure) or 0.0) / drift / first
            ratios[before.table, before.case, before.way] = ratio
        problems += _worse(before, after, drift, tolerance)
    problems += [problem for problem in later.problems if problem not in earlier.problems]
    return Comparison(drift, ratios, tuple(problems))


def _pairs(earlier: ScenarioResults, later: ScenarioResults) -> Iterator[tuple[Figure, Figure]]:
    found = {(one.table, one.case, one.way): one for one in later.figures}
    for one in earlier.figures:
        if (other := found.get((one.table, one.case, one.way))) is not None:
            yield one, other


def _time_of(figure: Figure) -> str | None:
    """Return the first measure where it is a time that both runs can compare."""
    measure = next(iter(figure.values), "")
    return measure if measure.rpartition(" ")[2] in _NOISE and figure.number(measure) else None


def _least(figure: Figure, measure: str) -> float:
    value: Any = figure.values.get(measure) or 0.0
    return float(min(value)) if isinstance(value, list) else float(value)


def _worse(before: Figure, after: Figure, drift: float, tolerance: float) -> Iterator[str]:
    """Yield a sentence for each measure that grew too much: the time, and bytes that are stored."""
    subject = " ".join(filter(None, (before.way, before.table, before.case)))
    time = _time_of(before)
    for measure in before.values.keys() & after.values.keys():
        first, second = before.number(measure), after.number(measure)
        if first is None or second is None:
            continue
        if measure == time:
            noise = _NOISE[measure.rpartition(" ")[2]]
            least = (_least(before, measure), _least(after, measure))
            is_worse = all(
                new / drift > old * (1.0 + tolerance) and new / drift - old > noise
                for old, new in ((first, second), least)
            )
        else:
            is_stored = measure.endswith("bytes")
            is_worse = is_stored and second > first * (1.0 + LARGER_BY_MORE_THAN)
        if is_worse:
            texts = (format_measure(measure, value) for value in (first, second))
            yield f"{subject}: {measure} {' became '.join(texts)} (drift {drift:.2f})"

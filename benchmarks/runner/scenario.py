"""A scenario: a name, what it measures, its arguments; and what runs one."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from projseg.benchmarks.results import Figure, ScenarioResults
from projseg.benchmarks.runner.answers import same_answer
from projseg.benchmarks.runner.machine import describe_machine
from projseg.benchmarks.workloads.question import require_known
from projseg.errors import InvalidInputError


@dataclass(frozen=True)
class Scenario:
    """One thing to measure.

    Parameters
    ----------
    name : str
        Of the command `projseg bench run NAME`.
    measures : str
        What, in a sentence.
    arguments : mapping
        Defaults by name; a value that is given has the default's type.
    function : str
        The module and the name of what adds its figures to the `Bench` that it gets.
    small : dict
        Arguments with which it takes seconds, for tests.
    """

    name: str
    measures: str
    arguments: Mapping[str, Any]
    function: str
    small: dict[str, Any] = field(default_factory=dict)

    def run(self, bench: Bench) -> None:
        """Import what measures it, with the libraries of its peers, and let it add figures."""
        module, _, name = self.function.rpartition(".")
        getattr(import_module(module), name)(bench)

    def with_arguments(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the arguments with those that `NAME=VALUE` words give."""
        return {**self.arguments, **self.given(words)}

    def given(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the arguments that `NAME=VALUE` words give.

        Raises
        ------
        InvalidInputError
            For a name that the scenario lacks, or a value of another type.
        """
        found: dict[str, Any] = {}
        for name, _, text in (word.partition("=") for word in words):
            require_known(name, self.arguments, f"an argument of {self.name}")
            kind = type(self.arguments[name])
            try:
                found[name] = kind(text)
            except ValueError:
                raise InvalidInputError(
                    "PROJSEG_BAD_ARGUMENT", f"'{name}={text}': give {name} as {kind.__name__}"
                ) from None
        return found


@dataclass
class FreshProcess:
    """What a process took from its start to its end, and the JSON value that it printed last."""

    seconds: float
    cpu_seconds: float
    printed: Any


@dataclass
class Bench:
    """The arguments and the place of one run, and what it has found."""

    arguments: Mapping[str, Any]
    folder: Path
    progress: Callable[[str], None]
    figures: list[Figure] = field(default_factory=list)
    peers: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def names(self, name: str) -> list[str]:
        """Return an argument's words, which commas separate."""
        return [word.strip() for word in str(self[name]).split(",") if word.strip()]

    def numbers(self, name: str) -> list[int]:
        """Return an argument's numbers, which commas separate."""
        return [int(word) for word in self.names(name)]

    def add(self, table: str, case: str, way: str, values: Mapping[str, Any]) -> None:
        """Keep a figure, numbers with five digits."""
        rounded = {
            measure: [_rounded(one) for one in value]
            if isinstance(value, list)
            else _rounded(value)
            for measure, value in values.items()
        }
        self.figures.append(Figure(table, case, way, rounded))

    @contextmanager
    def timed(self, table: str, case: str, way: str = "") -> Iterator[dict[str, Any]]:
        """Add the seconds of a block as a figure, with the measures that it leaves."""
        values: dict[str, Any] = {}
        with measured() as spent:
            yield values
        self.add(table, case, way, {**spent, **values})

    def repeat(
        self,
        table: str,
        case: str,
        way: str,
        act: Callable[[int], object],
        repeats: int,
        wanted: object = None,
    ) -> None:
        """Add the spread of calls with the numbers from 0 on, the first of which does not count.

        Each must return what is wanted, if that is known.
        """
        times = []
        for number in range(repeats + 1):
            with measured() as spent:
                found = act(number)
            times.append(spent)
            if wanted is not None:
                self.require(table, found, wanted)
        self.add(table, case, way, spread(times[1:]))

    def require(self, what: str, found: object, wanted: object) -> None:
        """Note what is not as it must be."""
        if found != wanted:
            self.problems.append(f"differs: {what} gave {found} instead of {wanted}")

    def require_same(
        self, wanted: Mapping[str, pa.Table], found: Mapping[str, pa.Table], step: str
    ) -> None:
        """Note each answer that a step changed; rows may come in any order."""
        for name, answer in wanted.items():
            if not same_answer(answer, found[name]):
                self.problems.append(f"differs: {name} after {step}")

    def in_new_process(self, code: str) -> FreshProcess:
        """Run Python code alone; modules that it compiles are kept for the next process."""
        settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        started, used = time.perf_counter(), _used_by_children()
        done = subprocess.run(  # noqa: S603 - this Python, and code of a scenario
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=settings
        )
        taken = time.perf_counter() - started
        lines = done.stdout.splitlines()
        printed = json.loads(lines[-1]) if lines else None
        return FreshProcess(taken, _used_by_children() - used, printed)


@contextmanager
def measured() -> Iterator[dict[str, Any]]:
    """Yield a dict that gets the seconds of the clock and of the processor, of all threads."""
    spent: dict[str, Any] = {}
    start, processor = time.perf_counter(), time.process_time()
    yield spent
    spent["s"] = time.perf_counter() - start
    spent["cpu s"] = time.process_time() - processor


def spread(times: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the middle and the worst of what `measured` gave several times, in milliseconds."""
    clock, processor = ([1000 * one[unit] for one in times] for unit in ("s", "cpu s"))
    found = {"ms": np.median(clock), "p99 ms": np.percentile(clock, 99)}
    return {name: float(value) for name, value in {**found, "cpu ms": np.median(processor)}.items()}


def cpu_ms(act: Callable[[], object], rounds: int = 1) -> float:
    """Return the median processor time of a call, of all threads, in milliseconds."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        act()
        times.append((time.process_time() - started) * 1000)
    return float(np.median(times))


def run_scenario(
    scenario: Scenario,
    arguments: Mapping[str, Any],
    progress: Callable[[str], None],
    folder: Path | None = None,
) -> ScenarioResults:
    """Run a scenario in a temporary folder, which is made in the one given."""
    machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="projseg-bench-", dir=folder) as place:
        bench = Bench(arguments, Path(place), progress)
        scenario.run(bench)
    return ScenarioResults(
        scenario.name, dict(arguments), machine, bench.figures, bench.peers, bench.problems
    )


def _rounded(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _used_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

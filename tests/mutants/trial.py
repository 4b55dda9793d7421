"""Tests run over the mutants of one module, each mutant in a forked process.

A process imports the tests, runs them once and notes which functions of the module each of them
calls. For each mutant it forks a child that gives the functions their changed bodies and runs those
tests alone, until one fails. A mutant of code outside of functions, and one that survives, is given
all tests in a process that imports the module changed.
"""

from __future__ import annotations

import importlib
import math
import os
import resource
import select
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from tests.mutants.code_swap import (
    NOTE,
    ChangedModule,
    forget,
    functions_of,
    noting,
    private_constant,
    swap,
    users_of,
)
from tests.mutants.mutations import Mutant

ROOT = Path(__file__).parents[2]
_SPARE_SECONDS = 20.0
_WAITS_MAX = 10
_EXAMPLES_MAX = 40
_UNFIT = "unfit"
SURVIVED = "survived"
TOO_LONG = "killed by the time limit"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: `result` is SURVIVED, TOO_LONG or names the test that failed."""

    mutant: Mutant
    result: str

    @property
    def survived(self) -> bool:
        """Whether no test failed."""
        return self.result == SURVIVED


def try_mutants(
    path: str,
    tests: Sequence[str],
    mutants: Sequence[Mutant],
    tried_again: Callable[[Mutant], bool],
    told: Callable[[Outcome], None],
) -> None:
    """Run a module's tests over its mutants.

    Parameters
    ----------
    path : str
        The module's file, from the repository's root.
    tests : sequence of str
        Test files.
    mutants : sequence of Mutant
        What to try.
    tried_again : Mutant -> bool
        Whether a survivor is given a second trial, by all tests.
    told : Outcome -> None
        Called in this process as soon as an outcome is known.

    Raises
    ------
    RuntimeError
        If the tests fail without a mutant.
    """
    os.environ["PROJSEG_NIGHTLY"] = "1"  # by day tests draw fewer than `_EXAMPLES_MAX`
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _quiet()
        plugin = _Trials(path, mutants, writer)
        status = pytest.main([*_ARGUMENTS, *tests], plugins=[plugin])
        os._exit(int(status))
    os.close(writer)
    seconds = 0.0
    with os.fdopen(reader) as answers:
        for answer in answers:
            word, _, result = answer.rstrip("\n").partition(" ")
            if word == "seconds":
                seconds = float(result)
                continue
            mutant = mutants[int(word)]
            if result == _UNFIT or (result == SURVIVED and tried_again(mutant)):
                result = _try_anew(path, tests, mutant, 2 * _SPARE_SECONDS + 4 * seconds)
            told(Outcome(mutant, result))
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"the tests of {path} fail without a mutant: {' '.join(tests)}")


_ARGUMENTS = (
    *("-x", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(ROOT)),
    *("-m", "slow or not slow"),  # what CI leaves out kills, too
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # Hypothesis is here before pytest
)


def _quiet() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)


def module_name(path: str) -> str:
    """Return the dotted name that a file is imported by."""
    return "projseg." + path.removesuffix(".py").replace("/", ".")


class _Repeatable:
    """Makes Hypothesis draw the same few examples each time, and keep and shrink none."""

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        phases = (Phase.explicit, Phase.generate)
        current = settings.get_profile("projseg")
        settings.register_profile(
            "mutants", current, derandomize=True, database=None, phases=phases
        )
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            test = getattr(item.obj, "__func__", item.obj)  # type: ignore[attr-defined]
            drawn = getattr(test, "_hypothesis_internal_use_settings", None)
            if drawn is not None:
                fewer = settings(drawn, max_examples=min(drawn.max_examples, _EXAMPLES_MAX))
                test._hypothesis_internal_use_settings = fewer


class _Trials(_Repeatable):
    def __init__(self, path: str, mutants: Sequence[Mutant], answers: int) -> None:
        self._path, self._mutants, self._answers = path, mutants, answers
        self._seconds: dict[str, float] = {}
        self._callers: dict[int, set[str]] = defaultdict(set)
        self._killers: dict[int | None, list[pytest.Item]] = defaultdict(list)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests as they are, then those of each mutant."""
        source = (ROOT / self._path).read_text()
        module = importlib.import_module(module_name(self._path))
        self._run_unchanged(session.items, module, source)
        self._tell(f"seconds {sum(self._seconds.values())}")
        forget()
        functions = functions_of(module)
        for index, mutant in enumerate(self._mutants):
            change = _change(module, functions, source, mutant)
            if change is None:
                self._tell(f"{index} {_UNFIT}")
                continue
            apply, lines = change
            items = self._order(session.items, mutant.function, lines)

            def run(apply: Callable[[], bool] = apply, items: list[pytest.Item] = items) -> str:
                return _first_failure(items) if apply() else _UNFIT

            limit = _SPARE_SECONDS + 4 * sum(self._seconds[item.nodeid] for item in items)
            result = _in_child(run, limit)
            killer = next((item for item in items if item.nodeid == result), None)
            if killer is not None:
                self._killers[mutant.function].insert(0, killer)
            self._tell(f"{index} {result}")
        return True

    def _tell(self, text: str) -> None:
        os.write(self._answers, f"{text}\n".encode())

    def _order(
        self, items: list[pytest.Item], function: int | None, lines: set[int]
    ) -> list[pytest.Item]:
        """Return the tests that call the functions at `lines`, what killed its like first."""
        callers = set().union(*(self._callers[line] for line in lines))
        chosen = [item for item in items if item.nodeid in callers]
        first = list(dict.fromkeys(self._killers[function]))[:3]
        return [*first, *(item for item in chosen if item not in first)]

    def _run_unchanged(self, items: list[pytest.Item], module: ModuleType, source: str) -> None:
        called: set[int] = set()
        setattr(module, NOTE, called.add)
        path = str(module.__file__)
        assert swap(functions_of(module), path, source, noting(source))
        for index, item in enumerate(items):
            following = items[index + 1] if index + 1 < len(items) else None
            started = time.monotonic()
            called.clear()
            reports = runtestprotocol(item, log=False, nextitem=following)
            self._seconds[item.nodeid] = time.monotonic() - started
            if any(report.failed for report in reports):
                pytest.exit(f"{item.nodeid} fails without a mutant", returncode=1)
            for line in called:
                self._callers[line].add(item.nodeid)
        assert swap(functions_of(module), path, noting(source), source)
        self._share_fixtures(items)

    def _share_fixtures(self, items: list[pytest.Item]) -> None:
        """Count what one test of a file calls for all of them if they share what it sets up."""
        by_file: dict[str, set[str]] = defaultdict(set)
        for item in items:
            by_file[str(item.path)].add(item.nodeid)
        sharing = {
            item.nodeid: by_file[str(item.path)]
            for item in items
            if any(d[-1].scope != "function" for d in _fixtures(item))
        }
        for callers in self._callers.values():
            for nodeid in list(callers):
                callers |= sharing.get(nodeid, set())


def _change(
    module: ModuleType, functions: list[FunctionType], source: str, mutant: Mutant
) -> tuple[Callable[[], bool], set[int]] | None:
    """Return what makes a mutant of an imported module, and where the functions that differ begin.

    None where only importing it makes it.
    """
    path = str(module.__file__)
    if mutant.function is not None:
        return lambda: swap(functions, path, source, mutant.source), {mutant.function}
    found = private_constant(mutant.source, path, mutant.line)
    if found is None:
        return None
    name, value = found

    def assign() -> bool:
        setattr(module, name, eval(value, dict(vars(module))))
        return True

    return assign, users_of(functions, name)


def _fixtures(item: pytest.Item) -> list[Any]:
    found = getattr(item, "_fixtureinfo", None)
    definitions = found.name2fixturedefs.items() if found is not None else ()
    own = [each for _, each in definitions if each]
    return [each for each in own if "tests/" in str(each[-1].baseid)]


def _first_failure(items: Sequence[pytest.Item]) -> str:
    for index, item in enumerate(items):
        following = items[index + 1] if index + 1 < len(items) else None
        item._initrequest()  # type: ignore[attr-defined]
        reports = runtestprotocol(item, log=False, nextitem=following)
        if any(report.failed for report in reports):
            return item.nodeid
    return SURVIVED


def _in_child(run: Callable[[], str], seconds_max: float) -> str:
    """Return what `run` gives in a forked process; a crash kills, and so does too long a time.

    The time is the processor's: other processes may take most of it. A mutant may also wait for
    ever, which takes none.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds_max), resource.RLIM_INFINITY))
        try:
            result = run()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it kills
            result = f"killed by {type(error).__name__}"
        os.write(writer, result.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as answers:
        ready, _, _ = select.select([answers], [], [], _WAITS_MAX * seconds_max)
        result = answers.read().decode() if ready else TOO_LONG
    if not ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    took_too_long = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
    return TOO_LONG if took_too_long else result or "killed by a crash"


class _FirstFailure(_Repeatable):
    def __init__(self) -> None:
        self.nodeid = SURVIVED

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.nodeid == SURVIVED:
            self.nodeid = report.nodeid


def _try_anew(path: str, tests: Sequence[str], mutant: Mutant, seconds_max: float) -> str:
    def run() -> str:
        _quiet()
        ChangedModule(module_name(path), mutant.source).install()
        found = _FirstFailure()
        status = pytest.main([*_ARGUMENTS, *tests], plugins=[found])
        return found.nodeid if found.nodeid != SURVIVED or status == 0 else f"killed: {status}"

    return _in_child(run, seconds_max)

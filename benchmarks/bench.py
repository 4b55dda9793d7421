"""A scenario and its run: what it measures, its arguments, its figures, and whether answers agree.

The order of rows is no part of an answer, nor are the types of engines.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.benchmarks.measuring import TurnTime, describe_machine, take_turn
from projseg.benchmarks.results import Figure, ScenarioResults
from projseg.benchmarks.workload import Question, require_known
from projseg.errors import InvalidInputError

RELATIVE_TOLERANCE: Final = 1e-9  # sums of doubles depend on the order of addition
SMALL_COUNT: Final = 20.0
_DECIMAL_DIGITS: Final = 76  # Arrow's most
APPROXIMATION_BOUND: Final = 0.15  # three of the 5 % standard deviations that Spark promises


@dataclass(frozen=True)
class Scenario:
    """One thing to measure, by the name that `projseg bench run NAME` takes, and what it measures.

    `function` is the module and name of what adds its figures to the `Bench` that it gets;
    `arguments` are defaults, whose types those given have; with those in `small` it takes seconds.
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
        return {**self.arguments, **self.given_arguments(words)}

    def given_arguments(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the arguments that `NAME=VALUE` words give.

        Raises InvalidInputError for a name that the scenario lacks, or a value of another type.
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

        Each must return the expected answer, if there is one.
        """
        times = []
        for number in range(repeats + 1):
            with measured() as spent:
                found = act(number)
            times.append(spent)
            if wanted is not None:
                self.require(table, found, wanted)
        self.add(table, case, way, spread(times[1:]))

    def compare(self, table: str, case: str, ways: Mapping[str, Callable[[], pa.Table]]) -> None:
        """Ask each way in turns, and note an answer with other rows than the first way's."""
        answers = {way: ask() for way, ask in ways.items()}
        first, *others = answers
        for way in others:
            found = first_difference(answers[first], answers[way])
            if found is not None:
                self.problems.append(f"differs: {case} by {way}: {found}")
        counts = {way: answer.num_rows for way, answer in answers.items()}
        del answers
        times: dict[str, list[TurnTime]] = {way: [] for way in ways}
        for _ in range(self["rounds"]):
            for way, ask in ways.items():
                times[way].append(take_turn(ask))
        for way, taken in times.items():
            clock, processor = (statistics.median(column) for column in zip(*taken, strict=True))
            self.add(table, case, way, {"ms": clock, "cpu ms": processor, "rows": counts[way]})

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


def normalised(answer: pa.Table, query: Question) -> pa.Table:
    """Return the answer with the query's names, plain types and one order of rows.

    Columns that the query does not determine are left out. Whole numbers become int64,
    times microseconds UTC, texts strings; decimals keep their scale;
    rows are sorted by all exact columns, so two right answers differ in approximate and floating
    columns only.
    """
    arrays = [_plain(column.combine_chunks()) for column in answer.columns]
    table = pa.table(arrays, names=list(query.output_names))
    if query.determined is not None:
        table = table.select(list(query.determined))
    keys = [(name, "ascending") for name in _sort_columns(table, query)]
    return table.sort_by(keys) if keys and table.num_rows > 1 else table


def first_difference(reference: pa.Table, answer: pa.Table) -> str | None:
    """Return the first difference of two answers; None if there is none.

    Columns are compared by their places, rows come in any order, doubles are close, and whole
    numbers of any width are equal by value.
    """
    if answer.num_columns != reference.num_columns:
        return f"{answer.num_columns} columns instead of {reference.num_columns}"
    one, other = (_in_order(table, reference.column_names) for table in (reference, answer))
    return _first_unequal(one, other, reference.column_names)


def _in_order(answer: pa.Table, names: Sequence[str]) -> pa.Table:
    places = [str(place) for place in range(len(names))]
    arrays = [_plain(column.combine_chunks()) for column in answer.columns]
    table = pa.table(arrays, names=places)
    is_exact = {f.name: not pa.types.is_floating(f.type) for f in table.schema}
    keys = [(name, "ascending") for name in sorted(places, key=lambda name: not is_exact[name])]
    return (table.sort_by(keys) if keys and len(table) > 1 else table).rename_columns(list(names))


def find_difference(reference: pa.Table, answer: pa.Table, query: Question) -> str | None:
    """Return the first difference of two normalised answers, None if there is none.

    Approximate columns are not looked at; see `approximation_error`.
    """
    names = [name for name in reference.column_names if name not in query.approximate_outputs]
    return _first_unequal(reference, answer, names)


def _first_unequal(reference: pa.Table, answer: pa.Table, names: Sequence[str]) -> str | None:
    if answer.num_rows != reference.num_rows:
        return f"{answer.num_rows} rows instead of {reference.num_rows}"
    for name in names:
        expected, found = reference[name].combine_chunks(), answer[name].combine_chunks()
        unequal = _unequal_rows(expected, found)
        if unequal is None:
            return f"{name} is {found.type} instead of {expected.type}"
        if len(unequal):
            row = int(unequal[0])
            return (
                f"{name} differs in {len(unequal)} of {len(found)} rows, first in row {row}:"
                f" {found[row].as_py()!r} instead of {expected[row].as_py()!r}"
            )
    return None


def same_answer(one: pa.Table, other: pa.Table) -> bool:
    """Whether two answers of one schema hold the same rows in any order; doubles up to rounding."""
    if one.schema != other.schema or len(one) != len(other):
        return False
    keys = [(f.name, "ascending") for f in one.schema if not pa.types.is_floating(f.type)]
    if keys:
        one, other = one.sort_by(keys), other.sort_by(keys)
    return all(
        np.allclose(left.to_numpy(), right.to_numpy(), rtol=RELATIVE_TOLERANCE, equal_nan=True)
        if pa.types.is_floating(left.type)
        else left.equals(right)
        for left, right in zip(one.columns, other.columns, strict=True)
    )


def approximation_error(exact: pa.Table, answer: pa.Table, query: Question) -> float | None:
    """Return the largest relative error of the approximate columns against exact counts.

    Counts below `SMALL_COUNT` are judged as that: one more than six is no error of 17 %.
    """
    if not query.approximate_outputs or exact.num_rows != answer.num_rows:
        return None
    errors = []
    for name in query.approximate_outputs:
        truth = exact[name].combine_chunks().to_numpy(zero_copy_only=False).astype(np.float64)
        found = answer[name].combine_chunks().to_numpy(zero_copy_only=False).astype(np.float64)
        errors.append(np.max(np.abs(found - truth) / np.maximum(truth, SMALL_COUNT), initial=0.0))
    return float(max(errors))


def _unequal_rows(expected: pa.Array, found: pa.Array) -> NDArray[np.intp] | None:
    """Return the positions of unequal rows; None when the types cannot be compared."""
    types = (expected.type, found.type)
    if any(map(pa.types.is_floating, types)) and all(map(_is_fractional, types)):
        return _apart(expected, found)
    if all(map(pa.types.is_decimal, types)):
        expected, found = _of_one_scale(expected, found)
    if expected.type != found.type:
        return None
    is_equal = pc.equal(expected, found)
    both_null = pc.and_(pc.is_null(expected), pc.is_null(found))
    unequal = pc.invert(pc.if_else(both_null, True, pc.fill_null(is_equal, False)))
    return np.flatnonzero(unequal.to_numpy(zero_copy_only=False))


def _is_fractional(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _apart(expected: pa.Array, found: pa.Array) -> NDArray[np.intp]:
    """Return the positions of doubles that are not close; a decimal may have been rounded."""
    scales = [one.type.scale for one in (expected, found) if pa.types.is_decimal(one.type)]
    rounding = 0.5 * 10.0 ** -min(scales) if scales else 0.0
    left, right = (
        array.cast(pa.float64()).to_numpy(zero_copy_only=False) for array in (expected, found)
    )
    is_close = np.isclose(right, left, rtol=RELATIVE_TOLERANCE, atol=rounding, equal_nan=True)
    return np.flatnonzero(~is_close)


def _of_one_scale(expected: pa.Array, found: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return decimals with as many digits after the point as either has."""
    scale = max(expected.type.scale, found.type.scale)
    wide = pa.decimal256(_DECIMAL_DIGITS, scale)
    return expected.cast(wide), found.cast(wide)


def _sort_columns(table: pa.Table, query: Question) -> list[str]:
    """Return the exact columns, and the floating ones after them where rows are scanned."""
    exact = [
        field.name
        for field in table.schema
        if field.name not in query.approximate_outputs and not pa.types.is_floating(field.type)
    ]
    floating = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    return exact + floating if query.columns else exact


def _plain(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("us"))
    for is_such, plain in _PLAIN_TYPES:
        if is_such(array.type):
            return array.cast(plain)
    return array


def _is_whole_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) and kind.scale == 0)


_PLAIN_TYPES: Final[tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...]] = (
    (pa.types.is_integer, pa.int64()),
    (_is_whole_decimal, pa.int64()),  # DuckDB's sums of integers are 128 bits wide
    (pa.types.is_floating, pa.float64()),
    (pa.types.is_timestamp, pa.timestamp("us", tz="UTC")),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_string_view, pa.string()),
    (pa.types.is_binary, pa.string()),  # ClickHouse's strings are any bytes
)

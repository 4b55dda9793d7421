"""Where a query's time goes: processor milliseconds, and the functions that spend them.

Everything runs in one thread, tasks meant for other threads included, so that one profile sees it
all. Compiled kernels appear by their own names, as Numba reports its calls to the profiler; the
time of built-in and library functions written in C is that of their callers. Small Python functions
look more expensive than they are, because the profiler records each call.
"""

from __future__ import annotations

import cProfile
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Final
from unittest.mock import patch

from rich.table import Table

from projseg import errors
from projseg.benchmarks.figures import format_ms
from projseg.benchmarks.peers.projseg_engine import ProjsegBase, ProjsegProjections
from projseg.benchmarks.question import Question
from projseg.benchmarks.staging import Source
from projseg.benchmarks.workload import Workload
from projseg.kernels.runtime.kernel import interpreter

__all__ = ["FunctionCost", "QueryProfile", "profile_queries", "profile_table"]

_REPEATS: Final = 5
_PACKAGE: Final = Path(errors.__file__).parent


@dataclass(frozen=True, slots=True)
class FunctionCost:
    """One function in one answer."""

    place: str  # folder/file.py:line name
    calls: float
    own_ms: float  # of processor time, without the functions that it calls
    total_ms: float


@dataclass(frozen=True, slots=True)
class QueryProfile:
    """One query; its functions by falling own time."""

    query: str
    cpu_ms: float  # median, without the profiler
    functions: tuple[FunctionCost, ...]

    def shares(self) -> dict[str, float]:
        """Return the share of all own time of each folder, a layer or a library."""
        spent: defaultdict[str, float] = defaultdict(float)
        for function in self.functions:
            folder, slash, _ = function.place.partition("/")
            spent[folder if slash else "generated"] += function.own_ms
        whole = sum(spent.values()) or 1.0
        return {folder: own_ms / whole for folder, own_ms in spent.items()}


def profile_queries(
    workload: Workload,
    queries: Iterable[Question],
    source: Source,
    folder: Path,
    *,
    with_projections: bool = True,
) -> Iterator[QueryProfile]:
    """Load the rows once, then profile warm answers of each query.

    Parameters
    ----------
    workload : Workload
        The table and its projections.
    queries : iterable of Question
        In this order.
    source : Source
        Staged rows; Parquet is not needed.
    folder : Path
        An existing place for the table.
    with_projections : bool
        Whether the table has the workload's projections.
    """
    interpreter.retire()  # stored machine code has no names
    engine = (ProjsegProjections if with_projections else ProjsegBase)(folder, 1, workload)
    engine.load(source)
    engine.open()
    for query in queries:
        with patch.object(ThreadPoolExecutor, "submit", _submit_inline):
            yield _profile(query.name, lambda query=query: engine.answer(query))  # type: ignore[misc]


def profile_table(profile: QueryProfile, function_count: int) -> Table:
    """Return the query's dearest functions as a table for a terminal."""
    table = Table(title=f"{profile.query}: {format_ms(profile.cpu_ms)} ms of processor time")
    for heading in ("own ms", "with callees", "calls"):
        table.add_column(heading, justify="right")
    table.add_column("function", overflow="fold")
    for cost in profile.functions[:function_count]:
        times = (format_ms(cost.own_ms), format_ms(cost.total_ms))
        table.add_row(*times, f"{cost.calls:g}", cost.place)
    shares = sorted(profile.shares().items(), key=lambda share: -share[1])
    table.caption = ", ".join(f"{folder} {share:.0%}" for folder, share in shares if share > 0.01)
    return table


def _profile(name: str, ask: Callable[[], object]) -> QueryProfile:
    ask()  # decodes and compiles what is kept
    cpu_ms = statistics.median(_cpu_ms(ask) for _ in range(_REPEATS))
    profiler = cProfile.Profile(time.process_time, builtins=False)
    with profiler:
        for _ in range(_REPEATS):
            ask()
    costs = [
        FunctionCost(
            _place(entry.code),
            entry.callcount / _REPEATS,
            entry.inlinetime * 1000.0 / _REPEATS,
            entry.totaltime * 1000.0 / _REPEATS,
        )
        for entry in profiler.getstats()
    ]
    return QueryProfile(name, cpu_ms, tuple(sorted(costs, key=lambda cost: -cost.own_ms)))


def _cpu_ms(ask: Callable[[], object]) -> float:
    start = time.process_time()
    ask()
    return (time.process_time() - start) * 1000.0


def _place(code: CodeType | str) -> str:
    """Return where a function stands, from the folder of its layer or its library on."""
    if isinstance(code, str):
        return code.strip("<>")  # built in
    path = Path(code.co_filename)
    if path.is_relative_to(_PACKAGE):
        path = path.relative_to(_PACKAGE)
    elif "site-packages" in path.parts:
        path = Path(*path.parts[path.parts.index("site-packages") + 1 :])
    else:
        path = Path(*path.parts[-2:])
    return f"{path.as_posix()}:{code.co_firstlineno} {code.co_name}"


def _submit_inline(
    _pool: ThreadPoolExecutor, task: Callable[..., Any], /, *arguments: Any, **named: Any
) -> Future[Any]:
    """Do a pool's task at once, in the calling thread."""
    done: Future[Any] = Future()
    try:
        done.set_result(task(*arguments, **named))
    except Exception as error:  # noqa: BLE001  as in a pool, the caller gets it from the future
        done.set_exception(error)
    return done

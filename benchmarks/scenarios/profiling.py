"""Where the time of queries goes: by function, up to a process's first answer, for new values.

Everything runs in one thread, tasks meant for other threads included, so that one profile sees it
all. Compiled kernels appear by their own names, as Numba reports its calls to the profiler; the
time of built-in and library functions written in C is that of their callers. Small Python functions
look more expensive than they are, because the profiler records each call.

Of new values: questions with a new value each time, beside the same questions asked again.
"""

from __future__ import annotations

import cProfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import projseg
from projseg import errors
from projseg.benchmarks.bench import Bench, cpu_ms, measured
from projseg.benchmarks.engine_comparison import select_engines
from projseg.benchmarks.generator import SCHEMA, EditStream
from projseg.benchmarks.scenarios.table_life import HOURLY
from projseg.benchmarks.workload import stage
from projseg.benchmarks.written_workloads import EDITS
from projseg.kernels.runtime.kernel import interpreter

_ASK: Final = "import projseg; projseg.Table({location!r}).query({question})"
_LOAD: Final = (
    "import projseg, tempfile; source = projseg.Table({location!r});"
    " made = tempfile.mkdtemp(dir={folder!r}) + '/table';"
    " projseg.Table.create(made, source.schema, time_column='time').append(source.scan())"
)
_FRESH: Final = (
    "import os, tempfile; os.environ['NUMBA_CACHE_DIR'] = tempfile.mkdtemp(dir={folder!r});"
)
_QUESTIONS: Final = {
    "covered": "group_by='channel', aggregators='sum(added) AS added, count(*) AS edits'",
    "base rows": "group_by='user', aggregators='count(*) AS edits'",
}

_REPEATS: Final = 5
_PACKAGE: Final = Path(errors.__file__).parent

_START: Final = datetime(2024, 1, 1, tzinfo=UTC)
_COUNTRIES: Final = 400
_ASKED: Final = 60
_GROUPS: Final = {"group_by": "channel", "aggregators": "count(*) AS n, sum(added) AS s"}
_Given = Mapping[str, Any]
_OF_VALUES: Final[dict[str, tuple[_Given, Callable[[int], dict[str, Any]]]]] = {
    "covered": (
        {**_GROUPS, "filter": "country = :c"},
        lambda n: {"args": {"c": f"country{n}"}},
    ),
    "covered, literal": (
        _GROUPS,
        lambda n: {"filter": f"country = 'country{n}'"},
    ),
    "covered, literal in a list": (
        _GROUPS,
        lambda n: {"filter": f"country IN ('country{n}', 'country{n + 1}')"},
    ),
    "covered, two values": (
        {**_GROUPS, "filter": "country = :c AND channel < :d"},
        lambda n: {"args": {"c": f"country{n}", "d": f"ch{n % 20}"}},
    ),
    "covered, in a list": (
        {**_GROUPS, "filter": "country IN (:c)"},
        lambda n: {"args": {"c": [f"country{n}", f"country{n + 1}"]}},
    ),
    "covered, no such value": (
        {**_GROUPS, "filter": "country = :c"},
        lambda n: {"args": {"c": f"country none {n}"}},
    ),
    "base rows": (
        {**_GROUPS, "filter": "page = :p"},
        lambda n: {"args": {"p": n}},
    ),
    "base rows of an hour": (
        {**_GROUPS, "filter": "time >= :t AND time < :t + INTERVAL 1 HOUR"},
        lambda n: {"args": {"t": _START + timedelta(hours=n)}},
    ),
    "base rows of an hour, literal": (
        _GROUPS,
        lambda n: {
            "filter": f"time >= TIMESTAMP '{_START + timedelta(hours=n):%Y-%m-%d %H:%M:%S}' "
            f"AND time < TIMESTAMP '{_START + timedelta(hours=n + 1):%Y-%m-%d %H:%M:%S}'"
        },
    ),
    "base rows of an interval": (
        _GROUPS,
        lambda n: {"interval": (_START + timedelta(hours=n), _START + timedelta(hours=n + 1))},
    ),
}


def run(bench: Bench) -> None:
    """Profile each query."""
    source = stage(EditStream(bench["rows"]), bench.folder / "source", with_parquet=False)
    (engine_kind,) = select_engines([bench["engine"]])
    engine = engine_kind(bench.folder, 1, EDITS)
    engine.load(source)
    engine.open()
    for query in EDITS.select(bench.names("queries")):
        spent_ms, functions = dearest_functions(partial(engine.answer, query))
        title = f"{query.name}: {spent_ms:.3g} ms of processor time"
        for place, values in functions[: bench["functions"]]:
            bench.add(title, place, "", values)


def dearest_functions(
    ask: Callable[[], object],
) -> tuple[float, list[tuple[str, dict[str, float]]]]:
    """Return a question's processor time in milliseconds, and its functions, the dearest first.

    Of each function: where it stands, and its measures.
    """
    interpreter.retire()  # stored machine code has no names
    with patch.object(ThreadPoolExecutor, "submit", _submit_inline):
        ask()  # decodes and compiles what is kept
        spent_ms = cpu_ms(ask, _REPEATS)
        profiler = cProfile.Profile(time.process_time, builtins=False)
        with profiler:
            for _ in range(_REPEATS):
                ask()
    found = []
    for entry in sorted(profiler.getstats(), key=lambda entry: -entry.inlinetime):
        values = {
            "own ms": entry.inlinetime * 1000.0 / _REPEATS,
            "with callees ms": entry.totaltime * 1000.0 / _REPEATS,
            "calls": entry.callcount / _REPEATS,
        }
        found.append((_place(entry.code), values))
    return spent_ms, found


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


def run_first_answers(bench: Bench) -> None:
    """Measure new processes to their first answer, or to the end of a first load.

    On a machine that has run projseg before, and with an empty folder of kernels, as on a fresh
    one. On a machine that does other work as well, only the processor's time tells the cost.
    """
    location = str(bench.folder / "edits")
    table = projseg.Table.create(
        location, SCHEMA, time_column="time", segment_granularity="day", projections=[HOURLY]
    )
    table.append(EditStream(bench["rows"]).reader())
    codes = {
        name: _ASK.format(location=location, question=question)
        for name, question in _QUESTIONS.items()
    }
    folder = str(bench.folder)
    codes["load"] = _LOAD.format(location=location, folder=folder)
    fresh = _FRESH.format(folder=folder)
    codes |= {f"{name}, fresh machine": fresh + code for name, code in codes.items()}
    for name, code in (codes | {"import pyarrow": "import pyarrow"}).items():
        bench.in_new_process(code)  # leaves compiled modules and kernels behind
        done = [bench.in_new_process(code) for _ in range(bench["rounds"])]
        seconds = [one.seconds for one in done]
        bench.add("processes", name, "", {"s": seconds, "cpu s": [one.cpu_seconds for one in done]})


def new_values(bench: Bench) -> None:
    """Ask tables of several sizes."""
    for count in bench.numbers("rows"):
        rows = _rows(count)
        countries = projseg.Projection(
            "countries", group_by=["country", "channel"], aggregators=["count(*)", "sum(added)"]
        )
        table = projseg.Table.create(
            bench.folder / str(count),
            rows.schema,
            time_column="time",
            projections=[countries],
            data=rows,
        )
        for name, question in _OF_VALUES.items():
            figure = _costs(table, *question, bench["rounds"])
            bench.add(f"{count:,} rows", name, "", figure)


def _costs(
    table: projseg.Table, parts: _Given, values: Callable[[int], dict[str, Any]], rounds: int
) -> dict[str, float]:
    """Return the least of the rounds, of processor time a question; one warms the table up.

    New and repeated questions take turns, so that a slower minute of the machine slows both.
    """

    def milliseconds(first: int) -> float:
        with measured() as spent:
            for number in range(first, first + _ASKED):
                table.query(**parts, **values(number))
        return float(spent["cpu s"]) / _ASKED * 1e3

    milliseconds(0)
    firsts = [number * _ASKED for number in range(1, rounds + 1)]
    timed = [(milliseconds(first), milliseconds(first)) for first in firsts]
    new, again = map(min, zip(*timed, strict=True))
    return {"new cpu ms": new, "again cpu ms": again, "new / again": new / again}


def _rows(row_count: int) -> pa.Table:
    rng = np.random.default_rng(1)
    micros = np.sort(rng.integers(0, 30 * 86_400_000_000, row_count))
    times = np.datetime64(_START.replace(tzinfo=None), "us") + micros.astype("timedelta64[us]")
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "country": [f"country{n}" for n in rng.integers(0, _COUNTRIES, row_count)],
            "channel": [f"ch{n}" for n in rng.integers(0, 20, row_count)],
            "page": pa.array(rng.integers(0, 5000, row_count), pa.int32()),
            "added": rng.integers(0, 1000, row_count),
        }
    )

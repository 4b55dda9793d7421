"""What a view spares: a covered group-by over many small segments, and what a refresh takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import projseg
from projseg.benchmarks.runner.scenario import Bench, Scenario
from projseg.memory.cache import KEPT

__all__ = ["VIEWS"]

_HOUR_US: Final = 3_600_000_000
_QUESTION: Final = "SELECT channel, sum(added) AS added, count(*) AS edits FROM t GROUP BY channel"
_VIEW: Final = (
    "SELECT channel, date_trunc('DAY', time) AS day, sum(added) AS added, count(*) AS edits "
    "FROM t GROUP BY ALL"
)
_WARM_RUNS: Final = 15
_COLD_RUNS: Final = 3


def _run(bench: Bench) -> None:
    """Ask tables of several numbers of segments, with the view and without."""
    for count in bench.numbers("segments"):
        bench.progress(f"{count:,} segments")
        location = bench.folder / f"t{count}"
        table = _made(location, count, bench["rows"])
        started = time.process_time()
        view = table.create_view("v", _VIEW, chunk=bench["chunk"])
        built = time.process_time() - started
        assert isinstance(view, projseg.View)
        parts = view.parts().num_rows
        bench.add("build", f"{count:,} segments", "", {"cpu s": built, "parts": parts})
        for way, context in (("view", {"forceViews": True}), ("segments", {"noViews": True})):
            cold = [_cold_ms(location, context) for _ in range(_COLD_RUNS)]
            opened = projseg.Table(location)
            _ask(opened, context)
            warm = [_ms(partial(_ask, opened, context)) for _ in range(_WARM_RUNS)]
            medians = [float(np.median(times)) for times in (cold, warm)]
            figure = dict(zip(("cold cpu ms", "warm cpu ms"), medians, strict=True))
            bench.add("questions", f"{count:,} segments", way, figure)
        bench.add("refresh", f"{count:,} segments", "after 1 %", _appended(table, count, bench))


def _made(location: Path, count: int, rows: int) -> projseg.Table:
    """Make a table of `count` hours with `rows` rows each."""
    table = projseg.Table.create(
        location,
        {"time": "timestamp", "channel": "string", "added": "bigint"},
        time_column="time",
        segment_granularity="hour",
    )
    for first in range(0, count, 1000):
        table.append(_rows(first, min(first + 1000, count), rows))
    return table


def _rows(first: int, end: int, rows: int) -> pa.Table:
    generator = np.random.default_rng(first)
    hours = np.repeat(np.arange(first, end), rows)
    times = hours * _HOUR_US + generator.integers(0, _HOUR_US, len(hours))
    channels = pa.DictionaryArray.from_arrays(
        pa.array(generator.integers(0, 50, len(hours)).astype(np.int32)),
        pa.array([f"#{n:02}" for n in range(50)]),
    )
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("us", tz="UTC")),
            "channel": channels.dictionary_decode(),
            "added": generator.integers(-100, 1000, len(hours)),
        }
    )


def _appended(table: projseg.Table, count: int, bench: Bench) -> dict[str, float]:
    """Return what the view's refresh takes after an append of a hundredth, and a full build."""
    view = table.view("v")
    view.disable()
    table.append(_rows(count, count + max(count // 100, 1), bench["rows"]))
    added = _ms(view.enable)
    full = _ms(lambda: view.refresh(full=True))
    return {"refresh cpu ms": added, "full cpu ms": full, "share": added / full}


def _ask(table: projseg.Table, context: dict[str, Any]) -> None:
    assert table.sql(_QUESTION, context=context).num_rows == 50


def _cold_ms(location: Path, context: dict[str, Any]) -> float:
    """Return the processor time of a question of an open table, nothing being cached."""
    KEPT.clear()
    table = projseg.Table(location)
    return _ms(lambda: _ask(table, context))


def _ms(act: Callable[[], object]) -> float:
    """Return the processor time of a call, of all threads, in milliseconds."""
    started = time.process_time()
    act()
    return (time.process_time() - started) * 1000


VIEWS: Final = Scenario(
    name="views",
    measures="a group-by that a view covers, over many segments, and refreshing the view",
    arguments={"segments": "100,1000,10000", "rows": 2000, "chunk": "month"},
    run=_run,
    small={"segments": "24", "rows": 20, "chunk": "day"},
)

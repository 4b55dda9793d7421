"""What a view spares, over many small segments; what refreshes take, and thousands of views."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import projseg
from projseg.benchmarks.bench import Bench, cpu_ms, measured
from projseg.memory.cache import KEPT
from projseg.table_layer.metadata.change import NO_NOTE
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.definitions.definition import define
from projseg.views.refresh_view import Refresher
from projseg.views.refresh_work import Work
from projseg.views.view_commits import store_write, with_store
from projseg.views.view_life import NewView
from projseg.views.view_records import ViewEntry

# ruff: noqa: S608 - texts are made of names of this module
_HOUR_US: Final = 3_600_000_000
_QUESTION: Final = "SELECT channel, sum(added) AS added, count(*) AS edits FROM t GROUP BY channel"
_VIEW: Final = (
    "SELECT channel, date_trunc('DAY', time) AS day, sum(added) AS added, count(*) AS edits "
    "FROM t GROUP BY ALL"
)
_STAR: Final = (
    "SELECT d.region, date_trunc('DAY', time) AS day, sum(added) AS added "
    "FROM t JOIN d ON t.channel = d.code GROUP BY ALL"
)
_PROJECTION: Final = {
    "name": "p",
    "group_by": ["channel", "date_trunc('DAY', time) AS day"],
    "aggregators": ["sum(added) AS added", "count(added) AS known", "count(*) AS edits"],
}
_COUNTED: Final = ("kept", "relabelled", "subtracted", "refolded", "added", "rows_read")
_APPENDS: Final = 5
_WARM_RUNS: Final = 15
_COLD_RUNS: Final = 3


def run(bench: Bench) -> None:
    """Ask tables of several numbers of segments; those of many more only through the view.

    With `hours` all tables span the same time with `rows` in each hour, so that their views have as
    many groups, and only questions are asked.
    """
    compared = 0
    for count in bench.numbers("segments"):
        bench.progress(f"{count:,} segments")
        case, location = f"{count:,} segments", bench.folder / f"t{count}"
        length = bench["hours"] * _HOUR_US // count or _HOUR_US
        table = _written_table(location, count, max(bench["rows"] * length // _HOUR_US, 1), length)
        with measured() as spent:
            view = table.create_view("v", _VIEW, chunk=bench["chunk"])
        assert isinstance(view, projseg.View)
        parts = view.parts().num_rows
        bench.add("build", case, "rows", {"cpu s": spent["cpu s"], "parts": parts})
        is_large = count > bench["compared"]
        for way, context in (("view", {"forceViews": True}), ("segments", {"noViews": True})):
            if is_large and way == "segments":
                break
            cold = [_cold_ms(location, context) for _ in range(_COLD_RUNS)]
            opened = projseg.Table(location)
            _ask(opened, context)
            warm = cpu_ms(partial(_ask, opened, context), _WARM_RUNS)
            figure = {"cold cpu ms": float(np.median(cold)), "warm cpu ms": warm}
            bench.add("questions", case, way, figure)
        if is_large or bench["hours"]:
            continue
        bench.add("refresh", case, "after 1 %", _appended(table, count, bench))
        bench.add("refresh", case, "after a row a chunk was deleted", _deleted(table))
        bench.add("refresh", case, "after a compaction", _compacted(table, bench))
        for way, figures in _of_dimension(bench.folder / f"d{count}", table, bench):
            bench.add("refresh", case, way, figures)
        bench.add("append", f"100,000 rows to {case}", "", _append_with_view(table, count))
        compared = count
    if compared:
        bench.add(
            "build", f"{compared:,} segments", "projections", _from_projections(bench, compared)
        )


def _deleted(table: projseg.Table) -> dict[str, Any]:
    """Return what a refresh takes after one row of each part was deleted."""
    view = table.view("v")
    starts = [one["chunk"] for one in view.parts().to_pylist()]
    view.disable()
    times = [
        table.sql(f"SELECT min(time) AS t FROM t WHERE time >= {_timestamp(start)}")["t"][0].as_py()
        for start in starts
    ]
    table.delete(f"time IN ({', '.join(map(_timestamp, times))})")
    taken = cpu_ms(view.enable)
    return {"refresh cpu ms": taken, **_figures(view)}


def _compacted(table: projseg.Table, bench: Bench) -> dict[str, Any]:
    """Return what a refresh takes after the smallest segments were compacted."""
    view = table.view("v")
    view.disable()
    table.append(_rows(0, 24, max(bench["rows"] // 20, 1)))
    view.enable()
    view.disable()
    table.compact(interval="1970-01-01/1970-01-02")
    taken = cpu_ms(view.enable)
    return {"refresh cpu ms": taken, **_figures(view)}


def _of_dimension(
    location: Path, table: projseg.Table, bench: Bench
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a refresh of a star's view takes after changes of its dimension."""
    schema = pa.schema([("code", pa.string()), ("region", pa.string())])
    names = [*(f"#{n:02}" for n in range(50)), "#rare"]
    rows = pa.table([names, [f"r{n % 5}" for n in range(51)]], schema)
    channels = projseg.Table.create(location, schema, data=rows)
    chunks = [one["chunk"] for one in table.view("v").parts().to_pylist()]
    table.append(_rare_rows([chunks[0], chunks[-1]]))
    view = table.create_view("star", _STAR, tables={"d": channels}, chunk=bench["chunk"])
    assert isinstance(view, projseg.View)
    view.set_properties({"refresh": "deferred"})
    new = [f"new{n}" for n in range(10_000)]
    channels.append(pa.table([new, ["new"] * len(new)], schema))
    taken = cpu_ms(view.refresh)
    yield "after 10,000 new dimension rows", {"refresh cpu ms": taken, **_figures(view)}
    channels.update({"region": "'other'"}, "code = '#rare'")
    taken = cpu_ms(view.refresh)
    yield "after a dimension row of two chunks changed", {"refresh cpu ms": taken, **_figures(view)}
    view.drop()


def _rare_rows(times: Sequence[dt.datetime]) -> pa.Table:
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("us", tz="UTC")),
            "channel": ["#rare"] * len(times),
            "added": [1] * len(times),
        }
    )


def _append_with_view(table: projseg.Table, count: int) -> dict[str, Any]:
    """Return the seconds of an append of 100,000 rows with a view on commit, and without."""
    view = table.view("v")
    taken: dict[str, list[tuple[float, float]]] = {"with": [], "without": []}
    for turn in range(2 * _APPENDS):
        way = ("with", "without")[turn % 2]
        (view.enable if way == "with" else view.disable)()
        rows = _rows(count + 2 * turn, count + 2 * turn + 2, 50_000)
        with measured() as spent:
            table.append(rows)
        taken[way].append((spent["s"], spent["cpu s"]))
    view.enable()
    with_view, without = (np.median(taken[way], axis=0) for way in ("with", "without"))
    return {
        "with s": float(with_view[0]), "without s": float(without[0]),
        "with cpu s": float(with_view[1]), "without cpu s": float(without[1]),
        "cpu ratio": float(with_view[1] / without[1]),
    }  # fmt: skip


def _from_projections(bench: Bench, count: int) -> dict[str, Any]:
    """Return what a build from projections takes beside the same group-by with nothing cached."""
    location = bench.folder / "projected"
    table = _written_table(location, count, bench["rows"], projections=[_PROJECTION])
    asked = []
    for _ in range(_COLD_RUNS):
        KEPT.clear()
        opened = projseg.Table(location)
        asked.append(cpu_ms(lambda: opened.sql(_VIEW)))  # noqa: B023 - called at once
    KEPT.clear()
    table = projseg.Table(location)
    built = cpu_ms(lambda: table.create_view("v", _VIEW, chunk=bench["chunk"]))
    rows_read = table.view("v").detail()["last_refresh"]["rows_read"]
    group_by = float(np.median(asked))
    return {
        "build cpu ms": built, "group by cpu ms": group_by, "ratio": built / group_by,
        "rows read": rows_read,
    }  # fmt: skip


def _figures(view: projseg.View) -> dict[str, int]:
    done = view.detail()["last_refresh"]
    return {name: done[name] for name in _COUNTED}


def _timestamp(time: dt.datetime) -> str:
    return f"TIMESTAMP '{time.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S.%f}'"


def _written_table(
    location: Path, count: int, rows: int, length: int = _HOUR_US, **options: Any
) -> projseg.Table:
    """Make a table of `count` segments with `rows` rows each, of `length` microseconds."""
    table = projseg.Table.create(
        location,
        {"time": "timestamp", "channel": "string", "added": "bigint"},
        time_column="time",
        segment_granularity=f"PT{length // 1_000_000}S",
        **options,
    )
    for first in range(0, count, 1000):
        table.append(_rows(first, min(first + 1000, count), rows, length))
    return table


def _rows(first: int, end: int, rows: int, length: int = _HOUR_US) -> pa.Table:
    generator = np.random.default_rng(first)
    hours = np.repeat(np.arange(first, end), rows)
    times = hours * length + generator.integers(0, length, len(hours))
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
    added = cpu_ms(view.enable)
    full = cpu_ms(lambda: view.refresh(full=True))
    return {"refresh cpu ms": added, "full cpu ms": full, "share": added / full}


def _ask(table: projseg.Table, context: dict[str, Any]) -> None:
    assert table.sql(_QUESTION, context=context).num_rows == 50


def _cold_ms(location: Path, context: dict[str, Any]) -> float:
    """Return the processor time of a question of an open table, nothing being cached."""
    KEPT.clear()
    table = projseg.Table(location)
    return cpu_ms(lambda: _ask(table, context))


_COLUMNS: Final = 32
_KEYS_ASKED: Final = {
    "no view has its key": "SELECT other, sum(added) AS added FROM t WHERE other <> {} "
    "GROUP BY other",
    "a few views have its keys": "SELECT c0, c1, c2, sum(added) AS added FROM t WHERE c1 <> {} "
    "GROUP BY c0, c1, c2",
    "hundreds of views have its key": "SELECT c0, sum(added) AS added FROM t WHERE c0 <> {} "
    "GROUP BY c0",
}


def many(bench: Bench) -> None:
    """Plan queries of a table with many views, and of one with none."""
    plain = _made_wide(bench.folder / "plain", bench["rows"])
    viewed = _made_wide(bench.folder / "viewed", bench["rows"])
    bench.progress(f"making {bench['views']:,} views")
    _add_views(viewed.snapshot, bench["views"])
    del plain, viewed
    for name, text in _KEYS_ASKED.items():
        for way in ("plain", "viewed"):
            first, again = _planning_ms(bench.folder / way, text)
            bench.add("planning", name, way, {"first cpu ms": first, "new value cpu ms": again})


def _made_wide(location: Path, rows: int) -> projseg.Table:
    """Make a table of `_COLUMNS` columns with ten values each, and one segment."""
    generator = np.random.default_rng(7)
    names = [*(f"c{n}" for n in range(_COLUMNS)), "other", "added"]
    columns = [pa.array(generator.integers(0, 10, rows)) for _ in names]
    table = pa.table(columns, names)
    return projseg.Table.create(location, table.schema, data=table)


def _definitions() -> Iterator[str]:
    names = [f"c{n}" for n in range(_COLUMNS)]
    for some in chain.from_iterable(combinations(names, n) for n in (3, 2, 1)):
        yield f"SELECT {', '.join(some)}, sum(added) AS added FROM t GROUP BY ALL"


def _add_views(snapshot: Snapshot, count: int) -> None:
    """Build many views, and publish them in one commit."""
    snapshot, store = with_store(snapshot, NO_NOTE)
    with store_write(store) as write:
        views: dict[str, ViewEntry] = {}
        for number, sql in enumerate(islice(_definitions(), count)):
            new = NewView(f"v{number}", define(sql, snapshot.properties))
            built, _ = Refresher(snapshot, store, new.entry(snapshot), Work()).build(write)
            assert built is not None
            views[built.view_id] = built
        write.commit(lambda known: {**known, **views}, "create views", NO_NOTE)


def _planning_ms(location: Path, text: str) -> tuple[float, float]:
    """Return what planning takes with nothing cached, and for another value after that."""
    KEPT.clear()
    table = projseg.Table(location)
    taken = [cpu_ms(partial(table.sql, text.format(value))) for value in range(-_WARM_RUNS, 0)]
    return taken[0], float(np.median(taken[1:]))

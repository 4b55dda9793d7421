"""What thousands of views of one table cost a query that no view, or one, can answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import projseg
from projseg.benchmarks.runner.scenario import Bench, cpu_ms
from projseg.memory.cache import KEPT
from projseg.table_layer.metadata.commit_info import NO_NOTE
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.definitions.definition import define
from projseg.views.refresh_view import Refresher
from projseg.views.refresh_work import Work
from projseg.views.view_commits import store_write, with_store
from projseg.views.view_life import NewView
from projseg.views.view_records import ViewEntry

_COLUMNS: Final = 32
_RUNS: Final = 15
# ruff: noqa: S608 - texts are made of names of this module
_QUESTIONS: Final = {
    "no view has its key": "SELECT other, sum(added) AS added FROM t WHERE other <> {} "
    "GROUP BY other",
    "a few views have its keys": "SELECT c0, c1, c2, sum(added) AS added FROM t WHERE c1 <> {} "
    "GROUP BY c0, c1, c2",
    "hundreds of views have its key": "SELECT c0, sum(added) AS added FROM t WHERE c0 <> {} "
    "GROUP BY c0",
}


def run(bench: Bench) -> None:
    """Plan queries of a table with many views, and of one with none."""
    plain = _made(bench.folder / "plain", bench["rows"])
    viewed = _made(bench.folder / "viewed", bench["rows"])
    bench.progress(f"making {bench['views']:,} views")
    _add_views(viewed.snapshot, bench["views"])
    del plain, viewed
    for name, text in _QUESTIONS.items():
        for way in ("plain", "viewed"):
            first, again = _planning_ms(bench.folder / way, text)
            bench.add("planning", name, way, {"first cpu ms": first, "new value cpu ms": again})


def _made(location: Path, rows: int) -> projseg.Table:
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
    taken = [cpu_ms(partial(table.sql, text.format(value))) for value in range(-_RUNS, 0)]
    return taken[0], float(np.median(taken[1:]))

"""Many groups, and rows in an order, within budgets of memory: time, memory, temporary bytes.

The budget is projseg's PROJSEG_GROUP_BYTES, which bounds groups and sorted rows, and DuckDB's
memory_limit, which bounds all that it buffers. Each question is asked in a process of its own, of
which the peak is sampled; `asked` is what it has before the question.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc

from projseg.benchmarks.bench import Bench, measured
from projseg.benchmarks.measuring import peak_memory
from projseg.memory.temporary_batches import LIMIT_SETTING
from projseg.table import Table

GROUPS: Final = "many groups"
ROWS: Final = "rows in an order"
_STATEMENTS: Final = {
    GROUPS: "SELECT id, text, sum(v) AS s, count(*) AS n FROM t GROUP BY id, text "
    "ORDER BY s DESC, id, text LIMIT 1000",
    ROWS: "SELECT text, v, id FROM t ORDER BY text, v, id",
}
_SAMPLE_SECONDS: Final = 0.02
_CHILD: Final = (
    "import os; os.environ.update({settings!r});"
    " from projseg.benchmarks.scenarios.large_answers import print_figures;"
    " print_figures({engine!r}, {folder!r}, {name!r}, {budget!r})"
)


def run(bench: Bench) -> None:
    """Load the rows, then ask each question of each engine within each budget."""
    rows = _drawn_rows(bench["rows"], bench["seed"])
    Table.create(bench.folder / "t", data=rows)
    with duckdb.connect(str(bench.folder / "t.duckdb")) as connection:
        connection.register("source", rows)
        connection.execute("CREATE TABLE t AS SELECT * FROM source")
    del rows
    bench.peers.append("duckdb")
    for name in _STATEMENTS:
        answers = []
        for budget in bench.names("budgets"):
            for engine in ("projseg", "duckdb"):
                bench.progress(f"{name} within {budget} by {engine}")
                folder = bench.folder / f"{name} {budget} {engine}"
                folder.mkdir()
                settings = {"TMPDIR": str(folder), LIMIT_SETTING: budget}
                code = _CHILD.format(
                    settings=settings, engine=engine, folder=str(bench.folder), name=name,
                    budget=budget,
                )  # fmt: skip
                found = bench.in_new_process(code).printed
                answer = found.pop("answer")
                if answer is None:
                    found = {"is refused": 1}
                else:
                    answers.append(answer)
                    bench.require(f"{name} within {budget} by {engine}", answer, answers[0])
                bench.require("files left", [one.name for one in folder.iterdir()], [])
                bench.add(name, budget, engine, found)


def _drawn_rows(count: int, seed: int) -> pa.Table:
    """Return rows of half as many ids and texts as rows."""
    draw = np.random.default_rng(seed)
    numbers = draw.integers(0, count // 2, count)
    texts = pc.binary_join_element_wise(
        "item", pa.array(numbers * 7919 % 10**9).cast("string"), "/"
    )
    ids = numbers * np.int64(0x9E3779B97F4A7C15 >> 1)
    return pa.table({"id": ids, "text": texts, "v": draw.integers(0, 1000, count)})


def print_figures(engine: str, folder: str, name: str, budget: str) -> None:
    """Print what a question takes, and its answer: how many rows, and sums over some of them."""
    written = [0]
    ask = (_projseg if engine == "projseg" else _duckdb)(Path(folder), name, budget)
    figures: dict[str, Any] = {"asked": psutil.Process().memory_info().rss}
    with peak_memory() as peak, _temporary_bytes(written), measured() as spent:
        try:
            answer = _answer(ask())
        except duckdb.OutOfMemoryException:
            answer = None
    figures |= {**spent, "peak memory": peak[0], "temporary bytes": written[0], "answer": answer}
    print(json.dumps(figures))


def _answer(batches: Iterator[pa.RecordBatch]) -> list[int]:
    """Return the count of rows, and sums that tell their order."""
    count = total = 0
    for batch in batches:
        places = np.arange(count, count + len(batch)) % 1009
        numbers = batch.column("id").to_numpy() % 10**6
        total += int((places * numbers).sum())
        count += len(batch)
    return [count, total]


def _projseg(folder: Path, name: str, budget: str) -> Callable[[], Iterator[pa.RecordBatch]]:
    table = Table(folder / "t")
    table.query(columns="id", limit=1)  # imports what it needs
    if name == ROWS:
        return lambda: iter(table.scan("text, v, id", order_by="text, v, id"))
    return lambda: iter(table.sql(_STATEMENTS[name]).to_batches())


def _duckdb(folder: Path, name: str, budget: str) -> Callable[[], Iterator[pa.RecordBatch]]:
    connection = duckdb.connect(str(folder / "t.duckdb"), read_only=True)
    connection.execute(f"SET memory_limit = '{budget}iB'")
    connection.execute("SET threads = 2")
    connection.execute("SET enable_progress_bar = false")  # it goes to where figures are printed
    connection.execute(f"SET temp_directory = '{os.environ['TMPDIR']}'")
    return lambda: iter(connection.sql(_STATEMENTS[name]).to_arrow_reader())


@contextmanager
def _temporary_bytes(most: list[int]) -> Iterator[None]:
    """Leave in a list the most bytes that files of the temporary folder had, named or not."""
    ended = threading.Event()
    root = os.environ["TMPDIR"]

    def sample() -> None:
        while not ended.wait(_SAMPLE_SECONDS):
            most[0] = max(most[0], _bytes_below(root))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _bytes_below(root: str) -> int:
    """Return the bytes of the files that this process has open below a folder."""
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith(root):
                found += os.stat(f"/proc/self/fd/{descriptor}").st_blocks * 512
        except OSError:  # closed meanwhile
            continue
    return found

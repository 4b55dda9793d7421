"""A forked child answers queries, whatever its parent has done or is doing."""

import os
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

import projseg
from projseg.errors import InvalidInputError

ROWS = 600_000

# Each script gets the table's location and prints what `expected_answer` returns.
PRELUDE = """
import multiprocessing, os, sys, threading
import projseg

def ask(location, count=1):
    table = projseg.Table(location)
    for _ in range(count):
        grouped = table.query(group_by="name", aggregators="sum(v) AS v", context={"threads": 2})
        distinct = table.query(aggregators="count(DISTINCT name) AS n", context={"threads": 2})
        ordered = table.query(columns="v, name", order_by="v DESC", limit=3)
        scanned = sum(len(batch) for batch in table.scan(context={"threads": 2}))
    return [
        grouped.num_rows, sum(grouped["v"].to_pylist()), distinct["n"][0].as_py(),
        ordered["v"].to_pylist(), scanned,
    ]

def in_child(work):
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(send, repr(work()).encode())
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as answer:
        found = answer.read()
    assert os.waitpid(child, 0)[1] == 0
    return found

location = sys.argv[1]
"""
AFTER_A_QUERY = """
ask(location)
print(in_child(lambda: ask(location)))
"""
DURING_QUERIES = """
ask(location)
stopped = threading.Event()

def keep_asking():
    while not stopped.is_set():
        projseg.cache_statistics()
        ask(location)

others = [threading.Thread(target=keep_asking) for _ in range(2)]
for other in others:
    other.start()
answers = {in_child(lambda: ask(location)) for _ in range(3)}
stopped.set()
for other in others:
    other.join()
(answer,) = answers
print(answer)
"""
WHILE_NUMBA_IS_LOADED = """
from projseg.kernels.runtime import kernel

begun, load = threading.Event(), kernel._load_numba

def begin():
    begun.set()
    load()

kernel.CALLS_BEFORE_NUMBA, kernel._load_numba = 20, begin
other = threading.Thread(target=ask, args=(location, 10))
other.start()
assert begun.wait(60), "Numba was never loaded"
(answer,) = {in_child(lambda: ask(location)) for _ in range(3)}
other.join()
print(answer)
"""
POOL = """
if __name__ == "__main__":
    ask(location)
    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
        first, second, third = pool.starmap(ask, [(location,)] * 3)
    assert first == second == third
    print(first)
"""
OPEN_SCAN = """
stream = iter(projseg.Table(location).scan(context={"threads": 2}))
before = len(next(stream))
def rest():
    return before + sum(len(batch) for batch in stream)
assert in_child(rest) == repr(rest())
print(in_child(lambda: ask(location)))
"""
DURING_AN_IMPORT = """
import importlib.abc, signal, time

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "projseg.kernels.sketches.hll_bytes":
            begun.set()
            time.sleep(0.3)

def estimate():
    return projseg.Table(location).query(aggregators="approx_count_distinct(name) AS n").num_rows

begun = threading.Event()
sys.meta_path.insert(0, Slow())
other = threading.Thread(target=estimate)
other.start()
begun.wait()
def answer():
    signal.alarm(400)  # rather than wait for ever; where nothing is compiled yet it takes a minute
    return estimate()
print(in_child(answer))
other.join()
"""

# Prints the modules that queries import while another thread could fork.
FREE_IMPORTS = """
import importlib.abc
from projseg.kernels.runtime.kernel import _loading
from projseg.memory.forks import late_import

class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        compiler = sys.modules.get("numba.core.compiler_lock")
        compiles = compiler is not None and compiler.global_compiler_lock.is_locked()
        if not (compiles or late_import._is_owned() or _loading._is_owned()):
            free.add(name)

free = set()
table = projseg.Table(location)
sys.meta_path.insert(0, Watch())
ask(location)
for aggregators in (
    "approx_count_distinct(name) AS n", "median(v) AS n", "percentile_approx(v, 0.5) AS n",
    "stddev(v) AS n, corr(v, v) AS m", "max_by(name, v) AS n", "count(DISTINCT v % 7) AS n",
):
    table.query(aggregators=aggregators)
    table.query(group_by="name", aggregators=aggregators, filter="name LIKE '%5%'")
for condition in (
    "name RLIKE '5$'", "name IN ('name 1', 'name 2')", "v IN (1, 2, 3)", "name > 'name 5'",
    "CASE WHEN v > 5 THEN name ELSE 'none' END = 'none'", "v = NULL",
):
    table.query(
        columns="upper(name) AS u, v / 3 AS w, 'constant' AS c, NULL AS d, TIMESTAMP '2020-01-01'",
        filter=condition, order_by="u", limit=3,
    )
table.sql("SELECT name, sum(v) FROM t WHERE v IN (1, 2) GROUP BY name ORDER BY 2 LIMIT 3")
print(sorted(free))
"""


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    location = tmp_path_factory.mktemp("forks") / "t"
    numbers = np.arange(ROWS)
    names = pa.DictionaryArray.from_arrays(
        pa.array(numbers % 1000), pa.array([f"name {n}" for n in range(1000)])
    )
    rows = pa.table({"name": names, "v": numbers})
    table = projseg.Table.create(location, rows.schema, target_segment_rows=ROWS // 4)
    table.append(rows)
    return str(location)


def answer_of(script, *arguments, folder, **settings):
    path = folder / "script.py"
    path.write_text(PRELUDE + script)
    done = subprocess.run(
        [sys.executable, str(path), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | settings,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


EXPECTED = repr([1000, ROWS * (ROWS - 1) // 2, 1000, [ROWS - 1, ROWS - 2, ROWS - 3], ROWS])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "script",
    [AFTER_A_QUERY, DURING_QUERIES, WHILE_NUMBA_IS_LOADED, OPEN_SCAN],
    ids=["after a query", "during queries", "while Numba is loaded", "with an open scan"],
)
@pytest.mark.parametrize("budget", ["1G", "0"], ids=["warm", "cold"])
def test_a_forked_child_answers(script, budget, location, tmp_path):
    """With no budget, parents and children load every part in every query."""
    found = answer_of(script, location, folder=tmp_path, PROJSEG_CACHE_BYTES=budget)
    assert found == EXPECTED


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes_answers(method, location, tmp_path):
    assert answer_of(POOL, location, method, folder=tmp_path) == EXPECTED


def test_all_queries_share_one_pool(location):
    """Whatever numbers of threads are asked for, no more threads stay than the largest."""
    table = projseg.Table(location)
    for threads in range(2, 40):
        table.query(group_by="name", aggregators="sum(v) AS v", context={"threads": threads})
    workers = [t for t in threading.enumerate() if t.name.startswith("projseg")]
    assert len(workers) <= 39


@pytest.mark.parametrize("threads", [0, 257, 10**6, 10**30, "many"])
def test_counts_of_threads_beyond_the_limit_are_refused(location, threads):
    with pytest.raises(InvalidInputError, match="from 1 to 256") as refused:
        projseg.Table(location).query(aggregators="count(*) AS n", context={"threads": threads})
    assert refused.value.code == "PROJSEG_BAD_CONTEXT_VALUE"


def test_the_most_threads_are_accepted(location):
    asked = {"aggregators": "count(*) AS n", "context": {"threads": 256}}
    assert projseg.Table(location).query(**asked).to_pylist() == [{"n": ROWS}]


def test_a_child_forked_during_a_late_import_can_import_it_too(location, tmp_path):
    assert answer_of(DURING_AN_IMPORT, location, folder=tmp_path) == "1"


@pytest.mark.parametrize("kept", ["stored", "nothing"])
def test_queries_import_nothing_while_another_thread_may_fork(kept, location, tmp_path):
    """With nothing kept on disk, Numba compiles every kernel."""
    folders = {} if kept == "stored" else {"PROJSEG_CACHE_DIR": str(tmp_path / "empty")}
    assert answer_of(FREE_IMPORTS, location, folder=tmp_path, **folders) == "[]"

"""A small file costs a query little memory, however many values its bytes stand for.

Each file is sound: verification accepts it. The most memory that a process had while it asked
queries of such a table is compared with what it had after asking the same of a table of one page.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bomb_tables import (
    BombColumn,
    ascending_dictionary,
    constant,
    constant_double,
    equal_lists,
    long_text,
    long_texts,
    nothing,
    squeezed_zeros,
    steps,
    two_runs,
    wide_decimal,
    word,
    write_bomb,
)

ROOT = Path(__file__).parents[2]
BUDGET_BYTES = 256 * 2**20
FILE_BYTES_MAX = 2**20
SCRIPT = """
import json, sys
import projseg
from projseg.errors import LimitExceededError

def ask(location, arguments):
    table = projseg.Table(location)
    if "verify" in arguments:
        assert table.verify() == []
    elif "drain" in arguments:
        for batch in table.scan(columns=arguments["drain"], context={"threads": 2}):
            pass
    else:
        table.query(**arguments, context={"threads": 2})

def peak():
    # Of this program alone; getrusage counts what the process that started it had, too.
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024

small, large, queries, is_refused = json.loads(sys.argv[1])
for query in queries:
    ask(small, query)
before = peak()
refused = 0
for query in queries:
    try:
        ask(large, query)
    except LimitExceededError:
        refused += 1
assert refused == (len(queries) if is_refused else 0), refused
print(peak() - before)
"""

DOUBLES = {"v": BombColumn("double", "numbers", constant_double(1.5))}
WORDS = {"k": BombColumn("string", "ids", constant(0), (1, [word()]))}
QUERIES = [
    {"aggregators": "sum(v) AS s, min(v) AS low, avg(v) AS mean, count(v) AS n"},
    {"aggregators": "count(*) AS n", "filter": "v > 1"},
    {"columns": "v", "limit": 3},
    {"drain": "v"},
    {"verify": True},
]
CASES = {
    "constants": (800, DOUBLES, QUERIES),
    "nulls": (800, {"v": BombColumn("double", "numbers", nothing())}, QUERIES),
    "bits": (800, {"v": BombColumn("bigint", "numbers", squeezed_zeros())}, QUERIES),
    "ids": (
        800,
        WORDS | DOUBLES,
        [
            {"group_by": "k", "aggregators": "sum(v) AS s"},
            {"group_by": "upper(k) AS u, v", "aggregators": "count(*) AS n"},
            {"aggregators": "count(DISTINCT v) AS n, approx_count_distinct(k) AS a"},
            {"aggregators": "sum(v) AS s", "filter": "k = 'a' OR v < 0"},
            {"drain": "k, v"},
        ],
    ),
    "order": (100, WORDS | DOUBLES, [{"columns": "v, k", "order_by": "v DESC, k", "limit": 5}]),
    "steps and runs": (
        800,
        {
            "v": BombColumn("bigint", "numbers", steps()),
            "r": BombColumn("bigint", "numbers", two_runs()),
        },
        [*QUERIES, {"group_by": "r", "aggregators": "sum(v) AS s"}],
    ),
    "wide decimals": (
        60,
        {"v": BombColumn("decimal(38,0)", "numbers", wide_decimal())},
        [{"aggregators": "sum(v) AS s"}, {"aggregators": "count(*) AS n", "filter": "v < 0"}],
    ),
    "many columns": (
        1,
        {f"c{n}": BombColumn("double", "numbers", constant_double(n)) for n in range(300)},
        [{"drain": None}, {"columns": None, "limit": 3}],
    ),
    "long texts": (
        40,
        {"v": BombColumn("string", "opaque", long_text(2**24))},
        [{"aggregators": "count(v) AS n"}, {"drain": "v"}, {"columns": "v", "limit": 1}],
    ),
    "texts made longer": (
        8,
        {"v": BombColumn("bigint", "numbers", steps()), **WORDS},
        [
            {"aggregators": "sum(length(lpad(string(v), 1000, k))) AS s"},
            {"aggregators": "max(concat(k, string(v), repeat('x', 1000))) AS m"},
            {"drain": "v, repeat(k, 100000) AS t"},
        ],
    ),
    "one long text": (
        1,
        {"v": BombColumn("string", "ids", constant(0, row_count=50), (1, [long_text(2**24)]))},
        [{"group_by": "v", "aggregators": "count(*) AS n"}, {"drain": "v"}],
    ),
    "one of many long texts": (
        1,
        {"v": BombColumn("string", "ids", constant(0, row_count=50), long_texts())},
        [{"group_by": "v", "aggregators": "count(*) AS n"}, {"drain": "v"}],
    ),
}
REFUSED = {
    "lists in lists": (
        1,
        {"v": BombColumn("array<" * 30 + "int" + ">" * 30, "opaque", equal_lists(30, 2**22))},
    ),
    "a dictionary of long texts": (
        1,
        {"v": BombColumn("string", "ids", steps(row_count=40), long_texts())},
    ),
    "a dictionary of steps": (
        1,
        {"v": BombColumn("bigint", "ids", constant(0), ascending_dictionary(256))},
    ),
}


def growth(folder, case, *, is_refused):
    """Return how many bytes more the queries took at their most than those of one page."""
    page_count, columns, queries = case
    rows = next(iter(columns.values())).page[1]["row_count"]
    if page_count > 1:
        write_bomb(folder / "small", rows, columns)
    else:
        write_bomb(folder / "small", 10, {"v": BombColumn("bigint", "numbers", constant(0, 10))})
    byte_count = write_bomb(folder / "large", rows * page_count, columns)
    assert byte_count <= FILE_BYTES_MAX
    job = [str(folder / "small"), str(folder / "large"), queries, is_refused]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(job)],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_queries_of_a_small_file_stay_within_the_budget(name, tmp_path):
    assert growth(tmp_path, CASES[name], is_refused=False) < BUDGET_BYTES


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_in_parts_is_refused_within_the_budget(name, tmp_path):
    queries = [{"group_by": "v", "aggregators": "count(*) AS n"}, {"drain": "v"}]
    case = (*REFUSED[name], queries[1:] if name == "lists in lists" else queries)
    assert growth(tmp_path, case, is_refused=True) < BUDGET_BYTES

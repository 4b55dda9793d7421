"""Groups that take more than the setting go to a temporary file: answers stay the same."""

import datetime as dt
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
from decimal import Decimal
from itertools import islice

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from answers_agree import same
from scale import tries
from temporary_writes import counted_writes

import projseg
from projseg.aggregation import bounded_groups
from projseg.aggregation.fold import fold
from projseg.algebra.aggregates.aggregate_functions import AGGREGATES
from projseg.errors import EvaluationError, LimitExceededError, ProjsegError
from projseg.memory.temporary_batches import LIMIT_SETTING
from projseg.reader import combined_sources, run_plan

ROWS, SEGMENTS, VALUES = 4_000, 4, 900
TYPES = {
    "i": pa.int64(),
    "small": pa.int8(),
    "t": pa.string(),
    "f": pa.float64(),
    "g": pa.float32(),
    "d": pa.decimal128(38, 6),
    "p": pa.decimal128(9, 2),
    "b": pa.bool_(),
    "x": pa.binary(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
}
EDGES = {
    "f": [math.nan, -0.0, 0.0, math.inf, -math.inf],
    "g": [math.nan, -0.0, 0.0],
    "t": ["", "é", "\U0001f600", "a" * 300],
    "d": [Decimal(10**31), Decimal(-(10**31))],
    "i": [2**63 - 1, -(2**63)],
}
MAKE = {
    "i": lambda n: n * 7919 - 10**6,
    "small": lambda n: n % 250 - 125,
    "t": lambda n: f"text {n}",
    "f": lambda n: n / 3,
    "g": lambda n: n / 2,
    "d": lambda n: Decimal(n) * 10**20 + Decimal("0.5"),
    "p": lambda n: Decimal(n) / 100,
    "b": lambda n: n % 2 == 0,
    "x": lambda n: n.to_bytes(3, "big"),
    "day": lambda n: dt.date(2020, 1, 1) + dt.timedelta(n),
    "at": lambda n: dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=n),
}
DISTINCT_FORMS = {function.distinct_form for function in AGGREGATES.values()}
CALLS = (
    "{name}({v})",
    "{name}(DISTINCT {v})",
    "{name}({v}, {w})",
    "{name}({v}) FILTER (WHERE small > 0)",
    "{name}({v}, 0.5)",
    "{name}({v}) WITHIN GROUP (ORDER BY {v})",
    "{name}(0.25) WITHIN GROUP (ORDER BY {v})",
)


def drawn_rows(seed):
    draw = random.Random(seed)

    def column(name):
        def value():
            if draw.random() < 0.04:
                return draw.choice([None, *EDGES.get(name, [])])
            return MAKE[name](draw.randrange(VALUES))

        return pa.array([value() for _ in range(ROWS)], TYPES[name])

    rows = {name: column(name) for name in TYPES}
    moments = [MAKE["at"](number) for number in range(ROWS)]
    return pa.table({"time": pa.array(moments, pa.timestamp("us", "UTC")), **rows})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rows = drawn_rows(5)
    table = projseg.Table.create(
        tmp_path_factory.mktemp("spilled") / "t", rows.schema, time_column="time"
    )
    for start in range(0, ROWS, ROWS // SEGMENTS):
        table.append(rows.slice(start, ROWS // SEGMENTS))
    return table


@pytest.fixture
def spills(monkeypatch):
    """Let groups be counted however few they are, of each segment; return what went to files."""
    monkeypatch.setattr(combined_sources, "_SOURCE_ROWS_MAX", 0)
    monkeypatch.setattr(bounded_groups, "_GROUPS_COUNTED_MIN", 0)
    monkeypatch.setattr(run_plan, "_ROWS_INLINE_MAX", 0)
    monkeypatch.setenv("TMPDIR", tempfile.gettempdir())
    return counted_writes(monkeypatch)


def sorted_rows(found):
    return sorted((list(row.values()) for row in found.to_pylist()), key=repr)


def agree(found, expected):
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(agree, found, expected))
    return same(found, expected)


def answers(table, monkeypatch, setting, are_many, **question):
    """Return the answer within a setting, and with room for all; of errors their codes.

    Groups are many enough to be dealt to parts as they come, or only as they pass the setting.
    """
    monkeypatch.delenv(LIMIT_SETTING, raising=False)
    monkeypatch.setattr(bounded_groups, "_PARTED_GROUPS_MIN", 1 << 20)
    whole = rows_of(table, question)
    if setting is not None:
        monkeypatch.setenv(LIMIT_SETTING, setting)
    if setting is None or are_many:
        monkeypatch.setattr(bounded_groups, "_PARTED_GROUPS_MIN", 1)
    return rows_of(table, question), whole


def rows_of(table, question):
    try:
        found = table.query(**question)
    except EvaluationError as error:
        return [error.code]
    rows = [list(row.values()) for row in found.to_pylist()]
    return [str(found.schema), *(rows if question.get("order_by") else sorted(rows, key=repr))]


def usable(table, name, draw):
    """Yield calls of an aggregate that this table answers, in random order."""
    calls = [
        call.format(name=name, v=column, w="at" if column != "at" else "i")
        for column in ("i", "t", "f", "g", "d", "p", "b", "x", "day", "at")
        for call in CALLS
    ]
    for call in draw.sample(calls, len(calls)):
        try:
            table.query("small", [f"{call} AS a"], limit=0)
        except ProjsegError:
            continue
        yield call


@pytest.mark.parametrize("name", sorted(set(AGGREGATES) - DISTINCT_FORMS))
def test_states_of_every_aggregate_come_back_as_they_went(name, table, spills, monkeypatch):
    draw = random.Random(name)
    calls = list(islice(usable(table, name, draw), tries(30, 2)))
    assert calls, name
    for call in calls:
        keys = draw.choice(["i, t", "f, p", "small, p", "d, b", "x, f", "day, at", "g, t"])
        found, whole = answers(
            table,
            monkeypatch,
            draw.choice(["20K", "50K", None]),
            draw.random() < 0.5,
            group_by=keys,
            aggregators=[f"{call} AS a"],
            context={"threads": draw.choice([1, 2])},
        )
        if found != ["PROJSEG_OVERFLOW"]:  # of a sum that a file does not hold, of an average too
            assert agree(found, whole), (call, keys)


def test_random_orders_and_limits_are_the_same(table, spills, monkeypatch):
    draw = random.Random(1)
    for _ in range(tries(1_000, 30)):
        keys = draw.sample(list(TYPES), draw.randint(1, 3))
        terms = draw.sample([*keys, "s", "n", "s + n", "lower(t)"], 2)
        terms = [term for term in terms if term != "lower(t)" or "t" in keys]
        directions = ["", " DESC", " NULLS LAST", " DESC NULLS FIRST"]
        question = {
            "group_by": ", ".join(keys),
            "aggregators": "sum(p) AS s, count(*) AS n, max(i) AS high",
            "having": draw.choice([None, "count(*) > 1", "max(i) IS NOT NULL OR sum(p) > 3"]),
            "order_by": ", ".join(term + draw.choice(directions) for term in terms),
            "limit": draw.choice([None, 0, 3, 500]),
            "context": {"threads": draw.choice([1, 2])},
        }
        setting, are_many = draw.choice(["40K", "150K", None]), draw.random() < 0.5
        found, whole = answers(table, monkeypatch, setting, are_many, **question)
        assert agree(found, whole), question
    assert spills


def test_groups_of_ten_times_the_setting_are_duckdbs(tmp_path, spills, monkeypatch):
    count, ids = 80_000, 60_000
    draw = np.random.default_rng(2)
    rows = pa.table(
        {
            "id": draw.integers(0, ids, count),
            "text": pa.array([f"text {n}" for n in draw.integers(0, 5_000, count)]),
            "v": draw.integers(-9, 99, count),
        }
    )
    table = projseg.Table.create(tmp_path / "t", rows.schema)
    for start in range(0, count, count // 8):
        table.append(rows.slice(start, count // 8))
    statement = "SELECT id, text, sum(v) AS s, count(*) AS n FROM rows GROUP BY ALL"
    monkeypatch.setenv(LIMIT_SETTING, "300K")
    for order in ("ORDER BY s DESC, id, text LIMIT 50", "HAVING sum(v) > 190", ""):
        found = table.sql(f"{statement} {order}".replace("rows", "t"))
        expected = duckdb.sql(f"{statement} {order}").to_arrow_table()
        assert sorted_rows(found) == sorted_rows(expected)
    assert sum(spills) > 10 * 300_000


@pytest.mark.parametrize(
    "question",
    [
        {"group_by": "small % 2 AS k", "aggregators": "collect_list(t) AS l"},
        {"group_by": None, "aggregators": "count(DISTINCT t) AS n, collect_list(i) AS l"},
    ],
)
def test_a_part_that_is_too_large_is_refused(question, table, spills, monkeypatch):
    monkeypatch.setenv(LIMIT_SETTING, "9K")
    with pytest.raises(LimitExceededError, match=rf"QUERY_TOO_LARGE.*{LIMIT_SETTING}"):
        table.query(**question)


def test_grouping_sets_are_refused(table, spills, monkeypatch):
    monkeypatch.setenv(LIMIT_SETTING, "20K")
    with pytest.raises(LimitExceededError, match=LIMIT_SETTING):
        table.sql("SELECT t, i, count(*) FROM t GROUP BY ROLLUP (t, i)")


def test_nothing_stays_after_success_or_an_error(table, spills, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(LIMIT_SETTING, "60K")
    before = len(os.listdir("/proc/self/fd"))
    table.query("t, i", "count(*) AS n")
    with pytest.raises(ProjsegError, match="PROJSEG_OVERFLOW"):
        table.query("t", "sum(9223372036854775807 + 0 * i) AS n")
    assert spills
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == before


FULL = """
import resource, sys
import projseg
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
from projseg.aggregation import bounded_groups
from projseg.reader import combined_sources, run_plan
bounded_groups._GROUPS_COUNTED_MIN = run_plan._ROWS_INLINE_MAX = 0
try:
    projseg.Table(sys.argv[1]).query("t, i, f", "count(*) AS n, max(d) AS d")
except projseg.errors.LimitExceededError as error:
    print(error)
"""


def test_a_folder_without_room_is_named(table, tmp_path):
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "-c", FULL, table.location],
        env=os.environ | {"TMPDIR": str(tmp_path), LIMIT_SETTING: "100K"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "PROJSEG_QUERY_TOO_LARGE" in done.stdout
    assert f"the temporary folder {tmp_path} takes no more of them: File too large" in done.stdout
    assert "TMPDIR" in done.stdout
    assert os.listdir(tmp_path) == []


def test_rows_of_few_groups_after_many_are_merged_within_a_part(tmp_path, spills, monkeypatch):
    keys = np.concatenate([np.arange(1_000), np.arange(20_000) % 30])
    rows = pa.table({"k": keys, "t": pa.array([f"text {n}" for n in keys]), "v": keys * 0 + 1})
    table = projseg.Table.create(tmp_path / "t", rows.schema)
    for start in range(0, len(keys), 1_000):
        table.append(rows.slice(start, 1_000))
    question = {"group_by": "k, t", "aggregators": "sum(v) AS s, count(*) AS n"}
    found, whole = answers(table, monkeypatch, "20K", True, **question)
    assert found == whole
    assert len(found) == 1 + 1_000
    assert sum(spills) > 20_000 * 20


def test_a_large_segment_is_folded_a_few_rows_at_a_time(tmp_path, spills, monkeypatch):
    count = 600_000
    draw = np.random.default_rng(2)
    ids = draw.integers(0, count, count)
    texts = pa.array([None if n % 1000 == 0 else f"text {n}" for n in ids])
    rows = pa.table({"id": ids * 7919, "text": texts, "v": draw.integers(-9, 99, count)})
    table = projseg.Table.create(tmp_path / "t", data=rows)
    table.delete("v = 50 AND id < 3000000")
    statement = (
        "SELECT id, text, sum(v) AS s, count(*) AS n, min(v) AS low FROM rows"
        " WHERE v <> 3 AND NOT (v = 50 AND id < 3000000) GROUP BY ALL ORDER BY s DESC, id LIMIT 500"
    )
    expected = duckdb.sql(statement).to_arrow_table()
    folded = []

    def counted(rows, *given, **also):
        folded.append(len(rows))
        return fold(rows, *given, **also)

    monkeypatch.setattr(run_plan, "fold", counted)
    monkeypatch.setenv(LIMIT_SETTING, "8M")
    for _ in range(2):  # columns are not kept at the first read
        assert sorted_rows(table.sql(statement.replace("rows", "t"))) == sorted_rows(expected)
    assert len(folded) == 2 * 5
    assert max(folded) <= count // 4
    assert len(spills) > 64

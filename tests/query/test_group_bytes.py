"""Groups that take much memory are merged as they come; a few that take too much are refused."""

import sys

import numpy as np
import pyarrow as pa
import pytest

import projseg
from projseg.errors import LimitExceededError
from projseg.memory.temporary_batches import LIMIT_SETTING

SEGMENTS, ROWS, USERS = 6, 40_000, 30_000
SCHEMA = pa.schema(
    {"time": pa.timestamp("us", "UTC"), "user": pa.string(), "id": pa.int64(), "added": pa.int64()}
)
LARGE = [
    {"group_by": "user", "aggregators": "sum(added) AS s, min(added) AS low, count(*) AS n"},
    {"group_by": "id", "aggregators": "count(DISTINCT user) AS users, avg(added) AS mean"},
    {"group_by": "id % 3 AS part", "aggregators": "collect_list(id) AS ids"},
    {"group_by": "id % 3 AS part", "aggregators": "count(DISTINCT id) AS ids"},
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    random = np.random.default_rng(3)
    count = SEGMENTS * ROWS
    ids = random.integers(0, USERS, count)
    rows = pa.table(
        {
            "time": pa.array(np.arange(count) * (3_600_000_000 // ROWS)).cast(SCHEMA[0].type),
            "user": pa.array([f"user {one}" for one in ids]),
            "id": pa.array(ids),
            "added": pa.array(random.integers(-9, 99, count)),
        },
        schema=SCHEMA,
    )
    table = projseg.Table.create(
        tmp_path_factory.mktemp("groups") / "t",
        SCHEMA,
        time_column="time",
        segment_granularity="hour",
    )
    table.append(rows)
    assert table.segments().num_rows == SEGMENTS
    return table


@pytest.mark.parametrize("question", LARGE)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("limit", ["6M", "20M"])
def test_groups_that_are_merged_early_are_the_same(table, question, threads, limit, monkeypatch):
    wanted = answer(table, question, threads)
    monkeypatch.setenv(LIMIT_SETTING, limit)
    assert answer(table, question, threads) == wanted


@pytest.mark.parametrize("question", LARGE[2:])
@pytest.mark.parametrize("threads", [1, 2])
def test_more_than_the_setting_is_refused(table, question, threads, monkeypatch):
    monkeypatch.setenv(LIMIT_SETTING, "50K")
    with pytest.raises(LimitExceededError, match=rf"QUERY_TOO_LARGE.*{LIMIT_SETTING}") as caught:
        answer(table, question, threads)
    assert "may be more" in caught.value.message
    few = {"group_by": "id % 7 AS part", "aggregators": "sum(added) AS s", "filter": "id < 100"}
    assert len(answer(table, few, threads)) == 7


def test_a_setting_that_is_no_size_is_refused(table, monkeypatch):
    monkeypatch.setenv(LIMIT_SETTING, "much")
    with pytest.raises(projseg.errors.InvalidInputError, match=f"{LIMIT_SETTING} is 'much'"):
        answer(table, LARGE[0], 2)


def test_the_share_of_memory_that_holds_without_a_setting_is_enough_here(table, monkeypatch):
    monkeypatch.delenv(LIMIT_SETTING, raising=False)
    assert len(answer(table, LARGE[0], 2)) == len(answer(table, LARGE[1], 2)) <= USERS < sys.maxsize


def answer(table, question, threads):
    found = table.query(**question, context={"threads": threads}).to_pylist()
    return sorted(found, key=lambda row: str(next(iter(row.values()))))

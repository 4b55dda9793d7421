"""Texts that expressions make get no dictionary where nobody groups by them."""

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import projseg
from projseg.aggregation import keys, state
from projseg.evaluation import arrow_vectors

ROWS = 600
MARK = "|"
TEXT = f"concat(u, '{MARK}', p)"


@pytest.fixture(scope="module")
def rows():
    rng = random.Random(4)

    def text():
        return None if rng.random() < 0.1 else "".join(rng.choices("abcé😀", k=rng.randint(0, 9)))

    start = datetime(2024, 1, 1, tzinfo=UTC)
    return [
        {"time": start + timedelta(hours=n), "k": n % 7, "i": n % 3, "u": text(), "p": text()}
        for n in range(ROWS)
    ]


@pytest.fixture(scope="module")
def table(rows, tmp_path_factory):
    schema = pa.schema(
        [
            ("time", pa.timestamp("us", "UTC")),
            *[(name, pa.int64()) for name in "ki"],
            *[(name, pa.string()) for name in "up"],
        ]
    )
    table = projseg.Table.create(
        tmp_path_factory.mktemp("computed") / "t",
        schema,
        time_column="time",
        segment_granularity="week",
    )
    table.append(pa.Table.from_pylist(rows, schema))
    return table


@pytest.fixture
def no_dictionaries(monkeypatch):
    """Fail where texts that hold the mark are encoded."""
    encode = arrow_vectors.encode_sorted

    def encoded(array, **named):
        if pa.types.is_string(array.type):
            assert not pc.any(pc.match_substring(array, MARK)).as_py()
        return encode(array, **named)

    for module in (arrow_vectors, keys, state):
        monkeypatch.setattr(module, "encode_sorted", encoded)


def made(row):
    return None if None in (row["u"], row["p"]) else row["u"] + MARK + row["p"]


def order(text):
    return text.encode()


def test_aggregates_and_filters_of_texts_make_no_dictionary(table, rows, no_dictionaries):
    by_group = defaultdict(list)
    for row in rows:
        by_group[row["k"]].append(row)
    found = table.sql(
        f"SELECT k, max({TEXT}) AS a, min(CASE WHEN i > 0 THEN {TEXT} ELSE '{MARK}' END) AS b, "
        f"max_by({TEXT}, time) AS c, count_if({TEXT} LIKE '%a{MARK}%') AS d "
        f"FROM t WHERE coalesce({TEXT}, '{MARK}z') > 'a' GROUP BY k ORDER BY k"
    ).to_pylist()
    expected = []
    for k, group in sorted(by_group.items()):
        kept = [row for row in group if order(made(row) or f"{MARK}z") > b"a"]
        texts = [text for row in kept if (text := made(row)) is not None]
        chosen = [made(row) if row["i"] > 0 else MARK for row in kept]
        expected.append(
            {
                "k": k,
                "a": max(texts, key=order),
                "b": min((one for one in chosen if one is not None), key=order),
                "c": made(kept[-1]),
                "d": sum(f"a{MARK}" in text for text in texts),
            }
        )
    assert found == expected


def test_texts_of_rows_make_no_dictionary(table, rows, no_dictionaries):
    found = table.sql(f"SELECT time, {TEXT} AS a FROM t ORDER BY time LIMIT 50").to_pylist()
    assert [one["a"] for one in found] == [made(row) for row in rows[:50]]


def test_texts_that_are_grouped_by_are_the_same_groups(table, rows):
    found = table.sql(f"SELECT {TEXT} AS a, count(*) AS n FROM t GROUP BY 1").to_pylist()
    counts = defaultdict(int)
    for row in rows:
        counts[made(row)] += 1
    assert {one["a"]: one["n"] for one in found} == counts

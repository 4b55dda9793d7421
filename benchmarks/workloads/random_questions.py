"""Random tables, and random questions that some projection of theirs can answer.

A table has keys of few and of many values, and projections of groups and of rows that are drawn,
too: some nearly as long as the table, some with states that are dear to merge. A question is drawn
from what one of them stores, so that planning has to choose. The same seed gives the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

import projseg
from projseg import Projection
from projseg.benchmarks.workloads.question import Question

_DAYS: Final = 20
_START: Final = np.datetime64("2024-05-01", "us")
_VALUE_COUNTS: Final = (3, 40, 1_000, 30_000, 300_000)
_KEYS: Final = ("a", "b", "c", "n", "day", "date_trunc('HOUR', t)", "date_trunc('DAY', t)")
_STATES: Final = (
    "sum(x)",
    "sum(y)",
    "sum(z)",
    "sum(x * n)",
    "sum(z * (1 - z))",
    "count(y)",
    "min(z)",
    "max(t)",
    "var_samp(y)",
)
_SETS: Final = (
    "approx_count_distinct(u)",
    "theta_sketch_agg(u)",
    "kll_sketch_agg_double(y)",
    "count(DISTINCT u)",
)
_KEYS_COMPUTED: Final = {
    "a": ("upper(a)", "substr(a, 1, 2)"),
    "b": ("concat(b, '!')", "length(b)"),
    "c": ("substr(c, 1, 3)",),
    "n": ("n % 10", "n DIV 7", "CASE WHEN n > 9 THEN n ELSE 0 END"),
    "day": ("year(day)", "dayofweek(day)", "day + 1"),
    "date_trunc('HOUR', t)": ("date_trunc('DAY', t)", "hour(t)"),
    "date_trunc('DAY', t)": ("date_trunc('WEEK', t)",),
}
_CONDITIONS: Final = {
    "a": ("a = 'v1'", "a IN ('v1', 'v2', 'v10')", "a LIKE 'v1%'", "length(a) > 2"),
    "b": ("b <> 'v1'", "b >= 'v3'", "b LIKE '%7'", "upper(b) = 'V2'"),
    "c": ("c = 'v17'", "c < 'v2'", "substr(c, 2, 1) = '5'"),
    "n": ("n = 5", "n > 20", "n * 2 + 1 < 60", "n % 3 = 0 AND n > 2", "n BETWEEN 10 AND 12"),
    "day": ("day = DATE'2024-05-03'", "day < DATE'2024-05-08'", "dayofweek(day) = 2"),
    "date_trunc('HOUR', t)": ("hour(t) < 7", "to_date(t) > DATE'2024-05-12'"),
    "date_trunc('DAY', t)": ("dayofmonth(t) > 7",),
}
_WEIGHED: Final = ("sum(n)", "sum(n * 2 + 1)", "max(n)", "avg(n)")
_OF_STATES: Final = {"sum(x)": ("sum(2 * x + 1)", "avg(x)"), "sum(y)": ("sum(y)", "avg(y)")}


def random_table(folder: Path, seed: int) -> tuple[projseg.Table, tuple[Projection, ...]]:
    """Return a table of 20,000, 60,000 or 200,000 rows, and its projections."""
    draw = np.random.default_rng([seed, 1])
    row_count = int(draw.choice([20_000, 60_000, 200_000]))
    projections = tuple(_projections(draw))
    rows = _rows(draw, row_count)
    table = projseg.Table.create(folder, rows.schema, time_column="t", projections=projections)
    table.append(rows)
    return table, projections


def random_questions(
    projections: Sequence[Projection], seed: int, count: int
) -> Iterator[Question]:
    """Yield questions that a projection of the table can probably answer."""
    draw = np.random.default_rng([seed, 2])
    for number in range(count):
        yield _question(draw, projections[int(draw.integers(len(projections)))], f"{seed}.{number}")


def _rows(draw: np.random.Generator, row_count: int) -> pa.Table:
    def texts() -> pa.Array:
        ranks = _ranks(draw, row_count)
        return pa.array(np.char.add("v", ranks.astype("U7")))

    times = np.sort(draw.integers(0, _DAYS * 86_400_000_000, row_count))
    prices = pa.array(draw.integers(0, 100_000, row_count), pa.int32()).cast(pa.decimal128(15, 2))
    return pa.table(
        {
            "t": pa.array(_START + times.astype("m8[us]"), pa.timestamp("us", "UTC")),
            **{name: texts() for name in ("a", "b", "c", "u")},
            "n": pa.array(_ranks(draw, row_count).astype(np.int64)),
            "day": pa.array(
                _START.astype("M8[D]") + draw.integers(0, 300, row_count).astype("m8[D]")
            ),
            "x": pa.array(draw.integers(0, 5_000, row_count).astype(np.int32)),
            "y": pa.array(draw.random(row_count).round(3), mask=draw.random(row_count) < 0.1),
            "z": prices,
        }
    )


def _ranks(draw: np.random.Generator, row_count: int) -> np.ndarray:
    """Return ranks of values by Zipf's law, or each as frequent as the others."""
    most = int(draw.choice(_VALUE_COUNTS))
    if draw.random() < 0.5:
        return draw.integers(0, most, row_count)
    return np.floor((most + 1.0) ** draw.random(row_count)).astype(np.int64) - 1


def _some(draw: np.random.Generator, values: Sequence[str], least: int, most: int) -> list[str]:
    count = min(int(draw.integers(least, most + 1)), len(values))
    return [values[place] for place in draw.choice(len(values), count, replace=False)]


def _projections(draw: np.random.Generator) -> Iterator[Projection]:
    for number in range(4):
        states = ["count(*)", *_some(draw, _STATES, 1, 4), *_some(draw, _SETS, 0, 1)]
        yield Projection(f"groups{number}", _some(draw, _KEYS, 1, 3), states)
    for number in range(2):
        columns = ["t", "x", "n", *_some(draw, ["a", "b", "c", "u", "day", "y", "z"], 3, 6)]
        order = _some(draw, [name for name in columns if name not in "tx"], 1, 2)
        yield Projection(f"rows{number}", columns=columns, order_by=order)


def _question(draw: np.random.Generator, stored: Projection, name: str) -> Question:
    keys = list(stored.group_by) or [one for one in stored.order_by if one in _CONDITIONS]
    others = [one for one in stored.columns if one in _CONDITIONS]
    asked = [
        str(draw.choice([key, *_KEYS_COMPUTED[key]])) for key in _some(draw, keys or others, 0, 2)
    ]
    conditions = [
        str(draw.choice(_CONDITIONS[key]))
        for key in _some(draw, keys if stored.group_by else keys + others, 0, 2)
    ]
    if stored.columns:
        numbers = [one for one in stored.columns if one in ("x", "y", "z", "n")]
        states = [f"sum({one})" for one in numbers] + ["count(*)", "sum(x * n)"]
    else:
        states = [str(draw.choice([one, *_OF_STATES.get(one, ())])) for one in stored.aggregators]
        states += _some(draw, _WEIGHED, 0, 2) if "n" in keys else []
    interval = None
    if draw.random() < 0.25:
        first, days = int(draw.integers(1, 10)), int(draw.integers(1, 10))
        interval = (f"2024-05-{first:02} 00:00:00", f"2024-05-{first + days:02} 00:00:00")
    return Question(
        name,
        tuple(dict.fromkeys(asked)),
        tuple(dict.fromkeys(_some(draw, states, 1, 3))),
        filter=" AND ".join(dict.fromkeys(conditions)) or None,
        interval=interval,
        table="random",
    )

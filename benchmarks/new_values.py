"""Measure questions with a new value each time beside the same questions asked again.

    python -m projseg.benchmarks.new_values [--rows 20000 1000000] [--output results.json]

asks each question with many values in several rounds, and then all of them again, in one thread;
a round before them warms the table up. Microseconds of processor time for a question, the least of
the rounds; the ratio is what a new value costs beside one that was asked before.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

import projseg
from projseg.benchmarks.publish import publish

_START: Final = datetime(2024, 1, 1, tzinfo=UTC)
_COUNTRIES: Final = 400
_ASKED: Final = 60
_ROUNDS: Final = 5
_GROUPS: Final = {"group_by": "channel", "aggregators": "count(*) AS n, sum(added) AS s"}
_Given = Mapping[str, Any]
_QUESTIONS: Final[dict[str, tuple[_Given, Callable[[int], dict[str, Any]]]]] = {
    "covered": (
        {**_GROUPS, "filter": "country = :c"},
        lambda n: {"args": {"c": f"country{n}"}},
    ),
    "covered, literal": (
        _GROUPS,
        lambda n: {"filter": f"country = 'country{n}'"},
    ),
    "covered, two values": (
        {**_GROUPS, "filter": "country = :c AND channel < :d"},
        lambda n: {"args": {"c": f"country{n}", "d": f"ch{n % 20}"}},
    ),
    "covered, in a list": (
        {**_GROUPS, "filter": "country IN (:c)"},
        lambda n: {"args": {"c": [f"country{n}", f"country{n + 1}"]}},
    ),
    "covered, no such value": (
        {**_GROUPS, "filter": "country = :c"},
        lambda n: {"args": {"c": f"country none {n}"}},
    ),
    "base rows": (
        {**_GROUPS, "filter": "page = :p"},
        lambda n: {"args": {"p": n}},
    ),
    "base rows of an hour": (
        {**_GROUPS, "filter": "time >= :t AND time < :t + INTERVAL 1 HOUR"},
        lambda n: {"args": {"t": _START + timedelta(hours=n)}},
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 1_000_000])
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args(arguments)
    figures = {str(count): _measured(count) for count in asked.rows}
    publish("python -m projseg.benchmarks.new_values", {"rows": figures}, asked.output)


def _measured(row_count: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        rows = _rows(row_count)
        table = projseg.Table.create(
            Path(folder) / "t",
            rows.schema,
            time_column="time",
            projections=[
                projseg.Projection(
                    "countries",
                    group_by=["country", "channel"],
                    aggregators=["count(*)", "sum(added)"],
                )
            ],
            data=rows,
        )
        return {name: _costs(table, *question) for name, question in _QUESTIONS.items()}


def _costs(
    table: projseg.Table, parts: _Given, values: Callable[[int], dict[str, Any]]
) -> dict[str, float]:
    def microseconds(first: int) -> float:
        begun = time.process_time()
        for number in range(first, first + _ASKED):
            table.query(**parts, **values(number))
        return (time.process_time() - begun) / _ASKED * 1e6

    microseconds(0)
    firsts = [number * _ASKED for number in range(1, _ROUNDS + 1)]
    new, again = (min(map(microseconds, firsts)) for _ in range(2))
    return {"new": round(new), "again": round(again), "ratio": round(new / again, 2)}


def _rows(row_count: int) -> pa.Table:
    rng = np.random.default_rng(1)
    micros = np.sort(rng.integers(0, 30 * 86_400_000_000, row_count))
    times = np.datetime64(_START.replace(tzinfo=None), "us") + micros.astype("timedelta64[us]")
    return pa.table(
        {
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "country": [f"country{n}" for n in rng.integers(0, _COUNTRIES, row_count)],
            "channel": [f"ch{n}" for n in rng.integers(0, 20, row_count)],
            "page": pa.array(rng.integers(0, 5000, row_count), pa.int32()),
            "added": rng.integers(0, 1000, row_count),
        }
    )


if __name__ == "__main__":
    main()

"""Questions with a new value each time beside the same questions asked again, in one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

import projseg
from projseg.benchmarks.runner.scenario import Bench, measured

_START: Final = datetime(2024, 1, 1, tzinfo=UTC)
_COUNTRIES: Final = 400
_ASKED: Final = 60
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
    "covered, literal in a list": (
        _GROUPS,
        lambda n: {"filter": f"country IN ('country{n}', 'country{n + 1}')"},
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
    "base rows of an hour, literal": (
        _GROUPS,
        lambda n: {
            "filter": f"time >= TIMESTAMP '{_START + timedelta(hours=n):%Y-%m-%d %H:%M:%S}' "
            f"AND time < TIMESTAMP '{_START + timedelta(hours=n + 1):%Y-%m-%d %H:%M:%S}'"
        },
    ),
    "base rows of an interval": (
        _GROUPS,
        lambda n: {"interval": (_START + timedelta(hours=n), _START + timedelta(hours=n + 1))},
    ),
}


def run(bench: Bench) -> None:
    """Ask tables of several sizes."""
    for count in bench.numbers("rows"):
        rows = _rows(count)
        countries = projseg.Projection(
            "countries", group_by=["country", "channel"], aggregators=["count(*)", "sum(added)"]
        )
        table = projseg.Table.create(
            bench.folder / str(count),
            rows.schema,
            time_column="time",
            projections=[countries],
            data=rows,
        )
        for name, question in _QUESTIONS.items():
            figure = _costs(table, *question, bench["rounds"])
            bench.add(f"{count:,} rows", name, "", figure)


def _costs(
    table: projseg.Table, parts: _Given, values: Callable[[int], dict[str, Any]], rounds: int
) -> dict[str, float]:
    """Return the least of the rounds, of processor time a question; one warms the table up.

    New and repeated questions take turns, so that a slower minute of the machine slows both.
    """

    def milliseconds(first: int) -> float:
        with measured() as spent:
            for number in range(first, first + _ASKED):
                table.query(**parts, **values(number))
        return float(spent["cpu s"]) / _ASKED * 1e3

    milliseconds(0)
    firsts = [number * _ASKED for number in range(1, rounds + 1)]
    timed = [(milliseconds(first), milliseconds(first)) for first in firsts]
    new, again = map(min, zip(*timed, strict=True))
    return {"new cpu ms": new, "again cpu ms": again, "new / again": new / again}


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

"""Random tables of five families, and random questions of every kind; a seed gives the same ones.

Nothing was tuned for them. `web` has wide rows of a log: nearly unique addresses and titles, 64-bit
ids, many narrow flags; `log` has half as many columns more, and an address and a title of its own
in every row. `events` has decimals, and keys of few and of many values. `sensors` has readings in
the order of time. `items` is like a dimension: every row has a key of its own, and time means
little. The seed draws how many values each column has, how unevenly they are distributed, how many
of them are null, and whether rows come in the order of time.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.benchmarks.workload import Question
from projseg.segment_format.logical_types import numbers_to_arrow

START: Final = np.datetime64("2024-05-01", "us")
DAYS: Final = 20
_BLOCK_ROWS: Final = 1 << 17
_SCATTER: Final = 0x9E3779B97F4A7C15  # odd, so that multiplying by it loses nothing
_SYLLABLES: Final = ("ba", "co", "du", "fe", "gi", "ka", "lo", "mu", "ne", "ri", "sa", "to", "vi")
_TIME: Final = pa.timestamp("us", tz="UTC")
_TYPES: Final = {
    **{str(kind): kind for kind in (pa.int16(), pa.int32(), pa.int64(), pa.float64(), pa.string())},
    "decimal": pa.decimal128(12, 2),
}
_FILE: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
FAMILIES: Final = tuple(_FILE)

_HOURS: Final = (1, 6, 24, 96)
_SAMPLE_ROWS: Final = 1000


@dataclass(frozen=True)
class SweepColumn:
    """A column of a random table.

    Its role, what questions may do with it, is `time`, `few`, `many`, `id`, `unique`, `text`,
    `number`, `decimal`, `double` or `flag`. It has at most `value_count` values, 0 for one a row,
    evenly distributed at a skew of 1; the share `null_share` of its rows is null.
    """

    name: str
    role: str
    type: pa.DataType
    value_count: int = 0
    skew: float = 1.0
    null_share: float = 0.0

    def drawn_values(self, rows: NDArray[np.uint64], draw: np.random.Generator) -> pa.Array:
        """Return the values of rows by their numbers."""
        numbers = rows
        if self.value_count:
            picked = (draw.random(len(rows)) ** self.skew * self.value_count).astype(np.uint64)
            numbers = picked
        mask = draw.random(len(rows)) < self.null_share if self.null_share else None
        if pa.types.is_string(self.type):
            found = pa.array(_texts(numbers, self.role), pa.string())
            return found if mask is None else pc.if_else(pa.array(~mask), found, None)
        if pa.types.is_decimal(self.type):
            validity = None if mask is None else ~mask
            return numbers_to_arrow(numbers.astype(np.int64) - 100, self.type, validity, 0)
        values: NDArray[np.int64] | NDArray[np.float64] = numbers.astype(np.int64)
        if self.role in ("id", "unique"):
            scattered = numbers * np.uint64(_SCATTER)
            values = scattered.view(np.int64) >> (64 - self.type.bit_width)
        if self.role == "double":
            values = values / 8.0 - 100.0
        return pa.array(values, mask=mask).cast(self.type)


@dataclass(frozen=True)
class SweepTable:
    """The rows, made in blocks, of one random table of a family in `FAMILIES`."""

    family: str
    row_count: int
    seed: int

    @property
    def columns(self) -> tuple[SweepColumn, ...]:
        """The columns, the time first."""
        draw, rows = self._draw(0), self.row_count
        drawn: dict[str, Callable[[], float]] = {
            "few": lambda: int(draw.choice([2, 5, 20, 90, 400])),
            "many": lambda: max(int(rows * draw.choice([0.001, 0.02, 0.2, 0.7])), 2),
            "skew": lambda: float(draw.choice([1.0, 2.0, 4.0])),
            "nulls": lambda: float(draw.choice([0.0, 0.0, 0.03, 0.7])),
        }
        found = [SweepColumn("time", "time", _TIME)]
        for line in _FILE[self.family].splitlines():
            names, role, kind, *facts = line.split()
            stem, _, count = names.partition("*")
            for name in [f"{stem}{n}" for n in range(int(count))] if count else [stem]:
                values = [drawn[one]() if one in drawn else float(one) for one in facts]
                found.append(SweepColumn(name, role, _TYPES[kind], *_whole_first(values)))
        return tuple(found)

    @property
    def schema(self) -> pa.Schema:
        """The columns' names and types."""
        return pa.schema(
            [pa.field(c.name, c.type, nullable=c.null_share > 0) for c in self.columns]
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order."""
        is_sorted = self.family == "sensors" or bool(self._draw(1).random() < 0.5)
        for number, start in enumerate(range(0, self.row_count, _BLOCK_ROWS)):
            draw = self._draw(2 + number)
            rows = np.arange(start, min(start + _BLOCK_ROWS, self.row_count), dtype=np.uint64)
            span_us = DAYS * 86_400_000_000
            offsets = rows * np.uint64(span_us // self.row_count)
            if not is_sorted:
                offsets = draw.integers(0, span_us, len(rows)).astype(np.uint64)
            seconds = offsets // np.uint64(1_000_000) * np.uint64(1_000_000)
            micros = seconds.astype(np.int64) + START.astype(np.int64)
            arrays = [pa.array(micros).cast(_TIME)]
            arrays += [column.drawn_values(rows, draw) for column in self.columns[1:]]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _draw(self, part: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, FAMILIES.index(self.family), part])


def _whole_first(values: list[float]) -> list[Any]:
    return [*map(int, values[:1]), *values[1:]]


def _texts(numbers: NDArray[np.uint64], role: str) -> list[str]:
    """Return a text for each number: short words of keys, else addresses of up to 100 bytes."""
    known: dict[int, str] = {}
    for number in np.unique(numbers).tolist():
        digits, word = number * _SCATTER & (1 << 40) - 1, []
        while digits:
            digits, one = divmod(digits, len(_SYLLABLES))
            word.append(_SYLLABLES[one])
        if role == "text":
            known[number] = f"http://{''.join(word[:3])}.com/{'/'.join(word[3:])}?id={number}"
        else:
            known[number] = f"{''.join(word[:3])}{number}"
    return [known[number] for number in numbers.tolist()]


def sweep_questions(table: SweepTable, count: int) -> tuple[Question, ...]:
    """Return `count` questions of each kind, named by it: `top 1`, `top 2`."""
    drawn = _Drawn(table)
    found = []
    for kind in KINDS:
        for number in range(1, count + 1):
            parts: dict[str, Any] = getattr(drawn, "_".join(kind.split()))()
            found.append(Question(f"{kind} {number}", **parts, table=table.family))
    return tuple(found)


class _Drawn:
    """What a question is made of; each public method returns the parts of one of its kind."""

    def __init__(self, table: SweepTable) -> None:
        self._draw = np.random.default_rng([table.seed, 99])
        self._columns = table.columns
        self._rows = next(table.batches()).slice(0, _SAMPLE_ROWS)

    def scan(self) -> dict[str, Any]:
        return {"columns": self._some_columns(3), "filter": self._narrow(), "is_drained": True}

    def narrow_filter(self) -> dict[str, Any]:
        return {"aggregators": ("count(*) AS n", self._sum()), "filter": self._narrow()}

    def look_up(self) -> dict[str, Any]:
        name = self._column_among("unique", "id", "text", "many")
        return {"columns": self._some_columns(4), "filter": f"{name} = {self._value(name)}"}

    def first_rows(self) -> dict[str, Any]:
        columns = self._every() if self._is(0.5) else self._some_columns(3)
        condition = self._narrow() if self._is(0.6) else None
        return {"columns": columns, "filter": condition, "limit": 10, "determined": ()}

    def top(self) -> dict[str, Any]:
        order = self._distinct_names(1 + self._is(0.4), "time", "text", "number", "many", "decimal")
        columns = self._every() if self._is(0.5) else tuple(dict.fromkeys(order))
        condition = self._any_filter() if self._is(0.7) else None
        limit = int(self._draw.choice([10, 10, 100, 1000]))
        terms = tuple(f"{name}{' DESC' if self._is(0.5) else ''}" for name in order)
        parts = {"columns": columns, "filter": condition, "order_by": terms, "limit": limit}
        return {**parts, "determined": tuple(order)}

    def group_few(self) -> dict[str, Any]:
        return self._grouped(self._distinct_names(1, "few", "flag"))

    def group_many(self) -> dict[str, Any]:
        return self._top_groups(self._distinct_names(1, "id", "many", "text", "unique"))

    def group_several(self) -> dict[str, Any]:
        count = int(self._draw.integers(2, 4))
        return self._top_groups(self._distinct_names(count, "id", "many", "few", "text", "flag"))

    def group_computed(self) -> dict[str, Any]:
        key, number = self._column_among("many", "few"), self._column_among("number")
        text = self._one_of(self._texts("text", "few"))
        computed = (f"{number} % 16", f"length({text})", f"substr({text}, 1, 12)", "hour(time)")
        keys = (f"{self._draw.choice(computed)} AS made", key)[: 1 + self._is(0.5)]
        names = ("made", key)[: len(keys)]
        return self._limited(keys, names, self._any_filter() if self._is(0.3) else None)

    def distinct(self) -> dict[str, Any]:
        counted = (
            f"count(DISTINCT {self._column_among('id', 'many', 'text', 'unique', 'few')}) AS u"
        )
        keys = self._distinct_names(1, "few", "flag") if self._is(0.5) else ()
        return {"group_by": tuple(keys), "aggregators": (counted, "count(*) AS n")}

    def sums(self) -> dict[str, Any]:
        name = self._column_among("number")
        texts = [f"sum({name} + {n}) AS s{n}" for n in range(int(self._draw.integers(5, 60)))]
        return {"aggregators": tuple(texts), "filter": self._narrow() if self._is(0.3) else None}

    def expressions(self) -> dict[str, Any]:
        number, other = self._column_among("number"), self._column_among("number", "decimal")
        made = (
            f"sum({number} % 1000 * {other}) AS a",  # products fit 32 bits
            f"sum(CASE WHEN {number} > 20 THEN {other} ELSE 0 END) AS b",
            f"max(abs({other} - {number})) AS c",
            f"sum(coalesce({number}, 1) * 2 + 1) AS d",
            f"avg({number} % 7) AS e",
        )
        picked = self._draw.choice(len(made), 2, replace=False)
        keys = self._distinct_names(1, "few", "flag") if self._is(0.5) else ()
        return {"group_by": tuple(keys), "aggregators": tuple(made[place] for place in picked)}

    def texts(self) -> dict[str, Any]:
        name, other = self._one_of(self._texts("text")), self._column_among("text", "few")
        condition = self._pattern(name)
        made = (f"min({name}) AS a", f"max({name}) AS a", f"sum(length({name})) AS a")
        aggregators = ("count(*) AS n", str(self._draw.choice(made)))
        if self._is(0.4):
            return self._limited((other,), (other,), condition, aggregators)
        return {"aggregators": aggregators, "filter": condition}

    def window(self) -> dict[str, Any]:
        hours = int(self._draw.choice(_HOURS))
        start = START.item() + timedelta(hours=int(self._draw.integers(0, DAYS * 24 - hours)))
        unit = str(self._draw.choice(["MINUTE", "HOUR", "DAY"]))
        key = (f"date_trunc('{unit}', time) AS bucket",) if self._is(0.5) else ()
        keys = key + tuple(self._distinct_names(1, "few", "flag"))[: self._is(0.5)]
        aggregators = ("count(*) AS n", self._sum())
        interval = (_iso(start), _iso(start + timedelta(hours=hours)))
        return {"group_by": keys, "aggregators": aggregators, "interval": interval}

    def _grouped(self, keys: list[str]) -> dict[str, Any]:
        condition = self._any_filter() if self._is(0.4) else None
        aggregators = ("count(*) AS n", self._sum())
        return {"group_by": tuple(keys), "aggregators": aggregators, "filter": condition}

    def _top_groups(self, keys: list[str]) -> dict[str, Any]:
        condition = self._any_filter() if self._is(0.3) else None
        return self._limited(tuple(keys), tuple(keys), condition)

    def _limited(
        self,
        keys: tuple[str, ...],
        names: tuple[str, ...],
        condition: str | None,
        aggregators: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """Return groups, of which those of most rows are wanted, or any, or those of least keys."""
        aggregators = aggregators or ("count(*) AS n", self._sum())
        parts = {"group_by": keys, "aggregators": aggregators, "filter": condition, "limit": 10}
        order, determined = self._order_of_groups(names)
        return {**parts, "order_by": order, "determined": determined}

    def _order_of_groups(
        self, names: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
        at = self._draw.random()
        if at < 0.5:
            return ("n DESC", *names), None
        return ((), ()) if at < 0.75 else (names, None)

    def _sum(self) -> str:
        name = self._column_among("number", "decimal", "double")
        return f"{self._draw.choice(['sum', 'avg', 'max'])}({name}) AS x"

    def _narrow(self) -> str:
        """Return a condition that keeps few rows, or the rarer values of a flag."""
        name = self._column_among("flag", "few", "number", "many")
        value = self._value(name)
        if name in self._names("flag"):
            return f"{name} <> 0"
        return f"{name} = {value}" if self._is(0.6) else f"{name} IN ({value}, {self._value(name)})"

    def _any_filter(self) -> str:
        at = self._draw.random()
        if at < 0.3 and self._names("text"):
            return self._pattern(self._column_among("text"))
        if at < 0.6:
            return f"{self._column_among('number')} > {int(self._draw.integers(0, 60))}"
        return self._narrow()

    def _pattern(self, name: str) -> str:
        value = self._value(name).strip("'")
        middle = value.split("/")[3][:4] if value.count("/") > 3 else value[:4]
        texts = (f"{name} LIKE '%{middle}%'", f"{name} LIKE '{value[:9]}%'", f"{name} <> ''")
        return str(self._draw.choice(texts))

    def _value(self, name: str) -> str:
        values = self._rows.column(name).drop_null()
        if not len(values):
            return "NULL"
        value = values[int(self._draw.integers(len(values)))].as_py()
        return f"'{value}'" if pa.types.is_string(values.type) else str(value)

    def _names(self, *roles: str) -> list[str]:
        found = [column.name for column in self._columns if column.role in roles]
        return found or [column.name for column in self._columns if column.role == "few"]

    def _texts(self, *roles: str) -> list[str]:
        texts = [c.name for c in self._columns if pa.types.is_string(c.type)]
        return [name for name in self._names(*roles) if name in texts] or texts

    def _column_among(self, *roles: str) -> str:
        return self._one_of(self._names(*roles))

    def _one_of(self, names: list[str]) -> str:
        return str(self._draw.choice(names))

    def _distinct_names(self, count: int, *roles: str) -> list[str]:
        names = self._names(*roles)
        count = min(count, len(names))
        return [str(name) for name in self._draw.choice(names, count, replace=False)]

    def _every(self) -> tuple[str, ...]:
        return tuple(column.name for column in self._columns)

    def _some_columns(self, count: int) -> tuple[str, ...]:
        names = self._every()
        places = self._draw.choice(len(names), min(count, len(names)), replace=False)
        return tuple(names[place] for place in sorted(places.tolist()))

    def _is(self, share: float) -> bool:
        return bool(self._draw.random() < share)


def _iso(time: datetime) -> str:
    return time.isoformat(sep=" ")


KINDS: Final = tuple(name.replace("_", " ") for name in vars(_Drawn) if not name.startswith("_"))

"""Random tables of five families, which nothing was tuned for: the same seed gives the same rows.

`web` has wide rows of a log: nearly unique addresses and titles, 64-bit ids, many narrow flags;
`log` has half as many columns more, and an address and a title of its own in every row.
`events` has decimals, and keys of few and of many values. `sensors` has readings in the order of
time. `items` is like a dimension: every row has a key of its own, and time means little. The seed
draws how many values each column has, how unevenly they are distributed, how many of them are null,
and whether rows come in the order of time.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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


@dataclass(frozen=True)
class SweepColumn:
    """A column of a random table.

    Parameters
    ----------
    name : str
        Its name.
    role : str
        What questions may do with it: `time`, `few`, `many`, `id`, `unique`, `text`, `number`,
        `decimal`, `double` or `flag`.
    type : pa.DataType
        The logical type.
    value_count : int
        How many values it has at most; 0: each row has its own.
    skew : float
        How unevenly values are distributed; 1: evenly.
    null_share : float
        Which share of its rows is null.
    """

    name: str
    role: str
    type: pa.DataType
    value_count: int = 0
    skew: float = 1.0
    null_share: float = 0.0

    def made(self, rows: NDArray[np.uint64], draw: np.random.Generator) -> pa.Array:
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
    """The rows of one random table, made in blocks.

    Parameters
    ----------
    family : str
        One of `FAMILIES`.
    row_count : int
        How many rows.
    seed : int
        What else is drawn from.
    """

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
            arrays += [column.made(rows, draw) for column in self.columns[1:]]
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

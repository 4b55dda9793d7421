"""Random questions of every kind over a random table: the same seed gives the same questions.

A question is drawn from the roles of the table's columns, and its values from the first rows. Sums
stay far from the bounds of their types, and no expression may fail, in any engine.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from projseg.benchmarks.workloads.question import Question
from projseg.benchmarks.workloads.sweep_tables import DAYS, START, SweepTable

_HOURS: Final = (1, 6, 24, 96)
_SAMPLE_ROWS: Final = 1000


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
        name = self._one("unique", "id", "text", "many")
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
        key, number = self._one("many", "few"), self._one("number")
        text = self._one_of(self._texts("text", "few"))
        computed = (f"{number} % 16", f"length({text})", f"substr({text}, 1, 12)", "hour(time)")
        keys = (f"{self._draw.choice(computed)} AS made", key)[: 1 + self._is(0.5)]
        names = ("made", key)[: len(keys)]
        return self._limited(keys, names, self._any_filter() if self._is(0.3) else None)

    def distinct(self) -> dict[str, Any]:
        counted = f"count(DISTINCT {self._one('id', 'many', 'text', 'unique', 'few')}) AS u"
        keys = self._distinct_names(1, "few", "flag") if self._is(0.5) else ()
        return {"group_by": tuple(keys), "aggregators": (counted, "count(*) AS n")}

    def sums(self) -> dict[str, Any]:
        name = self._one("number")
        texts = [f"sum({name} + {n}) AS s{n}" for n in range(int(self._draw.integers(5, 60)))]
        return {"aggregators": tuple(texts), "filter": self._narrow() if self._is(0.3) else None}

    def expressions(self) -> dict[str, Any]:
        number, other = self._one("number"), self._one("number", "decimal")
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
        name, other = self._one_of(self._texts("text")), self._one("text", "few")
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
        name = self._one("number", "decimal", "double")
        return f"{self._draw.choice(['sum', 'avg', 'max'])}({name}) AS x"

    def _narrow(self) -> str:
        """Return a condition that keeps few rows, or the rarer values of a flag."""
        name = self._one("flag", "few", "number", "many")
        value = self._value(name)
        if name in self._names("flag"):
            return f"{name} <> 0"
        return f"{name} = {value}" if self._is(0.6) else f"{name} IN ({value}, {self._value(name)})"

    def _any_filter(self) -> str:
        at = self._draw.random()
        if at < 0.3 and self._names("text"):
            return self._pattern(self._one("text"))
        if at < 0.6:
            return f"{self._one('number')} > {int(self._draw.integers(0, 60))}"
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

    def _one(self, *roles: str) -> str:
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

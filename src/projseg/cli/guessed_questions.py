"""Questions that a stranger's columns suggest: few values are groups, numbers are sums."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.argument_texts import literal
from projseg.algebra.expressions.sql_words import quoted_name

_GROUPS_MAX: Final = 5_000
_GROUPS_SHARE_MAX: Final = 0.1  # of the rows that are looked at
_QUESTIONS_MAX: Final = 6
_TITLE_CHARACTERS_MAX: Final = 27
_TIME_NAMES: Final = re.compile(
    r"time|date|datum|\bts\b|_ts$|_at$|created|updated|event|stamp|day|when", re.IGNORECASE
)
_NO_NUMBER: Final = re.compile(
    r"(^|_)(id|key|code|zip|plz|postcode|year|month|day|hour|lat|lon|latitude|longitude|phone|"
    r"version|index|row|no|nr|num|number)(_|$)|[a-z](I[dD]|Code)$",
    re.IGNORECASE,
)
_ISO_TIME: Final = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}"
_SECONDS: Final = (946_684_800, 4_102_444_800)  # of the years 2000 and 2100
_UNITS: Final = (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))
_DAY_US: Final = 86_400_000_000


class TimeGuess(NamedTuple):
    """The column that says when a row happened, if there is one.

    The unit is that of numbers since 1970; empty: it holds times.
    """

    column: str | None
    unit: str = ""


class GuessedQuestion(NamedTuple):
    """A question, in both engines' words.

    A key is a unit of time, or nothing, and a column; a measure a function and a column, or none
    for all rows; the condition a column and its value.
    """

    keys: tuple[tuple[str, str], ...]
    measures: tuple[tuple[str, str], ...]
    condition: tuple[str, Any] | None = None

    @property
    def title(self) -> str:
        """The question in a few words."""
        words = [unit.lower() if unit else column for unit, column in self.keys]
        text = f"by {', '.join(words)}" if words else "all rows"
        if self.condition is not None:
            text += f", one {self.condition[0]}"
        cut = text[: _TITLE_CHARACTERS_MAX - 1]
        return text if len(text) <= _TITLE_CHARACTERS_MAX else f"{cut}…"

    def sql(self, table: str = "t") -> str:
        """Return it in Spark's SQL."""
        return self._sql(table, quoted_name, literal)

    def duckdb_sql(self, source: str) -> str:
        """Return it in DuckDB's SQL, over what FROM is to name."""
        return self._sql(source, _quoted, _duckdb_literal)

    def _sql(self, source: str, quote: Any, constant: Any) -> str:
        keys = [
            f"date_trunc('{unit}', {quote(column)})" if unit else quote(column)
            for unit, column in self.keys
        ]
        calls = [
            f"{function}({quote(column) if column else '*'})" for function, column in self.measures
        ]
        text = f"SELECT {', '.join([*keys, *calls])} FROM {source}"  # noqa: S608 - quoted names
        if self.condition is not None:
            column, value = self.condition
            text += f" WHERE {quote(column)} = {constant(value)}"
        return f"{text} GROUP BY {', '.join(keys)}" if keys else text


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _duckdb_literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, date) and not isinstance(value, datetime):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, int | float | Decimal):
        return str(value)
    escaped = str(value).replace("'", "''")
    return f"'{escaped}'"


def time_of(rows: pa.Table) -> TimeGuess:
    """Return the column of times: one whose type and name say so, without nulls."""
    found: list[tuple[int, int, TimeGuess]] = []
    for place, field in enumerate(rows.schema):
        column = rows.column(field.name)
        if column.null_count:
            continue
        is_named = bool(_TIME_NAMES.search(field.name))
        if pa.types.is_timestamp(field.type):
            found.append((0 if is_named else 1, place, TimeGuess(field.name)))
        elif pa.types.is_date(field.type):
            found.append((2 if is_named else 3, place, TimeGuess(field.name)))
        elif pa.types.is_string(field.type) and is_named and _are_times(column):
            found.append((4, place, TimeGuess(field.name)))
        elif pa.types.is_integer(field.type) and is_named and (unit := _unit_of(column)):
            found.append((4, place, TimeGuess(field.name, unit)))
    return min(found, default=(0, 0, TimeGuess(None)))[2]


def _are_times(column: pa.ChunkedArray) -> bool:
    """Whether texts are times: JSON has no others."""
    return pc.all(pc.match_substring_regex(column, _ISO_TIME)).as_py() or False


def _unit_of(column: pa.ChunkedArray) -> str:
    """Return the unit in which numbers are times of this century; empty: they are none."""
    if not len(column):
        return ""
    bounds = pc.min_max(column)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    for unit, scale in _UNITS:
        if _SECONDS[0] * scale <= low <= high < _SECONDS[1] * scale:
            return unit
    return ""


def group_columns(rows: pa.Table, time_column: str | None) -> dict[str, int]:
    """Return the columns with few values and how many these are, the most useful first."""
    found: dict[str, int] = {}
    for field in rows.schema:
        kind = field.type
        is_key = pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind)
        if field.name == time_column or not is_key:
            continue
        column = rows.column(field.name)
        count = pc.count_distinct(column, mode="only_valid").as_py()
        most = min(_GROUPS_MAX, max(_GROUPS_SHARE_MAX * len(rows), 12))
        if pa.types.is_integer(kind) and not _NO_NUMBER.search(field.name):
            most = min(most, 40)
        if 2 <= count <= most:
            found[field.name] = count

    def rank(name: str) -> tuple[bool, float]:
        # Texts before numbers, and about thirty groups before two and before a thousand.
        is_text = pa.types.is_string(rows.schema.field(name).type)
        return (not is_text, abs(found[name] ** 0.25 - 30**0.25))

    return {name: found[name] for name in sorted(found, key=rank)}


def number_columns(rows: pa.Table, others: Sequence[str]) -> list[str]:
    """Return the columns that can be added up, the likeliest first: few have no value there."""

    def is_number(kind: pa.DataType) -> bool:
        return bool(
            pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        )

    fields = (field for field in rows.schema if field.name not in others)
    found = [field.name for field in fields if is_number(field.type)]

    def rank(name: str) -> tuple[bool, bool]:
        return bool(_NO_NUMBER.search(name)), rows.column(name).null_count > len(rows) // 2

    return sorted(found, key=rank)[:3]


def unit_of_span(span_us: int | None) -> str:
    """Return the unit of time that makes some dozens of groups of a length of time."""
    days = (span_us or 0) / _DAY_US
    if days > 1000:
        return "MONTH"
    if days > 20:
        return "DAY"
    return "HOUR" if days > 0.5 else "MINUTE"


def guessed_questions(
    rows: pa.Table, time_column: str | None, span_us: int | None
) -> list[GuessedQuestion]:
    """Return questions about a table of which some rows are known, at least one."""
    groups = list(group_columns(rows, time_column))
    numbers = number_columns(rows, [*groups, *([time_column] if time_column else [])])
    unit = unit_of_span(span_us)
    times = [(unit, time_column)] if time_column else []
    common = {name: _most_common(rows.column(name)) for name in groups[:3]}
    questions = _combined(groups, times, numbers, common)
    return list(dict.fromkeys(questions))[:_QUESTIONS_MAX]


def _combined(
    groups: Sequence[str],
    times: Sequence[tuple[str, str]],
    numbers: Sequence[str],
    common: Mapping[str, Any],
) -> Iterator[GuessedQuestion]:
    count = ("count", "")
    first = ("sum", numbers[0]) if numbers else count
    last = numbers[-1] if numbers else ""
    mean = ("avg", numbers[0]) if numbers else count
    most = ("max", last) if last else count
    keys = [("", name) for name in groups]
    if times:
        yield _question([times[0]], [count, first])
    for key in keys[:3]:
        yield _question([key], [count, first])
    if len(keys) > 1:
        yield _question(keys[:2], [mean, count])
    if times and keys:
        yield _question([times[0], keys[0]], [first])
    if len(keys) > 1:
        yield _question([keys[1]], [most, count], (groups[0], common[groups[0]]))
    if times and keys:
        yield _question([times[0]], [count, first], (groups[0], common[groups[0]]))
    yield _question([], [count, first, most])


def _question(
    keys: Sequence[tuple[str, str]],
    measures: Sequence[tuple[str, str]],
    condition: tuple[str, Any] | None = None,
) -> GuessedQuestion:
    return GuessedQuestion(tuple(keys), tuple(dict.fromkeys(measures)), condition)


def _most_common(column: pa.ChunkedArray) -> Any:
    counts = pc.value_counts(column.drop_null())
    return counts.field("values")[pc.index(
        counts.field("counts"), pc.max(counts.field("counts"))
    ).as_py()].as_py()  # fmt: skip

"""The query box, and an answer with how it was made."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Final

import msgspec
import pyarrow as pa

from projseg.catalog.places import Places
from projseg.errors import ProjsegError
from projseg.memory.deadline import answered_within
from projseg.page.answers import TEXT_COLUMN, Answer, plain_rows
from projseg.segment_format.logical_types import type_name
from projseg.table.table_version import TableVersion

ROWS_SHOWN: Final = 1000
_PLAN_SECONDS: Final = 5
_CELL_CHARACTERS: Final = 400
_NUMBERS: Final = ("tinyint", "smallint", "int", "bigint", "float", "double")


class QueryRecord(msgspec.Struct):
    """The query box, and the columns that it offers."""

    name: str
    version: int
    sql: str
    timeout: float
    columns: list[dict[str, str]]


class Refused(msgspec.Struct):
    """A source that did not serve: why, and in how many segments."""

    source: str
    reason: str
    segments: int


class PlanRecord(msgspec.Struct):
    """How a statement is answered, with the names of `Explain`."""

    version: int
    sources: dict[str, int]
    pruned_segments: int
    index_pruned_segments: int
    rows: int
    bytes: int
    rejections: list[Refused]

    @property
    def answered(self) -> list[dict[str, Any]]:
        """Return of how many segments each source answered, and how many were left out by what."""
        counts = dict(self.sources) | {
            "left out by times and bounds": self.pruned_segments - self.index_pruned_segments,
            "left out by indexes": self.index_pruned_segments,
        }
        whole = max(sum(counts.values()), 1)
        return [
            {"source": name, "segments": count, "share": count / whole}
            for name, count in counts.items()
            if count or name in self.sources
        ]


class AnswerRecord(msgspec.Struct):
    """A statement and its answer, as far as there is one.

    `state` is running, done, failed, cancelled or timeout; `progress` has the segments of a change
    that are done, and all. `kept` rows of the answer can be downloaded; `values` has the first
    `ROWS_SHOWN`. The plan is None for statements that are no SELECT or cannot be planned; `text` is
    EXPLAIN's. `error` has code, message, and the place in the statement or None.
    """

    name: str
    sql: str
    state: str
    progress: tuple[int, int] | None
    milliseconds: float | None
    version: str | None
    rows: int
    kept: int
    columns: list[tuple[str, str]]
    values: list[list[Any]]
    plan: PlanRecord | None
    text: str | None
    error: dict[str, Any] | None


def query_record(name: str, version: TableVersion, sql: str, timeout: float) -> QueryRecord:
    """Return the content of the box before any statement."""
    columns = [{"column": one.name, "type": type_name(one.type)} for one in version.schema]
    return QueryRecord(name, version.version, sql, timeout, columns)


def answer_record(answer: Answer, places: Places) -> AnswerRecord:
    """Return an answer, and the plan of its statement at the table's newest version."""
    rows, asked = answer.rows, answer.asked
    text = None
    if rows is not None and rows.column_names == [TEXT_COLUMN]:
        text = str(rows.column(0)[0].as_py())
    shown = pa.table({}) if rows is None or text is not None else rows
    return AnswerRecord(
        asked.table,
        asked.sql,
        answer.state,
        answer.progress,
        answer.milliseconds,
        answer.version,
        answer.row_count,
        0 if rows is None else rows.num_rows,
        [(one.name, type_name(one.type)) for one in shown.schema],
        plain_rows(shown, ROWS_SHOWN),
        _plan(answer, places) if answer.state == "done" and text is None else None,
        text,
        answer.error_record(),
    )


def _plan(answer: Answer, places: Places) -> PlanRecord | None:
    sql = answer.asked.sql
    if sql.lstrip()[:6].upper() not in ("SELECT", "WITH"):
        return None
    try:
        version = places.version(answer.asked.table, answer.version)
        with answered_within(_PLAN_SECONDS):
            found = version.sql(sql, explain=True)
    except ProjsegError:
        return None
    refused: dict[tuple[str, str], int] = {}
    for segment in found.named_segments():
        for source, reason in segment["rejected"].items():
            refused[source, reason] = refused.get((source, reason), 0) + 1
    views = [
        Refused(f"view {one['name']}", str(one["reason"]), found.figures.segments)
        for one in found.views
        if one["reason"]
    ]
    return PlanRecord(
        version.version,
        found.sources,
        found.pruned_segments,
        found.figures.index_pruned_segments,
        found.figures.rows,
        found.figures.bytes,
        [Refused(*key, count) for key, count in sorted(refused.items())] + views,
    )


def is_number(type_: str) -> bool:
    """Whether values of a type are drawn, and stand on the right of a cell."""
    return type_ in _NUMBERS or type_.startswith("decimal")


def cell_text(value: Any) -> str:
    """Return a value as a cell shows it."""
    if isinstance(value, bytes):
        value = value.hex()
    elif isinstance(value, date | datetime):
        value = value.isoformat().replace("+00:00", "Z")
    text = "true" if value is True else "false" if value is False else str(value)
    return text if len(text) <= _CELL_CHARACTERS else f"{text[: _CELL_CHARACTERS - 1]}…"

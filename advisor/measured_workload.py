"""A workload of statements that somebody gives; each is asked, once its files are read."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from projseg.advisor.workload import LoggedWorkload, Shape, shape_id
from projseg.algebra.query.request import Query
from projseg.errors import InvalidInputError, ProjsegError
from projseg.reader.plan.query_plan import QueryPlan
from projseg.reader.query_log.query_text import query_content
from projseg.reader.query_log.read_log import bad_log
from projseg.table import Table
from projseg.table.questions import PlainSelect, selected
from projseg.table.table_version import reader_of

_RUNS: Final = 2
_WEIGHT: Final = re.compile(r"--\s*weight\s*:\s*([0-9]{1,12})\s*$", re.IGNORECASE | re.MULTILINE)
_COMMENTS: Final = ("--", "/*")
_PIECE: Final = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/|[^;'"`/-]+|.""",
    re.DOTALL,
)


class WeightedQuery(NamedTuple):
    """A SELECT over the table, or a query of it, and how often it counts."""

    question: str | Query
    weight: int = 1


def read_statements(path: Path) -> list[WeightedQuery]:
    """Return the SELECTs of a file, each ended by `;`, with `-- weight: 40` before some.

    Raises InvalidInputError (PROJSEG_BAD_LOG) if there is none.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise bad_log(f"the statements cannot be read: {error}") from error
    found = []
    for pieces in _parts(text):
        weight = _WEIGHT.search("\n".join(one for one in pieces if one.startswith("--")))
        statement = "".join(" " if one.startswith(_COMMENTS) else one for one in pieces).strip()
        if statement:
            found.append(WeightedQuery(statement, int(weight[1]) if weight else 1))
    if not found:
        raise bad_log(f"'{path}' has no statement; write SELECTs that end with ;")
    return found


def _parts(text: str) -> Iterator[list[str]]:
    """Yield the pieces of each statement: quoted texts, comments and what is between them."""
    pieces: list[str] = []
    for piece in _PIECE.findall(text):
        if piece == ";":
            yield pieces
            pieces = []
        else:
            pieces.append(piece)
    yield pieces


def measured_workload(table: Table, queries: Sequence[WeightedQuery]) -> LoggedWorkload:
    """Ask each question, and return them as a workload; raise the errors of `Table.sql`.

    PROJSEG_BAD_LOG is that of a text that is no SELECT over one table.
    """
    shapes = []
    for question, weight in queries:
        asked = _query_of(table, question)
        plan = reader_of(table).plan(asked)
        milliseconds, returned = min(_run(table, plan) for _ in range(_RUNS))
        content = query_content(plan.query, "all")
        if plan.query.interval is not None:
            content["interval"] = str(plan.query.interval)
        text = msgspec.json.encode(content, order="sorted").decode()
        zone = plan.query.context.zone
        shape = Shape(shape_id(text), content, weight, milliseconds, "", zone, returned=returned)
        shapes.append(shape)
    count = sum(shape.count for shape in shapes)
    shapes.sort(key=lambda one: (-one.count * (one.median_ms or 0.0), one.id))
    return LoggedWorkload(
        shapes=shapes, query_count=count, doors={"statements": count}, is_weighted=True
    )


def _run(table: Table, plan: QueryPlan) -> tuple[float, float]:
    """Return the milliseconds of an answer, and its rows."""
    start = time.perf_counter()
    rows = reader_of(table).answer(plan)
    return (time.perf_counter() - start) * 1000, float(len(rows))


def _query_of(table: Table, question: str | Query) -> Query:
    if isinstance(question, Query):
        return question
    try:
        select = selected(reader_of(table), question)
    except ProjsegError as error:
        raise type(error)(error.code, f"'{question[:200]}': {error.message}") from error
    if not isinstance(select, PlainSelect):
        raise InvalidInputError(
            "PROJSEG_BAD_LOG",
            f"'{question[:200]}' asks more than one SELECT over one table; leave it out",
        )
    return select.selected.query

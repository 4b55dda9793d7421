"""What a table should store for its queries: advice, and what became of earlier advice."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pyarrow as pa

from projseg.doors.plain_values import plain_mapping
from projseg.errors import InvalidInputError
from projseg.page.answers import Answer
from projseg.table import Table

BUDGET: Final = "10%"
ACTIONS: Final = ("advise", "report")


class AdviceRecord(msgspec.Struct):
    """Advice from a log, if there is a log.

    `answer` identifies it, None if nobody asked since the page was started; `state` is as in
    `Answer`; `budget` is as it was typed; `progress` has the number of candidates with a size and
    of all. `advice` is as in `Advice.to_json`, `sql` its statements, `report` as in
    `projseg.advice_report`; `error` has a code and a message.
    """

    name: str
    version: int
    log: str
    budget: str = BUDGET
    answer: str | None = None
    state: str | None = None
    progress: tuple[int, int] | None = None
    milliseconds: float | None = None
    advice: dict[str, Any] | None = None
    sql: str = ""
    report: list[dict[str, Any]] = []
    error: dict[str, Any] | None = None


def advice_record(name: str, version: int, log: str, answer: Answer | None) -> AdviceRecord:
    """Return the advice that was requested, as far as it is made."""
    if answer is None:
        return AdviceRecord(name, version, log)
    advice, rows = answer.advice, answer.rows
    return AdviceRecord(
        name,
        version,
        log,
        answer.asked.budget or BUDGET,
        answer.id,
        answer.state,
        answer.progress,
        answer.milliseconds,
        None if advice is None else json.loads(advice.to_json()),
        "" if advice is None else advice.sql(),
        [] if rows is None else [plain_mapping(row) for row in rows.to_pylist()],
        answer.error_record(),
    )


def compute_advice(
    table: Table, log: str, budget: str, action: str, seconds: float, answer: Answer
) -> pa.Table:
    """Put advice into an answer, and return what became of earlier advice."""
    # Imported here: it is not what most visits need.
    from projseg.advisor.advice_report import advice_report
    from projseg.advisor.advise import advise

    if action == "advise":
        answer.advice = advise(
            table, log, budget=budget, seconds=seconds, on_progress=answer.note_progress
        )
    return advice_report(table, log)


def check_action(action: str) -> str:
    """Return which button was pressed, or refuse what is none."""
    if action not in ACTIONS:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"action is {action!r}; give {' or '.join(ACTIONS)}"
        )
    return action

"""How long a new process takes from its start to its first answer.

On a machine that does other work as well, only the processor's time says what a question costs.
"""

from __future__ import annotations

from typing import Final

import projseg
from projseg.benchmarks.generator import SCHEMA, EditStream
from projseg.benchmarks.runner.scenario import Bench, Scenario
from projseg.benchmarks.scenarios.table_life import HOURLY

__all__ = ["FIRST_ANSWER"]

_ASK: Final = "import projseg; projseg.Table({location!r}).query({question})"
_QUESTIONS: Final = {
    "covered": "group_by='channel', aggregators='sum(added) AS added, count(*) AS edits'",
    "base rows": "group_by='user', aggregators='count(*) AS edits'",
}


def _run(bench: Bench) -> None:
    location = str(bench.folder / "edits")
    table = projseg.Table.create(
        location, SCHEMA, time_column="time", segment_granularity="day", projections=[HOURLY]
    )
    table.append(EditStream(bench["rows"]).reader())
    codes = {
        name: _ASK.format(location=location, question=question)
        for name, question in _QUESTIONS.items()
    }
    for name, code in (codes | {"import pyarrow": "import pyarrow"}).items():
        bench.in_new_process(code)  # leaves compiled modules and kernels behind
        done = [bench.in_new_process(code) for _ in range(bench["rounds"])]
        seconds = [one.seconds for one in done]
        bench.add("processes", name, "", {"s": seconds, "cpu s": [one.cpu_seconds for one in done]})


FIRST_ANSWER: Final = Scenario(
    "first-answer",
    "From the start of a process to its first answer, covered and of rows.",
    {"rows": 50_000, "rounds": 11},
    _run,
    {"rows": 1000, "rounds": 1},
)

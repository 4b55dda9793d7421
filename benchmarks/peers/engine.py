"""The interface of every engine of the benchmark."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import pyarrow as pa

from projseg.benchmarks.measuring import TurnTime, ask_at_once, processor_seconds, take_turn
from projseg.benchmarks.workload import Question, Rollup, Source, Workload

Client: TypeAlias = Callable[[Question], object]
_WARM_UP_SECONDS: Final = 0.2


class NotApplicableError(Exception):
    """The engine is not meant to do this, as a rollup that lacks a query's columns."""


class Engine(ABC):
    """One engine over one copy of the rows, in a folder of its own, alone in its process.

    `__init__` imports the engine's library; an error there makes the engine a missing one. Then
    either `load`, `settle` and `sizes`, or `open` and any number of questions.
    """

    name: ClassVar[str]
    is_peer: ClassVar[bool] = True
    runs_on_spark: ClassVar[bool] = False
    has_projections: ClassVar[bool] = True

    def __init__(self, folder: Path, thread_count: int, workload: Workload) -> None:
        self.folder, self.thread_count, self.workload = folder, thread_count, workload

    @property
    def projections(self) -> tuple[Rollup, ...]:
        """The projections that it holds beside the rows."""
        return self.workload.projections if self.has_projections else ()

    @abstractmethod
    def load(self, source: Source) -> None:
        """Store all rows durably; the caller times this."""

    def settle(self) -> None:  # noqa: B027  most engines have nothing to settle
        """Bring the stored rows into the shape in which they are measured."""

    def sizes(self) -> tuple[int, int]:
        """Return the bytes on disk of the base rows, and of everything made from them."""
        return stored_bytes(self.folder), 0

    @abstractmethod
    def open(self) -> None:
        """Make the loaded rows ready for queries."""

    @abstractmethod
    def run(self, query: Question) -> pa.Table:
        """Return the answer, complete and in memory."""

    @abstractmethod
    def drain(self, query: Question) -> None:
        """Produce every row of a row scan and discard it."""

    def plan(self, query: Question) -> None:
        """Plan a query without running it."""
        raise NotApplicableError(f"{self.name} does not plan {query.name} alone")

    def answer(self, query: Question) -> pa.Table | None:
        """Answer a query as it is meant: kept and returned, or drained."""
        if not query.is_drained:
            return self.run(query)
        self.drain(query)
        return None

    def turn(self, query: Question) -> TurnTime:
        """Answer a query a few times; of Spark, the processor time of Java counts too."""
        cpu = processor_seconds if self.runs_on_spark else time.process_time
        return take_turn(lambda: self.answer(query), cpu=cpu)

    def client(self) -> Client:
        """Return a function that answers one client among several, with one thread a query."""
        return self.run

    def at_once(self, query: Question, client_count: int, seconds: float) -> dict[str, float]:
        """Return the rate and latencies of clients that ask at once, when all workers are warm."""
        asked_by = max(client_count, self.thread_count)
        clients = [partial(self.client(), query) for _ in range(asked_by)]
        ask_at_once(clients, _WARM_UP_SECONDS)
        return ask_at_once(clients[:client_count], seconds)

    def work(self, query: Question) -> dict[str, Any]:
        """Return the engine's own figures of reading, as measures; most have none."""
        del query
        return {}

    def close(self) -> None:  # noqa: B027  most engines end with their process
        """Release what the engine holds."""


def stored_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

"""The interface of every engine of the benchmark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from projseg.benchmarks.question import Question, Rollup
from projseg.benchmarks.records import Work
from projseg.benchmarks.staging import Source
from projseg.benchmarks.workload import WORKLOADS, Workload

__all__ = ["Engine", "NotApplicableError", "stored_bytes"]


class NotApplicableError(Exception):
    """The engine is not meant to answer this query, as a rollup that lacks its columns."""


class Engine(ABC):
    """One engine over one copy of the rows, alone in its process.

    `__init__` imports the engine's library and may raise ImportError, which the harness reports as
    a missing peer. Then either `load`, `settle` and `sizes`, or `open` and any number of `run`.

    Parameters
    ----------
    folder : Path
        The engine's own place, empty before `load`.
    thread_count : int
        Threads it may use.
    workload : Workload
        The table and its projections.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    is_peer: ClassVar[bool] = True
    runs_on_spark: ClassVar[bool] = False
    has_projections: ClassVar[bool] = True
    workloads: ClassVar[tuple[str, ...]] = tuple(WORKLOADS)

    def __init__(self, folder: Path, thread_count: int, workload: Workload) -> None:
        self.folder, self.thread_count, self.workload = folder, thread_count, workload

    @property
    def projections(self) -> tuple[Rollup, ...]:
        """What it holds beside the rows."""
        return self.workload.projections if self.has_projections else ()

    @abstractmethod
    def version(self) -> str:
        """Return the library's version."""

    @abstractmethod
    def load(self, source: Source) -> None:
        """Store all rows durably; the harness times this call."""

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

    def answer(self, query: Question) -> pa.Table | None:
        """Answer a query as it is meant: kept and returned, or drained."""
        if not query.is_drained:
            return self.run(query)
        self.drain(query)
        return None

    def work(self, query: Question) -> Work | None:
        """Return the rows and bytes that the engine reports to read, if it reports them."""
        del query
        return None

    def close(self) -> None:  # noqa: B027  most engines end with their process
        """Release what the engine holds."""


def stored_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

"""Segments to be written anew, as pieces of work that threads or other processes do.

A piece is known by what is done to the table and by the segments that it replaces, so these are all
that travels to another process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from projseg.table_layer.commits.footer_match import open_checked
from projseg.table_layer.commits.publish import remove
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import stored_schema
from projseg.table_layer.storage.paths import segment_name
from projseg.writer.segment_writer import SegmentLayout


@dataclass(frozen=True, slots=True)
class NewFile:
    """The file that an attempt at a task of a commit is to write, and names of more.

    More are used where one is not enough.
    """

    write_id: str
    number: int
    attempt: int = 0

    @property
    def name(self) -> str:
        """The first file."""
        return self.numbered(0)

    def numbered(self, number: int) -> str:
        """Return one of the files."""
        return segment_name(self.write_id, self.number, self.attempt, number)


@dataclass(frozen=True, slots=True)
class Target:
    """The table version that segments are written for, and the layout that it declares."""

    snapshot: Snapshot
    layout: SegmentLayout

    @classmethod
    def of(cls, snapshot: Snapshot) -> Target:
        """Return the target that a version is."""
        return cls(snapshot, SegmentLayout.of(snapshot.properties))


class Task(Protocol):
    """The segments that replace others: one segment, unless time chunks cut it.

    Equal keys mean that the same is to be written.
    """

    @property
    def key(self) -> tuple[object, ...]:
        """The segments that are replaced, and what replaces them."""

    @property
    def replaced(self) -> tuple[SegmentEntry, ...]:
        """The listed segments that it replaces."""

    def write(self, file: NewFile, pool: Executor) -> tuple[SegmentEntry, ...]:
        """Write the segments; none if they would equal the segments that they replace.

        A failure leaves none.
        """


class Rewrite(Protocol):
    """What is done to the segments of a table; small, and it pickles."""

    def plan(self, target: Target) -> Sequence[Task]:
        """Return the tasks for a version; none once there is nothing to do."""

    def task(self, target: Target, replaced: tuple[SegmentEntry, ...]) -> Task:
        """Return the task that replaces these segments, as `plan` makes it."""


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """Tasks of one commit, at least one, for a runner.

    The commit has used the numbers below `first_number` for other tasks. `files` takes the names of
    files, those of a process that may be killed before they are written; `on_done` gets the number
    of tasks done.
    """

    rewrite: Rewrite
    operation: str
    target: Target
    tasks: Sequence[Task]
    write_id: str
    first_number: int
    files: list[str]
    on_done: Callable[[int], object]

    @property
    def description(self) -> str:
        """Its description for people."""
        location = self.target.snapshot.storage.location
        return f"projseg {self.operation}: {len(self.tasks)} segments of {location}"

    @property
    def replaced_bytes(self) -> int:
        """Stored bytes of the segments that its tasks replace."""
        return sum(entry.byte_count for task in self.tasks for entry in task.replaced)


Written = tuple[Task, tuple[SegmentEntry, ...]]


class TaskRunner(Protocol):
    """Does the tasks of an order, in whichever processes."""

    def run(self, order: WorkOrder) -> Generator[Written]:
        """Yield each task with what was written; the first failure ends it, and the other work."""


@dataclass(frozen=True, slots=True)
class ThreadRunner:
    """Threads of this process, which work on `at_once` tasks; each holds its segments in memory."""

    at_once: int = 1

    def run(self, order: WorkOrder) -> Generator[Written]:
        """Yield each task with what was written, in order."""
        numbers = range(order.first_number, order.first_number + len(order.tasks))
        files = [NewFile(order.write_id, number) for number in numbers]
        order.files.extend(file.name for file in files)

        def work(task: Task, file: NewFile) -> tuple[SegmentEntry, ...]:
            entries = written(task, order.target, file, pool)
            order.files.extend(entry.file for entry in entries if entry.file != file.name)
            return entries

        # Two pools: a task that waits for its columns must not hold a thread that they need.
        with (
            ThreadPoolExecutor(os.cpu_count() or 1) as pool,
            ThreadPoolExecutor(self.at_once) as outer,
        ):
            futures = [
                outer.submit(work, task, file)
                for task, file in zip(order.tasks, files, strict=True)
            ]
            try:
                for done, (task, future) in enumerate(zip(order.tasks, futures, strict=True), 1):
                    entries = future.result()
                    order.on_done(done)
                    yield task, entries
            finally:
                outer.shutdown(cancel_futures=True)


def written(task: Task, target: Target, file: NewFile, pool: Executor) -> tuple[SegmentEntry, ...]:
    """Write a task's segments, and return them once the files are known to be what will be listed.

    What it replaces leaves the table, so nothing is taken on trust.
    """
    snapshot, entries = target.snapshot, task.write(file, pool)
    try:
        for entry in entries:
            open_checked(snapshot.storage, entry, stored_schema(snapshot.properties))
    except BaseException:
        remove(snapshot.storage, [entry.file for entry in entries])
        raise
    return entries

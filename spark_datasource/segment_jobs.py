"""Segments written anew by the tasks of a Spark job, one task for each.

What travels to a task is the rewrite, the table's properties and the entries of its own segments;
what comes back is the entry of the new one. The driver commits, as it does for its own threads.
Several attempts of a task write files of several names, of which one is told to the driver.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace
from pyspark import InheritableThread, SparkContext, TaskContext
from pyspark.sql import SparkSession

from projseg.errors import InvalidInputError
from projseg.maintenance.segment_work import (
    NewFile,
    Rewrite,
    Target,
    WorkOrder,
    Written,
    written,
)
from projseg.spark_datasource.commit_message import LOGGER, SegmentsWritten, warn_of_releases
from projseg.spark_datasource.packed_entries import packed, unpacked
from projseg.spark_datasource.spark_errors import error_in
from projseg.table_layer.own_files import remove
from projseg.table_layer.paths import segment_name
from projseg.table_layer.segment_entry import SegmentEntry
from projseg.table_layer.snapshot import Snapshot, SnapshotFile
from projseg.table_layer.storage import Storage

_LOOK_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class SparkRunner:
    """Tasks of Spark jobs.

    Parameters
    ----------
    context : SparkContext
        Whose executors read and write the table.
    """

    context: SparkContext

    @classmethod
    def of(cls, session: SparkSession) -> SparkRunner:
        """Return the runner of a session.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_ARGUMENT if it is a client of Spark Connect, which cannot run such jobs.
        """
        context = getattr(session, "sparkContext", None)
        if context is None:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"spark is of {type(session).__module__} and has no SparkContext; give the session "
                "of an application that runs on the cluster, or leave spark out",
            )
        return cls(context)

    def run(self, order: WorkOrder) -> Generator[Written]:
        """Yield each task with what was written, once the job is done."""
        location = order.target.snapshot.storage.location
        count = len(order.tasks)
        job = _Job(
            self.context,
            f"projseg-{order.write_id}-{order.first_number}",
            f"projseg {order.operation}: {count} segments of {location}",
        )
        asked = [(item, packed(task.replaced)) for item, task in enumerate(order.tasks)]
        # As many slices as items: each is a task of its own, and is sent to no other.
        told = self.context.parallelize(asked, count).map(_Work.of(order).run)
        try:
            messages = job.run(told.collect, order.on_done)
        except Exception as error:
            LOGGER.warning(
                "write %s to %s failed; files that its tasks wrote stay until a vacuum",
                order.write_id,
                location,
            )
            known = error_in(str(error))
            if known is None:
                raise
            raise known from error
        order.on_done(count)
        warn_of_releases(message.release for message in messages)
        entries = [message.unpacked() for message in messages]
        order.files.extend(entry.file for found in entries for entry in found)
        for task, found in zip(order.tasks, entries, strict=True):
            yield task, next(iter(found), None)


@dataclass(frozen=True, slots=True)
class _Work:
    """What a task does, whichever its segments are."""

    rewrite: Rewrite
    storage: Storage
    version: SnapshotFile
    write_id: str
    first_number: int

    @classmethod
    def of(cls, order: WorkOrder) -> _Work:
        snapshot = order.target.snapshot
        # A task gets the entries of its own segments, and needs no list of the others.
        version = replace(snapshot.file, manifests=(), transactions={})
        return cls(order.rewrite, snapshot.storage, version, order.write_id, order.first_number)

    def run(self, asked: tuple[int, bytes]) -> SegmentsWritten:
        """Write the segment in place of some, under a name that no other attempt can have."""
        context = TaskContext.get()
        assert context is not None
        item, segments = asked
        number = self.first_number + item
        name = segment_name(self.write_id, number, context.taskAttemptId(), 0)
        with ThreadPoolExecutor(context.cpus()) as pool:
            entry = self._written(tuple(unpacked(segments)), name, pool)
        return SegmentsWritten.of([] if entry is None else [entry])

    def _written(
        self, replaced: tuple[SegmentEntry, ...], name: str, pool: ThreadPoolExecutor
    ) -> SegmentEntry | None:
        target = Target.of(Snapshot(self.storage, self.version))
        task = self.rewrite.task(target, replaced)
        try:
            return written(task, target, NewFile(name, self.write_id), pool)
        except BaseException:
            remove(self.storage, [name])
            raise


@dataclass(frozen=True, slots=True)
class _Job:
    """A job that can be cancelled and looked at while it runs.

    Parameters
    ----------
    context : SparkContext
        Where it runs.
    group, description : str
        What Spark's user interface calls it.
    """

    context: SparkContext
    group: str
    description: str

    def run(
        self, action: Callable[[], list[SegmentsWritten]], on_done: Callable[[int], object]
    ) -> list[SegmentsWritten]:
        """Return what an action returns; tell meanwhile how many of its tasks ended."""
        outcome: list[Any] = []

        def act() -> None:
            self.context.setJobGroup(self.group, self.description)
            try:
                outcome.extend((action(), None))
            except Exception as error:  # noqa: BLE001 - it is raised below
                outcome.extend((None, error))

        thread = InheritableThread(target=act)
        thread.start()
        try:
            self._watch(thread, on_done)
        except BaseException:
            self.context.cancelJobGroup(self.group)
            thread.join()
            raise
        found, error = outcome
        if error is not None:
            raise error
        return list(found)

    def _watch(self, thread: threading.Thread, on_done: Callable[[int], object]) -> None:
        known = 0
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
            done = self._done()
            if done > known:
                known = done
                on_done(done)

    def _done(self) -> int:
        """Return how many tasks of the job's one stage have ended."""
        tracker = self.context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self.group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return max((stage.numCompletedTasks for stage in stages if stage), default=0)

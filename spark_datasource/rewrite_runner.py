"""Segments written anew by the tasks of a Spark job, one task for each: by Python, or as a read.

`SparkRunner` is for Python; statements of the extension read `rewrite_reader.py` instead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark import InheritableThread, SparkContext, SparkStageInfo, TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from projseg.errors import InvalidInputError, without_secrets
from projseg.maintenance.rewrite_tasks import WorkOrder, Written
from projseg.maintenance.spark_errors import error_of
from projseg.maintenance.task_messages import ShippedWork, abandon, collected, pieces_of
from projseg.spark_datasource.option_table import WORK_OPTION
from projseg.spark_datasource.options import Options, read_location
from projseg.spark_datasource.python_workers import in_one_line
from projseg.table_layer.metadata.segment_entry import LOGGER
from projseg.table_layer.storage.locate_storage import open_storage

_LOOK_SECONDS: Final = 0.2
_END_SECONDS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class SparkRunner:
    """Tasks of Spark jobs, whose executors read and write the table."""

    context: SparkContext

    @classmethod
    def of(cls, session: SparkSession) -> SparkRunner:
        """Return the runner of a session."""
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
            order.description,
        )
        work = ShippedWork.of(order)
        # As many slices as pieces: each is a task of its own, and is sent to no other.
        messages = self.context.parallelize(list(enumerate(pieces_of(order))), count).map(
            lambda piece: _run_in_task(work, *piece)
        )
        try:
            found = job.run(messages.collect, order.on_done)
        except BaseException as error:
            abandon(order)
            LOGGER.warning("write %s to %s failed", order.write_id, without_secrets(location))
            known = error_of(error)
            if known is None:
                raise
            raise known from error
        yield from collected(order, found)


def _run_in_task(work: ShippedWork, number: int, piece: bytes) -> str:
    """Do a piece of work in the Spark task that this is called in; see `ShippedWork.run`."""
    context = TaskContext.get()
    assert context is not None
    return work.run(number, piece, attempt=context.taskAttemptId(), threads=context.cpus())


@dataclass(frozen=True, slots=True)
class _Job:
    """A job that can be cancelled and looked at while it runs."""

    context: SparkContext
    group: str
    description: str

    def run(self, action: Callable[[], list[str]], on_done: Callable[[int], object]) -> list[str]:
        """Return the result of an action; report meanwhile how many of its tasks ended."""
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
            self._await_tasks()
            raise
        found, error = outcome
        if error is not None:
            self._await_tasks()
            raise error
        return list(found)

    def _watch(self, thread: threading.Thread, on_done: Callable[[int], object]) -> None:
        known = 0
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
            done = max((stage.numCompletedTasks for stage in self._stages()), default=0)
            if done > known:
                known = done
                on_done(done)

    def _await_tasks(self) -> None:
        """Wait until a failed job's tasks are stopped, so that they leave no file, or a while."""
        end = time.monotonic() + _END_SECONDS_MAX
        while any(stage.numActiveTasks for stage in self._stages()) and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)

    def _stages(self) -> list[SparkStageInfo]:
        tracker = self.context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self.group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return [stage for stage in stages if stage]


# A read whose tasks write segments, and whose rows say which: how the extension runs such work.
#
# Spark's own data source API carries it, so executors need nothing that reads do not need. The
# engine on the driver makes the work and commits what the rows say, in `spark_engine`.


@dataclass
class _Piece(InputPartition):
    """The segments of one task, packed."""

    number: int
    piece: bytes


class WorkReader(DataSourceReader):
    """Work on segments, a partition for each piece of it.

    Spark's options are the table's location, options of its store, and the work.
    """

    schema = StructType([StructField("message", StringType(), nullable=False)])

    def __init__(self, given: Mapping[str, str]) -> None:
        options = Options(given)
        storage = open_storage(read_location(options), options.storage_options)
        self._work, self._pieces = ShippedWork.from_json(storage, given[WORK_OPTION])

    @in_one_line
    def partitions(self) -> list[InputPartition]:
        """Return the pieces, once: Spark sends what this object keeps to each of its tasks."""
        pieces, self._pieces = self._pieces, ()
        return [_Piece(number, piece) for number, piece in enumerate(pieces)]

    @in_one_line
    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """Write the segment of a piece, and say which."""
        assert isinstance(partition, _Piece)
        yield (_run_in_task(self._work, partition.number, partition.piece),)

"""Work on segments that the engine process leaves to Spark's tasks.

The engine has no Spark of its own. In the middle of a request it asks the extension for a job, by a
reply `{"job": ...}` that is not the last. The next request has the tasks' `{"messages": [...]}`, or
`{"failed": ...}` with Spark's message. What is done, and the commit, stay the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from projseg.errors import ProjsegError
from projseg.maintenance.rewrite_tasks import TaskRunner, WorkOrder, Written
from projseg.maintenance.spark_errors import error_in
from projseg.maintenance.task_messages import ShippedWork, abandon, collected, pieces_of

RunJob: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Has the extension run a job, and returns its answer."""


@dataclass(frozen=True, slots=True)
class JobRunner:
    """Tasks of the extension's session, or threads where these are as quick.

    `run_job` asks the extension for a job, and returns its answer. Threads do one piece, and pieces
    that replace no more than `small_bytes` together.
    """

    run_job: RunJob
    storage_options: Mapping[str, str]
    threads: TaskRunner
    small_bytes: int

    def run(self, order: WorkOrder) -> Generator[Written]:
        """Yield each task with what was written, once the job is done."""
        if len(order.tasks) == 1 or order.replaced_bytes <= self.small_bytes:
            yield from self.threads.run(order)
            return
        job = {
            "description": order.description,
            "location": order.target.snapshot.storage.location,
            "storage_options": dict(self.storage_options),
            "work": ShippedWork.of(order).to_json(pieces_of(order)),
        }
        try:
            answer = self.run_job(job)
        except BaseException:
            abandon(order)
            raise
        if "failed" in answer:
            abandon(order)
            raise error_in(answer["failed"]) or ProjsegError(
                "PROJSEG_JOB_FAILED",
                f"{order.description}; nothing was committed: {answer['failed']}",
            )
        yield from collected(order, answer["messages"])

"""What a query pool refuses, and why."""

from __future__ import annotations

from collections.abc import Sequence

from projseg.errors import InvalidInputError, WorkerError


def bad_argument(problem: str) -> InvalidInputError:
    """Return the error for an argument that lies outside what it takes."""
    return InvalidInputError("PROJSEG_BAD_ARGUMENT", problem)


def closed() -> InvalidInputError:
    """Return the error for a question that a closed pool does not answer."""
    return InvalidInputError(
        "PROJSEG_POOL_CLOSED", "the query pool was closed before it answered; make another"
    )


def not_started(error: OSError) -> WorkerError:
    """Return the error for a process that the system did not start."""
    return WorkerError(
        "PROJSEG_WORKER_NOT_STARTED",
        f"the system started no process for a query pool: {error}; end others, or raise the "
        "limits on processes and memory",
    )


def unanswered(asked: str, endings: Sequence[str]) -> WorkerError:
    """Return the error for a question over which two workers ended, and how they did."""
    first, second = endings
    return WorkerError(
        "PROJSEG_WORKER_ENDED",
        f"two workers were asked and neither answered: the first {first}, the second {second}. "
        f"The question was {asked}; a process that is killed may have had too little memory: ask "
        "for fewer rows at once, or use Table.scan",
    )

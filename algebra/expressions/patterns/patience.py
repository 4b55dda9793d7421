"""How much time a pattern may take for a text.

RE2's time grows with the text and, where its automaton has more states than it keeps, with the
pattern too: counted repetitions inside each other make it a thousand times slower. That is not
known before it is tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from projseg.errors import EvaluationError
from projseg.memory.deadline import Deadline, check_deadline, deadline_of_thread, under

SECONDS_MAX: Final = 1.0
"""Of processor time, for the texts of a slice or one longer text."""
PARTS_AT_ONCE: Final = 100
"""A pattern of fewer parts, each as often as it is repeated, takes RE2 little time for any text."""
_SLICE_BYTES: Final = 1 << 16


@contextmanager
def patience(pattern: str) -> Iterator[None]:
    """End the block with an error if it takes too much of this thread's processor time.

    Raises
    ------
    EvaluationError
        PROJSEG_EVALUATION_TOO_LONG, where the block calls `check_deadline`.
    """

    def error() -> EvaluationError:
        return EvaluationError(
            "PROJSEG_EVALUATION_TOO_LONG",
            f"the regular expression '{pattern}' took more than {SECONDS_MAX:g} seconds over "
            f"{_SLICE_BYTES >> 10} KiB of text; write it without counted repetitions inside "
            "each other",
        )

    limit = Deadline(SECONDS_MAX, error, clock=time.thread_time, outer=deadline_of_thread())
    with under(limit):
        yield
        check_deadline()


def in_slices(pattern: str, search: Callable[[pa.Array], pa.Array], texts: pa.Array) -> pa.Array:
    """Return what a search finds in texts, of which it is given some at a time.

    Raises
    ------
    EvaluationError
        As `patience` does.
    """
    step = max(1, len(texts) * _SLICE_BYTES // max(1, texts.nbytes))
    found = []
    for start in range(0, max(1, len(texts)), step):
        with patience(pattern):
            found.append(search(texts.slice(start, step)))
    return pa.concat_arrays(found)

"""Progress on standard error, where that is a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from rich.console import Console
from rich.progress import (
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

COUNTED: Final = (
    SpinnerColumn(),
    TextColumn("{task.description}"),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
)
"""What is shown of work whose end is not known: how much is done, and for how long."""


@contextmanager
def shown_progress(*columns: ProgressColumn) -> Iterator[Progress]:
    """Yield a display of progress; it prints nothing where standard error is no terminal.

    Parameters
    ----------
    *columns : rich.progress.ProgressColumn
        What a task's line shows; none: what rich shows.
    """
    console = Console(stderr=True)
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    # Before release 14.3 rich ends a line that it has not begun.
    with progress if console.is_terminal else nullcontext():
        yield progress

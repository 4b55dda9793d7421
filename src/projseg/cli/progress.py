"""Progress on standard error, where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_MEASURED: Final = (
    SpinnerColumn(),
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
)


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


@contextmanager
def segments_shown() -> Iterator[Callable[[int, int], None]]:
    """Yield a function to be told how many segments are done and how many there are."""
    with shown_progress(*_MEASURED) as progress:
        task = progress.add_task("segments", total=None)

        def show(done: int, count: int) -> None:
            progress.update(task, completed=done, total=count)

        yield show

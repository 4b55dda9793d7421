"""What a refresh of a view is asked to do, and what it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from projseg.algebra.time.interval import Interval
from projseg.table_layer.metadata.segment_entry import SegmentEntry

OnProgress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Refresh:
    """What a refresh of a view did, or would do.

    Parameters
    ----------
    kept, relabelled, subtracted, refolded, added, dropped : int
        Parts that stayed; that stand for rewritten segments of the same rows; that deleted rows
        were subtracted from; whose segments were folded anew; that were written; that left.
    rows_read : int
        Rows of segments and groups of parts that were folded.
    milliseconds : int
        How long it took.
    version : int or None
        The store's version written; None if there was nothing to do.
    not_built : mapping of str to str
        Chunks that could not be built, and why; their segments answer for themselves.
    """

    kept: int = 0
    relabelled: int = 0
    subtracted: int = 0
    refolded: int = 0
    added: int = 0
    dropped: int = 0
    rows_read: int = 0
    milliseconds: int = 0
    version: int | None = None
    not_built: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """What a refresh is to do.

    Parameters
    ----------
    is_full : bool
        Whether all parts are built anew.
    interval : Interval or None
        Only segments with rows in it are folded; None: all.
    on_progress : callable or None
        Called with how many chunks are done and how many there are.
    """

    is_full: bool = False
    interval: Interval | None = None
    on_progress: OnProgress | None = None

    def wants(self, entry: SegmentEntry) -> bool:
        """Whether an uncovered segment is to be folded."""
        low, high = entry.min_time_us, entry.max_time_us
        if self.interval is None:
            return True
        return (
            low is not None
            and high is not None
            and (low < self.interval.end_us and high >= self.interval.start_us)
        )

"""What a refresh of a view is asked to do, and what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.joined_values import path_of
from projseg.algebra.expressions.tree import Call
from projseg.algebra.planning.partial_match import is_reversible
from projseg.algebra.time.interval import Interval
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.views.changes.subtracted_parts import may_subtract
from projseg.views.definitions.result_definition import RunSelect
from projseg.views.written_rows import WrittenRows

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
    costs : mapping of str to str
        Of a dry run: what a refresh will have to do after each kind of change, and which keys of
        dimensions were proved.
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
    costs: Mapping[str, str] = field(default_factory=dict)


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
    run_select : callable or None
        Has Spark run the SELECT of a stored result; None: there is no Spark.
    written : WrittenRows or None
        Rows of new segments that are still in memory.
    """

    is_full: bool = False
    interval: Interval | None = None
    on_progress: OnProgress | None = None
    run_select: RunSelect | None = None
    written: WrittenRows | None = None

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


def costs_of_changes(
    primitives: Sequence[Primitive], joins: Iterable[Call], names: Mapping[str, str]
) -> dict[str, str]:
    """Return what a refresh of a view will have to do after each kind of change.

    Parameters
    ----------
    primitives : sequence of Primitive
        The states that the view stores.
    joins : iterable of Call
        What it joins, by keys that were proved.
    names : mapping of str to str
        Names of dimensions by their `table_id`.
    """
    deleted = "reads the rows that are gone alone"
    if not may_subtract(primitives):
        why = ", ".join(one.text for one in primitives if not is_reversible(one))
        deleted = f"folds parts anew that lost rows, as nothing is subtracted from {why}"
    found = {"append": "folds the new segments alone", "delete, update, merge": deleted}
    for path in map(path_of, joins):
        name = names[path.dimension.table_id]
        keys = found.get(f"key of {name}", "")
        key = f"({', '.join(path.names)})"
        found[f"key of {name}"] = keys if key in keys else "; ".join(filter(None, (keys, key)))
        found[f"rows of {name} changed"] = "folds parts anew that have rows with their keys"
    return found

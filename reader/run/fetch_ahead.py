"""Fetch what sources need before they are read, many segments side by side.

Of a table in a folder nothing is fetched ahead. In an object store each source takes two round
trips: the segment's end, which says where its parts lie, and then its parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Final, TypeVar

from projseg.algebra.planning.source_plan import SourcePlan
from projseg.memory.request_pool import IN_FLIGHT_MAX, side_by_side
from projseg.reader.plan.plan_columns import columns_read
from projseg.reader.plan.query_plan import QueryPlan
from projseg.reader.sources.open_sources import open_source
from projseg.table_layer.commits.fetched_ranges import FetchedRanges
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.storage.locate_storage import Storage

_FETCHED_BYTES_MAX: Final = 4 << 20
"""A source whose parts take more is read as it is needed: bytes then take longer than trips."""

Item = TypeVar("Item")
Source = tuple[SegmentEntry, SourcePlan]


@contextmanager
def fetched_ahead(
    storage: Storage,
    plan: QueryPlan,
    items: Iterable[Item],
    sources_of: Callable[[Item], Sequence[Source]],
) -> Iterator[Iterable[Item]]:
    """Yield items in order, each of which comes once its sources are fetched.

    What was fetched is held until it is read, or until the context is left, or until far later
    items come.

    Parameters
    ----------
    storage : Storage
        The table.
    plan : QueryPlan
        What is asked.
    items : iterable
        Pieces of work.
    sources_of : callable
        Returns the segments and the sources that a piece of work reads.
    """
    if not storage.is_remote:
        yield items
        return

    def requests() -> Iterator[tuple[Item, Source | None]]:
        """Yield each item's sources, and then the item without one."""
        for item in items:
            yield from ((item, source) for source in sources_of(item))
            yield item, None

    def fetch(request: tuple[Item, Source | None]) -> tuple[Item, bool, FetchedRanges | None]:
        item, source = request
        ranges = None if source is None else fetch_source(storage, plan, *source)
        return item, source is None, ranges

    begun: deque[list[FetchedRanges]] = deque([[]])  # of each item; the last is not complete
    with closing(side_by_side(fetch, requests())) as results:
        try:
            yield _fetched(results, begun)
        finally:
            for held in begun:
                _forget(held)


def _fetched(
    results: Iterable[tuple[Item, bool, FetchedRanges | None]], begun: deque[list[FetchedRanges]]
) -> Iterator[Item]:
    """Yield items whose sources are fetched, and forget what far earlier ones have not read."""
    for item, is_complete, ranges in results:
        if ranges is not None:
            begun[-1].append(ranges)
        if is_complete:
            yield item
            begun.append([])
            if len(begun) > 2 * IN_FLIGHT_MAX:
                _forget(begun.popleft())


def fetch_source(
    storage: Storage, plan: QueryPlan, entry: SegmentEntry, source_plan: SourcePlan
) -> FetchedRanges | None:
    """Open a source and fetch the parts of its columns that are not in memory; None if it has none.

    Raises
    ------
    CorruptionError, StorageError
        As of `open_source`.
    """
    if source_plan.is_metadata:
        return None
    source = open_source(storage, entry, source_plan, plan.schema)
    names, states = columns_read(plan.query, source_plan)
    ranges = {
        one
        for is_state, some in ((False, names), (True, states))
        for name in some
        for one in source.ranges_to_read(name, is_state=is_state)
    }
    reads = source.segment.read_range
    if not isinstance(reads, FetchedRanges):
        return None
    if sum(one.size for one in ranges) <= _FETCHED_BYTES_MAX:
        reads.fetch(sorted(ranges))
    return reads


def _forget(held: Iterable[FetchedRanges]) -> None:
    for ranges in held:
        ranges.forget()

"""Candidates with their sizes, from which a search chooses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

import msgspec
import numpy as np

from projseg.advisor.candidates import (
    CANDIDATES_MAX,
    GroupsCandidate,
    Need,
    candidate_of,
    union_needs,
)
from projseg.advisor.known_shapes import KnownShape
from projseg.advisor.other_candidates import (
    Candidate,
    IndexNeed,
    RowsNeed,
    index_candidate,
    index_needs_of,
    rows_candidate,
    rows_need_of,
    view_candidate,
)
from projseg.advisor.shape_costs import Imagined
from projseg.advisor.spent_time import OutOfTimeError, SpentTime
from projseg.algebra.query.request import Query
from projseg.errors import ProjsegError
from projseg.maintenance.sampled_indexes import IndexSizes, index_sizes
from projseg.maintenance.sampled_segments import ProjectionSizes, SampledSegments
from projseg.reader.answer import answer
from projseg.table import Table
from projseg.table.table_version import reader_of
from projseg.table.version_reader import VersionReader
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.views.imagined_views import ImaginedView, chunk_of_views, imagined_view

_NEEDS_MAX: Final = 60  # of which unions are made
_ROWS_SHARE_MAX: Final = 0.5
_SIZING_SHARE: Final = 0.7  # of the time that may be taken
_VIEW_SEGMENTS_MIN: Final = 64
_VIEW_GROUPS_SHARE_MAX: Final = 0.5
_VIEW_GROUPS_MAX: Final = 4_000_000  # of all segments, which are counted at once
_VIEWS_MAX: Final = 4
_CHUNK: Final = "__chunk"


class SizedCandidate(msgspec.Struct):
    """A candidate with its rows (of an index, keys) and bytes in all segments.

    `sizes` is what planning sees of it; `is_exact` says that all of the sample was measured.
    """

    candidate: Candidate
    sizes: Imagined
    rows: int
    bytes: int
    is_exact: bool = True

    @property
    def rows_error(self) -> float:
        """How far `rows` may be off, as a share of it."""
        return self._measured.spread

    def build_seconds(self, base_rows: int) -> float:
        """Return about how long one processor builds it."""
        return self._measured.seconds(base_rows)

    def is_whole(self, entries: Iterable[SegmentEntry]) -> bool:
        """Whether every segment was sampled, so that nothing is estimated."""
        return all(entry.file in self._measured.measured for entry in entries)

    @property
    def _measured(self) -> ProjectionSizes | IndexSizes:
        return self.sizes.groups if isinstance(self.sizes, ImaginedView) else self.sizes


Maker: TypeAlias = Callable[[], SizedCandidate | None]


def sized_candidate(
    candidate: Candidate,
    sizes: Imagined,
    entries: Sequence[SegmentEntry],
    *,
    is_exact: bool = True,
) -> SizedCandidate:
    """Return a candidate with its size in all segments."""
    if isinstance(sizes, ImaginedView):
        return SizedCandidate(candidate, sizes, sizes.row_count, sizes.byte_count)
    if isinstance(sizes, ProjectionSizes):
        listed = (sizes.of(entry) for entry in entries)
        taken = [(one.row_count, one.byte_count) for one in listed if one is not None]
    else:
        measured = (sizes.size_in(entry) for entry in entries)
        taken = [(one.row_count, one.byte_count) for one in measured]
    rows, size = (sum(column) for column in zip(*taken, strict=True)) if taken else (0, 0)
    return SizedCandidate(candidate, sizes, rows, size, is_exact)


class Sizing:
    """Makes candidates for shapes, and measures their size in sampled segments, at least one."""

    def __init__(
        self,
        table: Table,
        sample: SampledSegments,
        shapes: Sequence[KnownShape],
        kinds: Collection[str],
        spent: SpentTime,
    ) -> None:
        self._table, self._snapshot = table, table.snapshot
        self._shapes, self._kinds, self._spent = shapes, kinds, spent
        self._entries = list(self._snapshot.segments)
        self._sample = sample
        self._smallest = min(self._sample.entries, key=lambda one: (one.row_count, one.file))
        self._taken = names_taken(table, self._snapshot)

    def candidates(self) -> list[SizedCandidate]:
        """Return candidates with sizes, groups in one segment alone."""
        found: list[SizedCandidate] = []
        ranked = self._ranked_needs()
        wanted = [*self._of_needs(ranked), *self._of_rest(found), *self._of_views(ranked)]
        wanted += self._of_needs(self._unions(ranked))
        for number, make in enumerate(wanted):
            self._spent.report(number, len(wanted))
            try:
                self._spent.check(_SIZING_SHARE)
                one = make()
            except OutOfTimeError:
                self._spent.note(f"{len(wanted) - number:,} of {len(wanted):,} candidates")
                break
            if one is not None:
                self._taken.add(one.candidate.name)
                found.append(one)
        return found

    def measure(self, option: SizedCandidate) -> SizedCandidate:
        """Return a candidate of groups with sizes measured in the whole sample."""
        candidate = option.candidate
        assert isinstance(candidate, GroupsCandidate), "others are measured at once"
        try:
            sizes = self._sample.sizes(candidate.declaration, check=self._spent.check)
        except OutOfTimeError:
            self._spent.note("sizes in more than one segment")
            return msgspec.structs.replace(option, is_exact=True)
        return sized_candidate(candidate, sizes, self._entries)

    # ---- groups

    def _ranked_needs(self) -> list[Need]:
        """Return the needs of shapes, the most time first."""
        totals: dict[Need, float] = {}
        for known in self._shapes:
            if known.need is not None:
                totals[known.need] = totals.get(known.need, 0.0) + known.total
        return sorted(totals, key=lambda need: -totals[need])

    def _unions(self, ranked: Sequence[Need]) -> list[Need]:
        """Return the common needs of several shapes, by the time of all shapes that each serves."""

        def bound(need: Need) -> float:
            return sum(
                known.total
                for known in self._shapes
                if known.need is not None and need.serves(known.need)
            )

        bounds = {need: bound(need) for need in union_needs(ranked[:_NEEDS_MAX])}
        unions = sorted(bounds, key=lambda need: -bounds[need])
        single = set(ranked)
        found = [need for need in unions if bounds[need] > 0 and need not in single]
        return found[: max(CANDIDATES_MAX - len(ranked), 0)]

    def _of_needs(self, needs: Sequence[Need]) -> Iterator[Maker]:
        if "projection" in self._kinds:
            for need in needs[:CANDIDATES_MAX]:
                yield partial(self._groups, need)

    def _groups(self, need: Need) -> SizedCandidate | None:
        """Return a projection of groups, unless it has not far fewer rows than the segment."""
        candidate = candidate_of(need, self._snapshot, self._taken)
        if candidate is None:
            return None
        sizes = self._sample.sizes(candidate.declaration, [self._smallest])
        measured = sizes.measured.get(self._smallest.file)
        if measured is None or measured.row_count > _ROWS_SHARE_MAX * self._smallest.row_count:
            return None
        is_exact = len(self._sample.entries) == 1
        return sized_candidate(candidate, sizes, self._entries, is_exact=is_exact)

    # ---- what filters by what no groups have

    def _of_rest(self, found: Sequence[SizedCandidate]) -> Iterator[Maker]:
        """Yield makers of indexes and rows in another order, for shapes that no groups serve."""
        indexes: dict[IndexNeed, list[KnownShape]] = {}
        orders: dict[RowsNeed, list[KnownShape]] = {}
        for known in self._shapes:
            for index in index_needs_of(known.query, self._snapshot):
                indexes.setdefault(index, []).append(known)
            if (order := rows_need_of(known.query)) is not None:
                orders.setdefault(order, []).append(known)
        if "index" in self._kinds:
            for index, asked in indexes.items():
                yield partial(self._unless_served, asked, found, partial(self._index, index))
        if "rows" in self._kinds:
            for order, asked in orders.items():
                yield partial(self._unless_served, asked, found, partial(self._rows, order))

    def _unless_served(
        self, asked: Sequence[KnownShape], found: Sequence[SizedCandidate], make: Maker
    ) -> SizedCandidate | None:
        """Return a candidate for some shapes, unless groups serve all of them."""
        groups = [one.candidate for one in found if one.candidate.kind == "projection"]
        is_served = all(
            any(one.may_serve(known.query, known.need) for one in groups) for known in asked
        )
        return None if is_served else make()

    def _index(self, need: IndexNeed) -> SizedCandidate | None:
        candidate = index_candidate(need, self._snapshot, self._taken)
        if candidate is None or len(self._entries) < 2:
            return None
        properties = self._snapshot.properties
        sizes = index_sizes(self._sample, properties, candidate.declared, self._spent.check)
        return sized_candidate(candidate, sizes[0], self._entries) if sizes else None

    def _rows(self, need: RowsNeed) -> SizedCandidate | None:
        candidate = rows_candidate(need, self._snapshot, self._taken)
        if candidate is None:
            return None
        sizes = self._sample.sizes(candidate.declaration, [self._smallest])
        return sized_candidate(candidate, sizes, self._entries) if sizes.measured else None

    # ---- views

    def _of_views(self, ranked: Sequence[Need]) -> Iterator[Maker]:
        if "view" not in self._kinds:
            return
        wide = {
            known.need
            for known in self._shapes
            if known.need is not None and known.now.opened >= _VIEW_SEGMENTS_MIN
        }
        for need in [one for one in ranked if one in wide][:_VIEWS_MAX]:
            yield partial(self._view, need)

    def _view(self, need: Need) -> SizedCandidate | None:
        """Return a view of groups, unless all of them are many of those of single segments."""
        groups = candidate_of(need, self._snapshot, names_taken(self._table, self._snapshot))
        if groups is None:
            return None
        sizes = self._sample.sizes(groups.declaration, check=self._spent.check)
        listed = [one for entry in self._entries if (one := sizes.of(entry)) is not None]
        total = sum(one.row_count for one in listed)
        if not listed or total > _VIEW_GROUPS_MAX:
            return None
        candidate = view_candidate(groups, self._taken)
        try:
            self._table.create_view(candidate.name, candidate.sql, dry_run=True)
            counts = self._group_counts(groups)
        except ProjsegError as error:
            self._spent.note(f"a view of {groups.name}: {error.code}")
            return None
        if sum(counts.values()) > _VIEW_GROUPS_SHARE_MAX * total:
            return None
        view = imagined_view(self._snapshot, candidate.name, sizes, counts)
        return sized_candidate(candidate, view, self._entries)

    def _group_counts(self, groups: GroupsCandidate) -> dict[int, int]:
        """Return how many groups all rows have, by the start of their chunk."""
        reader = VersionReader(self._snapshot)
        chunk, time = chunk_of_views(self._snapshot), self._snapshot.properties.time_column
        keys = [*groups.projection.group_by]
        if not chunk.is_all and time is not None:
            keys.append(f"time_floor(`{time}`, '{chunk.period_text}') AS {_CHUNK}")
        rows = answer(reader.storage, reader.plan(Query(group_by=keys)))
        if _CHUNK not in rows.column_names:
            return {0: rows.num_rows}
        starts = rows[_CHUNK].drop_null().cast("int64").to_numpy()
        unique, counts = np.unique(starts, return_counts=True)
        return dict(zip(unique.tolist(), counts.tolist(), strict=True))


def names_taken(table: Table, snapshot: Snapshot) -> set[str]:
    """Return the names that no addition may have."""
    properties = snapshot.properties
    found = {one.name for one in properties.projections}
    found |= {one.name for one in properties.declared_indexes}
    store = reader_of(table).view_store()
    return found if store is None else found | {view.name for view in store.views.values()}

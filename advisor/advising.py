"""One call of `advise`: from the workload of a table to what the table should store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from projseg.advisor.advice import Advice
from projseg.advisor.advice_items import AdviceItem, AdvisedShape
from projseg.advisor.candidates import GroupsCandidate, candidate_of
from projseg.advisor.compaction_worth import compaction_of
from projseg.advisor.known_shapes import KnownShape, known_shapes
from projseg.advisor.needless import DropRules, needless
from projseg.advisor.other_candidates import Candidate, IndexCandidate
from projseg.advisor.search import SavedTimes, choose_within
from projseg.advisor.shape_costs import Planning, ShapeCost
from projseg.advisor.sizing import SizedCandidate, Sizing, names_taken
from projseg.advisor.spent_time import OutOfTimeError, SpentTime
from projseg.advisor.statements import statement_of
from projseg.advisor.stored_sizes import stored_bytes, stored_size
from projseg.advisor.workload import LoggedWorkload
from projseg.maintenance.sampled_segments import SampledSegments
from projseg.reader.plan_figures import BASE_ROWS
from projseg.reader.query_log.query_text import query_line
from projseg.table import Table
from projseg.table.table_version import reader_of

_QUERIES_MIN: Final = 10
_SHARE_MIN: Final = 0.01


class Advising:
    """One call of `advise` for a table and its logged work.

    `worse` has, by name, the kind of advice that was applied and made its queries slower, and how
    much; `kinds` is what may be advised; `shapes` is filled by `advice`; `base_bytes` are those of
    the rows.
    """

    def __init__(
        self,
        table: Table,
        work: LoggedWorkload,
        worse: Mapping[str, tuple[str, str]],
        kinds: frozenset[str],
        spent: SpentTime,
    ) -> None:
        self._table, self._work, self._worse = table, work, worse
        self._kinds, self._spent = kinds, spent
        self._snapshot = table.snapshot
        self._entries = list(self._snapshot.segments)
        self._base_rows = sum(entry.row_count for entry in self._entries)
        self.base_bytes = sum(
            zone.bytes for entry in self._entries for zone in entry.columns.values()
        )
        self._unbound = 0
        self.shapes: list[KnownShape] = []
        self._planning = Planning(
            self._snapshot, reader_of(table).view_sources(), knows_values=work.is_weighted
        )

    def advice(self, budget: int) -> Advice:
        """Return the best advice within a budget of bytes."""
        before = stored_bytes(self._table)
        if not self._entries or not self._work.shapes:
            if not self._entries:
                self._spent.note("the table has no rows to sample")
            return self._whole((), [], {}, {}, budget, before)
        sample = SampledSegments(self._snapshot)
        if not sample.entries:
            self._spent.note("no file of the source has projections to sample yet")
            return self._whole((), [], {}, {}, budget, before)
        shapes, self._unbound = known_shapes(
            self._work, self._planning, sample.entries[0], self._spent
        )
        self.shapes = shapes
        chosen: list[SizedCandidate] = []
        if self._kinds & {"projection", "rows", "index", "view"} and shapes:
            chosen = self._chosen(shapes, sample, budget - before)
        then = self._then(shapes, chosen)
        chosen = self._worthwhile(shapes, chosen, then)
        then = self._then(shapes, chosen)
        items = [self._addition(one, shapes, then) for one in chosen]
        items.sort(key=lambda item: -item.saved_seconds)
        drops = self._drops(shapes, chosen) if "drop" in self._kinds else []
        if "compact" in self._kinds:
            found = compaction_of(self._table, shapes, then)
            items += [] if found is None else [found]
        candidates = {one.candidate.name: one.candidate for one in chosen}
        return self._whole([*items, *drops], shapes, then, candidates, budget, before)

    def _chosen(
        self, shapes: Sequence[KnownShape], sample: SampledSegments, left: int
    ) -> list[SizedCandidate]:
        """Return the candidates that save the most within `left` bytes."""
        sizing = Sizing(self._table, sample, shapes, self._kinds, self._spent)
        options = sizing.candidates()
        saved = np.array([self._saved(one, shapes) for one in options]).reshape(
            len(options), len(shapes)
        )
        for _ in range(len(options) + 1):
            sizes = [one.bytes for one in options]
            chosen = self._search(saved, sizes, left)
            rough = [place for place in chosen if not options[place].is_exact]
            if not rough:
                return self._renamed([options[place] for place in chosen])
            for place in rough:
                options[place] = sizing.measure(options[place])
                saved[place] = self._saved(options[place], shapes)
        return []

    def _search(self, saved: Any, sizes: Sequence[int], left: int) -> list[int]:
        try:
            return choose_within(SavedTimes(saved), sizes, left, self._spent.check)
        except OutOfTimeError:
            self._spent.note("exchanges of candidates")
            return choose_within(SavedTimes(saved), sizes, left, exchanges=False)

    def _renamed(self, chosen: Sequence[SizedCandidate]) -> list[SizedCandidate]:
        """Return the chosen candidates under the names that are free without the others."""
        taken = names_taken(self._table, self._snapshot)
        taken |= {
            one.candidate.name for one in chosen if not isinstance(one.candidate, GroupsCandidate)
        }
        for one in chosen:
            if not isinstance(one.candidate, GroupsCandidate):
                continue
            found = candidate_of(one.candidate.need, self._snapshot, taken)
            assert found is not None, "it was made before, under another name"
            taken.add(found.name)
            one.candidate = found
            one.sizes = msgspec.structs.replace(one.sizes, declaration=found.declaration)
        return list(chosen)

    def _saved(self, one: SizedCandidate, shapes: Sequence[KnownShape]) -> list[float]:
        """Return the milliseconds that a candidate alone saves for each shape."""
        found = []
        for known in shapes:
            saved = 0.0
            if one.candidate.may_serve(known.query, known.need) and known.now.cost:
                then = self._planning.cost(known.query, [one.sizes])
                saved = 0.0 if then is None else known.saved(then)
            found.append(saved)
        return found

    # ---- what is worth it

    def _then(
        self, shapes: Sequence[KnownShape], chosen: Sequence[SizedCandidate]
    ) -> dict[str, ShapeCost]:
        """Return the cost of each shape with all chosen candidates, by its id."""
        sizes = [one.sizes for one in chosen]
        found = {}
        for known in shapes:
            then = self._planning.cost(known.query, sizes) if sizes else known.now
            found[known.shape.id] = then or known.now
        return found

    def _worthwhile(
        self, shapes: Sequence[KnownShape], chosen: list[SizedCandidate], then: dict[str, ShapeCost]
    ) -> list[SizedCandidate]:
        """Leave out what too few queries use, or what saves less than it takes to build."""
        total = sum(known.total for known in shapes)
        kept = []
        for one in chosen:
            item = self._addition(one, shapes, then)
            is_rare = item.queries < _QUERIES_MIN and not self._work.is_weighted
            is_small = item.saved_seconds * 1000 < _SHARE_MIN * total
            is_slow = item.saved_seconds < item.build_seconds * self._new_share
            if not (is_rare or is_small or is_slow):
                kept.append(one)
        return kept

    @property
    def _new_share(self) -> float:
        """The share of rows that lie in the span of the log, and were built for in it."""
        first, last = self._work.first, self._work.last
        if first is None or last is None or self._work.is_weighted:
            return 0.0
        start, end = first.timestamp() * 1e6, last.timestamp() * 1e6
        within = sum(
            entry.row_count
            for entry in self._entries
            if entry.max_time_us is not None and start <= entry.max_time_us <= end
        )
        return within / max(self._base_rows, 1)

    def _addition(
        self, one: SizedCandidate, shapes: Sequence[KnownShape], then: dict[str, ShapeCost]
    ) -> AdviceItem:
        candidate = one.candidate
        served = [known for known in shapes if candidate.name in then[known.shape.id].used]
        queries = sum(known.shape.count for known in served)
        before = sum(known.total for known in served)
        after = sum(known.shape.count * known.expected(then[known.shape.id]) for known in served)
        return AdviceItem(
            kind=candidate.kind,
            name=candidate.name,
            sql=candidate.sql,
            statement=statement_of(
                candidate.kind, self._table.location, candidate.name, candidate.sql
            ),
            rows=one.rows,
            bytes=one.bytes,
            rows_error=0.0 if one.is_whole(self._entries) else one.rows_error,
            build_seconds=one.build_seconds(self._base_rows),
            shapes=tuple(known.shape.id for known in served),
            queries=queries,
            milliseconds_before=before / queries if queries else None,
            milliseconds_after=after / queries if queries else None,
            saved_seconds=(before - after) / 1000,
            evidence=self._evidence(candidate, served, then),
        )

    def _evidence(
        self, candidate: Candidate, served: Sequence[KnownShape], then: dict[str, ShapeCost]
    ) -> dict[str, Any]:
        """Return how many segments the queries of an index read, without and with it."""
        if not isinstance(candidate, IndexCandidate) or not served:
            return {}
        count = sum(known.shape.count for known in served)
        before = sum(known.shape.count * known.now.opened for known in served) / count
        after = sum(known.shape.count * then[known.shape.id].opened for known in served) / count
        return {
            "index": candidate.index.kind,
            "column": candidate.column,
            "segments": round(before, 1),
            "segments_left": round(after, 1),
        }

    def _drops(
        self, shapes: Sequence[KnownShape], chosen: Sequence[SizedCandidate]
    ) -> list[AdviceItem]:
        queries = [known.query for known in shapes]
        sizes = [one.sizes for one in chosen]
        found = needless(self._planning, queries, sizes, self._work, self._worse, DropRules())
        return [
            AdviceItem(
                kind="drop",
                name=one.name,
                statement=statement_of("drop", self._table.location, one.name, dropped=one.kind),
                rows=size.rows,
                bytes=size.bytes,
                evidence=one.evidence | {"kind": one.kind},
            )
            for one in found
            for size in [stored_size(self._table, one.kind, one.name)]
        ]

    # ---- the whole

    def _whole(
        self,
        items: Sequence[AdviceItem],
        shapes: Sequence[KnownShape],
        then: dict[str, ShapeCost],
        candidates: dict[str, Candidate],
        budget: int,
        before: int,
    ) -> Advice:
        work = self._work
        added = sum(item.bytes for item in items if item.kind not in ("drop", "compact"))
        gone = sum(item.bytes for item in items if item.kind == "drop")
        log = {
            "from": None if work.first is None else work.first.isoformat(),
            "to": None if work.last is None else work.last.isoformat(),
            "days": work.days,
            "queries": work.query_count,
            "shapes": len(work.shapes),
            "unbound": self._unbound,
            "hinted": work.hinted_count,
            "failed": work.failed_count,
            "torn": work.torn_count,
            "doors": work.doors,
            "other_tables": work.other_tables,
        }
        served = {one for item in items for one in item.shapes}
        return Advice(
            table=self._table.location,
            version=self._snapshot.version,
            log=log,
            budget_bytes=budget,
            bytes_before=before,
            bytes_after=before + added - gone,
            base_bytes=self.base_bytes,
            items=tuple(items),
            shapes=tuple(_advised(known, then[known.shape.id], served) for known in shapes),
            not_examined=tuple(self._spent.not_examined),
            candidates=candidates,
        )


def _advised(known: KnownShape, then: ShapeCost, served: set[str]) -> AdvisedShape:
    is_served = known.shape.id in served
    why = known.why_not
    if is_served and why != "LITERAL_HIDDEN":  # with another constant it may be planned otherwise
        why = ""
    elif not why and not is_served and then.source == BASE_ROWS:
        why = "TOO_LITTLE"
    return AdvisedShape(
        id=known.shape.id,
        query=query_line(known.shape.query),
        count=known.shape.count,
        median_ms=known.milliseconds,
        planned_now=known.now.cost / 1e6,
        planned_then=then.cost / 1e6,
        expected_ms=known.expected(then),
        source_now=known.now.source,
        source_then=then.source,
        why_not=why,
    )

"""`advise`: from a log of queries to what a table should store for them."""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from projseg.advisor.advice import Advice, statement_of
from projseg.advisor.advice_items import AdviceItem, AdvisedShape
from projseg.advisor.candidates import (
    CANDIDATES_MAX,
    Candidate,
    Need,
    candidate_of,
    need_of,
    union_needs,
    why_no_need,
)
from projseg.advisor.filled_queries import HiddenValues, hides_literals
from projseg.advisor.measured_workload import (
    WeightedQuery,
    measured_workload,
    read_statements,
)
from projseg.advisor.needless import DropRules, needless_projections
from projseg.advisor.search import SavedTimes, choose_within
from projseg.advisor.shape_costs import Planning, ShapeCost
from projseg.advisor.workload import SHAPES_MAX, LoggedWorkload, Shape, gather
from projseg.algebra.query.bound_query import QuerySpec
from projseg.errors import InvalidInputError
from projseg.errors import listed as listed_items
from projseg.maintenance.sampled_segments import ProjectionSizes, SampledSegments
from projseg.memory.deadline import check_deadline
from projseg.memory.memory_pool import parse_byte_count
from projseg.reader.query_log.read_log import LoggedQuery, LogReader, Since, bad_log
from projseg.table import Table
from projseg.table_layer.metadata.segment_entry import SegmentEntry

LogLike: TypeAlias = str | os.PathLike[str] | pa.Table | LoggedWorkload | Sequence[WeightedQuery]
KINDS: Final = ("projection", "drop")
_PERCENT: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*%\s*")
_FILLS_MAX: Final = 8  # of a shape
_NEEDS_MAX: Final = 60  # of which unions are made
_QUERIES_MIN: Final = 10
_SHARE_MIN: Final = 0.01
_ROWS_SHARE_MAX: Final = 0.5
_SIZING_SHARE: Final = 0.7  # of the time that may be taken


def advise(
    table: Table,
    log: LogLike,
    *,
    budget: str = "10%",
    since: Since = "30 days",
    kinds: Sequence[str] = KINDS,
    seconds: float = 60,
    on_progress: Callable[[int, int], object] | None = None,
) -> Advice:
    """Return what a table should store for what was asked of it, and what of it nobody uses.

    The planner that answers plans the logged queries as if projections were there. What these would
    take is measured by building them in some segments, in memory. Nothing is changed.

    Parameters
    ----------
    table : Table
        The table.
    log : str, path or pa.Table
        The folder of a query log or a file of it, or records as `read_log` returns them; or a file
        `.sql` of SELECTs that end with `;`, with `-- weight: 40` before one that counts so often.
        Each of these is asked, with its files in memory.
    budget : str
        What projections and indexes may take together with those that are there: a share of the
        bytes of the rows, `10%`, or bytes, `500M`.
    since : str, timedelta, datetime or None
        As of `read_log`.
    kinds : sequence of str
        Of `projection` and `drop`.
    seconds : float
        After which the best that was found is returned.
    on_progress : callable or None
        Called with how many candidates have a size in one segment, and how many there are.

    Returns
    -------
    Advice
        Printed, it is a line for each thing to do.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_LOG, PROJSEG_BAD_BUDGET, PROJSEG_BAD_ARGUMENT.
    StorageError, CorruptionError
        If segments that are sampled cannot be read.
    """
    wanted = listed_items("kinds", kinds)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"seconds is {seconds!r:.80}; give a number of seconds"
        )
    for kind in wanted:
        if kind not in KINDS:
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT", f"kinds has {kind!r}; the kinds are {', '.join(KINDS)}"
            )
    work = log if isinstance(log, LoggedWorkload) else _workload(table, log, since)
    return _Advising(table, work, budget, frozenset(wanted), seconds, on_progress).advice()


def _workload(table: Table, log: LogLike, since: Since) -> LoggedWorkload:
    if isinstance(log, list):
        return measured_workload(table, log)
    if isinstance(log, str | os.PathLike) and os.fspath(log).endswith(".sql"):
        return measured_workload(table, read_statements(Path(log)))
    records = records_of_log(log, since)
    work = gather(records, table.properties.table_id)
    if isinstance(records, LogReader):
        work.torn_count = records.torn_count
    return work


def records_of_log(log: LogLike, since: Since = None) -> LogReader | Iterator[LoggedQuery]:
    """Return the records of a log: a folder, a file, or rows that `read_log` returned.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_LOG.
    """
    if isinstance(log, pa.Table):
        return _records_of(log)
    if not isinstance(log, str | os.PathLike):
        raise bad_log(f"a log is a folder, a file or a table of records, found {log!r:.80}")
    return LogReader(log, since)


def _records_of(rows: pa.Table) -> Iterator[LoggedQuery]:
    """Yield the records that a table holds."""
    missing = {"time", "table_id", "query"} - set(rows.column_names)
    if missing:
        raise bad_log(f"the rows have no column {', '.join(sorted(missing))}; give what read_log "
                      "returns")  # fmt: skip
    for row in rows.to_pylist(maps_as_pydicts="lossy"):
        query = row.pop("query")
        found = {name: value for name, value in row.items() if value is not None}
        try:
            asked = None if query is None else json.loads(query)
            yield msgspec.convert({**found, "query": asked}, LoggedQuery)
        except (TypeError, ValueError, RecursionError) as error:
            raise bad_log(f"a row is no record: {str(error)[:200]}") from error


def budget_of(text: str, base_bytes: int) -> int:
    """Return the bytes of a budget, `10%` of the bytes of rows or `500MB`.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_BUDGET.
    """
    share = _PERCENT.fullmatch(str(text))
    if share is not None:
        return round(float(share[1]) / 100 * base_bytes)
    try:
        return parse_byte_count(str(text), "budget")
    except InvalidInputError as error:
        raise InvalidInputError(
            "PROJSEG_BAD_BUDGET", f"budget is {text!r:.80}; write 10% of the rows' bytes, or 500M"
        ) from error


class _OutOfTimeError(Exception):
    """The time that may be taken is over."""


class _Known(msgspec.Struct):
    """A shape with what is known of it."""

    shape: Shape
    query: QuerySpec
    now: ShapeCost
    need: Need | None
    why_not: str = ""

    @property
    def milliseconds(self) -> float:
        """Of one query."""
        return self.shape.median_ms or self.now.cost / 1e6

    @property
    def total(self) -> float:
        """Milliseconds of all queries."""
        return self.shape.count * self.milliseconds


class _Sized(msgspec.Struct):
    """A candidate with what it takes, and whether that was measured in the whole sample."""

    candidate: Candidate
    sizes: ProjectionSizes
    bytes: int
    is_exact: bool = False


class _Advising:
    """One call of `advise`."""

    def __init__(
        self,
        table: Table,
        work: LoggedWorkload,
        budget: str,
        kinds: frozenset[str],
        seconds: float,
        on_progress: Callable[[int, int], object] | None,
    ) -> None:
        self._table, self._work, self._kinds = table, work, kinds
        self._on_progress = on_progress or (lambda done, count: None)
        self._snapshot = table.snapshot
        self._entries = list(self._snapshot.segments)
        self._base_bytes = sum(
            zone.bytes for entry in self._entries for zone in entry.columns.values()
        )
        self._budget = budget_of(budget, self._base_bytes)
        self._before = sum(
            one.byte_count for entry in self._entries for one in entry.projections
        ) + sum(one.byte_count for one in self._snapshot.bloom_files)
        self._start, self._seconds = time.monotonic(), seconds
        self._not_examined: list[str] = []
        self._unbound = 0
        self._planning = Planning(self._snapshot, table._view_sources())

    def advice(self) -> Advice:
        """Return the advice."""
        if not self._entries or not self._work.shapes:
            self._not_examined += ["the table has no rows to sample"] * (not self._entries)
            return self._whole((), [], {}, {})
        sample = SampledSegments(self._snapshot)
        shapes = self._known_shapes(sample.entries[0])
        chosen: list[_Sized] = []
        if "projection" in self._kinds:
            chosen = self._chosen(shapes, sample)
        then = self._then(shapes, chosen)
        chosen = self._worthwhile(shapes, chosen, then)
        then = self._then(shapes, chosen)
        items = [self._addition(one, shapes, then) for one in chosen]
        items.sort(key=lambda item: -item.saved_seconds)
        drops = self._drops(shapes, chosen) if "drop" in self._kinds else []
        candidates = {one.candidate.projection.name: one.candidate for one in chosen}
        return self._whole([*items, *drops], shapes, then, candidates)

    # ---- shapes

    def _known_shapes(self, entry: SegmentEntry) -> list[_Known]:
        values = HiddenValues(self._snapshot, entry)
        found = []
        shapes = self._work.shapes[:SHAPES_MAX]
        if len(self._work.shapes) > SHAPES_MAX:
            self._not_examined.append(f"{len(self._work.shapes) - SHAPES_MAX:,} rarer shapes")
        for shape in shapes:
            check_deadline()
            planned = self._planned(values.bound(shape))
            if planned is None:
                self._unbound += 1
                continue
            query, now = planned
            need, why = need_of(query), ""
            if query.is_row_scan:
                why = "ROW_SCAN"
            elif hides_literals(shape.query):
                need, why = None, "LITERAL_HIDDEN"
            elif need is None:
                why = why_no_need(query)
            found.append(_Known(shape, query, now, need, why))
        return found

    def _planned(self, queries: Iterable[QuerySpec]) -> tuple[QuerySpec, ShapeCost] | None:
        """Return the first query whose values let segments be read, and what it costs.

        With others it would look as if it cost nothing. The first, if none does.
        """
        first: tuple[QuerySpec, ShapeCost] | None = None
        for query in islice(queries, _FILLS_MAX):
            now = self._planning.cost(query)
            if now is not None and now.cost:
                return query, now
            if now is not None and first is None:
                first = query, now
        return first

    # ---- candidates

    def _chosen(self, shapes: Sequence[_Known], sample: SampledSegments) -> list[_Sized]:
        sized = self._sized(shapes, sample)
        left = self._budget - self._before
        saved = np.array([self._saved(one, shapes) for one in sized]).reshape(
            len(sized), len(shapes)
        )
        for _ in range(len(sized) + 1):
            sizes = [one.bytes for one in sized]
            chosen = choose_within(SavedTimes(saved), sizes, left)
            rough = [place for place in chosen if not sized[place].is_exact]
            if not rough:
                return self._renamed([sized[place] for place in chosen])
            for place in rough:
                try:
                    self._measure(sized[place], sample)
                except _OutOfTimeError:
                    self._note_time("sizes in more than one segment")
                    sized[place].is_exact = True
                saved[place] = self._saved(sized[place], shapes)
        return []

    def _renamed(self, chosen: Sequence[_Sized]) -> list[_Sized]:
        """Return what was chosen under the names that are free without what was not."""
        taken = {one.name for one in self._snapshot.properties.projections}
        for one in chosen:
            found = candidate_of(one.candidate.need, self._snapshot, taken)
            assert found is not None, "it was made before, under another name"
            taken.add(found.projection.name)
            one.candidate = found
            one.sizes = msgspec.structs.replace(one.sizes, declaration=found.declaration)
        return list(chosen)

    def _sized(self, shapes: Sequence[_Known], sample: SampledSegments) -> list[_Sized]:
        """Return candidates with sizes in one segment, without those of too many groups."""
        smallest = min(sample.entries, key=lambda one: (one.row_count, one.file))
        taken = {one.name for one in self._snapshot.properties.projections}
        found: list[_Sized] = []
        wanted = self._wanted_needs(shapes)
        for number, need in enumerate(wanted):
            self._on_progress(number, len(wanted))
            candidate = candidate_of(need, self._snapshot, taken)
            if candidate is None:
                continue
            try:
                self._check_time(_SIZING_SHARE)
            except _OutOfTimeError:
                self._note_time(f"{len(wanted) - number:,} of {len(wanted):,} candidates")
                break
            sizes = sample.sizes(candidate.declaration, [smallest])
            measured = sizes.measured.get(smallest.file)
            if measured is None or measured.row_count > _ROWS_SHARE_MAX * smallest.row_count:
                continue
            taken.add(candidate.projection.name)
            is_whole = len(sample.entries) == 1
            found.append(_Sized(candidate, sizes, self._bytes_of(sizes), is_whole))
        return found

    def _wanted_needs(self, shapes: Sequence[_Known]) -> list[Need]:
        """Return what candidates should hold: of each shape, then for several, most time first."""
        totals: dict[Need, float] = {}
        for known in shapes:
            if known.need is not None:
                totals[known.need] = totals.get(known.need, 0.0) + known.total
        ranked = sorted(totals, key=lambda need: -totals[need])

        def bound(need: Need) -> float:
            return sum(total for other, total in totals.items() if need.serves(other))

        bounds = {need: bound(need) for need in union_needs(ranked[:_NEEDS_MAX])}
        unions = sorted(bounds, key=lambda need: -bounds[need])
        needs = dict.fromkeys([*ranked, *(need for need in unions if bounds[need] > 0)])
        return list(needs)[:CANDIDATES_MAX]

    def _measure(self, one: _Sized, sample: SampledSegments) -> None:
        one.sizes = sample.sizes(one.candidate.declaration, check=lambda: self._check_time(1.0))
        one.bytes, one.is_exact = self._bytes_of(one.sizes), True

    def _bytes_of(self, sizes: ProjectionSizes) -> int:
        return sum(
            listed.byte_count for entry in self._entries if (listed := sizes.of(entry)) is not None
        )

    def _saved(self, one: _Sized, shapes: Sequence[_Known]) -> list[float]:
        """Return the milliseconds that a candidate alone saves for each shape."""
        found = []
        for known in shapes:
            saved = 0.0
            if known.need is not None and one.candidate.need.serves(known.need):
                then = self._planning.cost(known.query, [one.sizes])
                if then is not None and known.now.cost:
                    saved = known.total * max(1 - then.cost / known.now.cost, 0.0)
            found.append(saved)
        return found

    # ---- what is worth it

    def _then(self, shapes: Sequence[_Known], chosen: Sequence[_Sized]) -> dict[str, ShapeCost]:
        """Return what each shape costs with all that is chosen, by its id."""
        sizes = [one.sizes for one in chosen]
        found = {}
        for known in shapes:
            then = self._planning.cost(known.query, sizes) if sizes else known.now
            found[known.shape.id] = then or known.now
        return found

    def _worthwhile(
        self, shapes: Sequence[_Known], chosen: list[_Sized], then: dict[str, ShapeCost]
    ) -> list[_Sized]:
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
        return within / max(sum(entry.row_count for entry in self._entries), 1)

    def _addition(
        self, one: _Sized, shapes: Sequence[_Known], then: dict[str, ShapeCost]
    ) -> AdviceItem:
        name = one.candidate.projection.name
        served = [known for known in shapes if name in then[known.shape.id].sources]
        queries = sum(known.shape.count for known in served)
        before = sum(known.total for known in served)
        after = sum(
            known.total * then[known.shape.id].cost / max(known.now.cost, 1) for known in served
        )
        rows = sum(
            listed.row_count
            for entry in self._entries
            if (listed := one.sizes.of(entry)) is not None
        )
        return AdviceItem(
            kind="projection",
            name=name,
            sql=one.candidate.sql,
            statement=statement_of("projection", self._table.location, name, one.candidate.sql),
            rows=rows,
            bytes=one.bytes,
            rows_error=_error(one.sizes, self._entries),
            build_seconds=one.sizes.seconds(sum(entry.row_count for entry in self._entries)),
            shapes=tuple(known.shape.id for known in served),
            queries=queries,
            milliseconds_before=before / queries if queries else None,
            milliseconds_after=after / queries if queries else None,
            saved_seconds=(before - after) / 1000,
        )

    def _drops(self, shapes: Sequence[_Known], chosen: Sequence[_Sized]) -> list[AdviceItem]:
        queries = [known.query for known in shapes]
        sizes = [one.sizes for one in chosen]
        found = needless_projections(self._planning, queries, sizes, self._work, DropRules())
        return [
            AdviceItem(
                kind="drop",
                name=name,
                statement=statement_of("drop", self._table.location, name),
                rows=sum(
                    one.row_count
                    for entry in self._entries
                    for one in entry.projections
                    if one.name == name
                ),
                bytes=sum(
                    one.byte_count
                    for entry in self._entries
                    for one in entry.projections
                    if one.name == name
                ),
                evidence=evidence,
            )
            for name, evidence in found.items()
        ]

    # ---- the whole

    def _whole(
        self,
        items: Sequence[AdviceItem],
        shapes: Sequence[_Known],
        then: dict[str, ShapeCost],
        candidates: dict[str, Candidate],
    ) -> Advice:
        work = self._work
        added = sum(item.bytes for item in items if item.kind != "drop")
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
            budget_bytes=self._budget,
            bytes_before=self._before,
            bytes_after=self._before + added - gone,
            base_bytes=self._base_bytes,
            items=tuple(items),
            shapes=tuple(_advised(known, then[known.shape.id], served) for known in shapes),
            not_examined=tuple(self._not_examined),
            candidates=candidates,
        )

    def _check_time(self, share: float) -> None:
        check_deadline()
        if time.monotonic() - self._start > share * self._seconds:
            raise _OutOfTimeError

    def _note_time(self, what: str) -> None:
        if what not in self._not_examined:
            self._not_examined.append(what)


def _advised(known: _Known, then: ShapeCost, served: set[str]) -> AdvisedShape:
    why = known.why_not
    is_helped = known.shape.id in served or then.source not in ("base",)
    if not why and not is_helped:
        why = "TOO_LITTLE"
    return AdvisedShape(
        id=known.shape.id,
        query=_line(known.shape.query),
        count=known.shape.count,
        median_ms=known.milliseconds,
        planned_now=known.now.cost / 1e6,
        planned_then=then.cost / 1e6,
        source_now=known.now.source,
        source_then=then.source,
        why_not="" if is_helped and not known.why_not else why,
    )


def _line(query: dict[str, Any]) -> str:
    """Return a logged question as one line that reads like SQL."""
    outputs = [*query.get("group_by", ()), *query.get("aggregators", ())]
    outputs = outputs or query.get("columns") or ["*"]
    clauses = {
        "SELECT": ", ".join(outputs),
        "WHERE": query.get("filter"),
        "GROUP BY": ", ".join(query.get("group_by", ())),
        "HAVING": query.get("having"),
        "ORDER BY": ", ".join(query.get("order_by", ())),
        "LIMIT": query.get("limit"),
    }
    return " ".join(f"{word} {text}" for word, text in clauses.items() if text not in (None, ""))


def _error(sizes: ProjectionSizes, entries: Iterable[SegmentEntry]) -> float:
    """Return how far the rows may be off: not at all where every segment was sampled."""
    is_whole = all(entry.file in sizes.measured for entry in entries)
    return 0.0 if is_whole else sizes.spread

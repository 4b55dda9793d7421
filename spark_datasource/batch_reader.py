"""Reads in Spark: a table, planned in the driver and answered in tasks; and files from outside.

Spark sends the reader to every task and each partition to one, so the reader holds only the
request, and a partition only its own segments. The reader of files stands above the sources, in the
room of catalogs, and is found by its name.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Final

import pyarrow as pa
from msgspec.structs import replace
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from projseg.errors import without_secrets
from projseg.reader import row_scan
from projseg.reader.answer import answer_without_views
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan, plan_query
from projseg.spark_datasource.option_table import EXTERNAL_FILES
from projseg.spark_datasource.python_workers import freeze_imports, in_one_line
from projseg.spark_datasource.read_request import ReadRequest
from projseg.spark_datasource.scan import Scan
from projseg.spark_datasource.schemas import (
    check_wanted,
    shape_batch,
    transfer_schema,
    zone_of_task,
)
from projseg.spark_datasource.task_split import (
    GROUPS_WORK,
    SegmentWork,
    shares_of,
    work_of_a_task,
    work_of_entry,
    work_of_groups,
    work_of_scan,
)
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.storage.storage_contract import Storage

LOGGER: Final = logging.getLogger("projseg.spark")
LOGGER.setLevel(logging.INFO)  # Spark's workers attach a handler, if asked to, but set no level

BATCH_ROWS_MAX: Final = 100_000

EntryPart = tuple[SegmentEntry, tuple[int, int] | None]
"""A segment, and which of its base rows `[start, end)`; None means all."""

_READER: Final = "projseg.catalog.external.source_reader"


@dataclass
class _TablePartition(InputPartition):
    """Rows that the planner has already, as an Arrow stream."""

    stream: bytes


@dataclass
class _UnplannedPartition(InputPartition):
    """Segments that a task plans for itself: it alone knows the session's time zone."""

    request: ReadRequest
    entries: tuple[EntryPart, ...]
    is_alone: bool
    definitions: Mapping[str, str]


@dataclass
class QueryPartition(InputPartition):
    """The work of one task: a plan that holds only this task's segments.

    A task that is alone uses all threads of its machine; one of several keeps to its own share.
    """

    storage: Storage
    plan: QueryPlan
    is_alone: bool = True

    def threads(self) -> int | None:
        """Return how many threads may work; None leaves it to the query and the machine."""
        context = TaskContext.get()
        if self.is_alone or self.plan.query.context.threads or context is None:
            return None
        return int(context.cpus())


class ProjsegReader(DataSourceReader):
    """One scan, with the columns that Spark wants: the answer's, or the user's choice of them."""

    def __init__(self, request: ReadRequest, schema: StructType) -> None:
        self._request = request
        self._schema = transfer_schema(schema)

    @in_one_line
    def partitions(self) -> list[InputPartition]:
        """Return one partition for a final answer, several where tasks may share the segments."""
        found = self.partitions_of(Scan(self._request))
        freeze_imports()
        return found

    def partitions_of(
        self, scan: Scan, entries: Sequence[SegmentEntry] | None = None
    ) -> list[InputPartition]:
        """Return the partitions of a scan, over all segments or over some."""
        started = time.perf_counter()
        check_wanted(scan.answer_schema, self._schema, fills_missing=self._request.fills_missing)
        if scan.is_zone_missing:
            candidates = scan.candidates() if entries is None else entries
            parts = _entry_shares(scan, candidates, len(self._schema.names))
            return [
                _UnplannedPartition(scan.request, part, len(parts) == 1, scan.definitions)
                for part in parts
            ]
        described = scan.description_rows()
        if described is not None:
            return [_TablePartition(_stream_of(described))]
        plan = scan.plan(self._schema.names, entries)
        shares = _shares(scan, plan)
        _log(
            "planned",
            location=without_secrets(self._request.location),
            version=scan.snapshot.version,
            segments=len(plan.segments),
            pruned=plan.pruned_count,
            tasks=len(shares),
            milliseconds=_since(started),
        )
        return [
            QueryPartition(scan.storage, replace(plan, segments=share), len(shares) == 1)
            for share in shares
        ]

    @in_one_line
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows in batches of exactly the schema that Spark asked for."""
        started = time.perf_counter()
        row_count = 0
        for batch in self._batches(partition):
            row_count += batch.num_rows
            yield shape_batch(batch, self._schema)
        _log("read", rows=row_count, milliseconds=_since(started))
        freeze_imports()

    def _batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, _UnplannedPartition):
            partition = self._planned(partition)
        if isinstance(partition, _TablePartition):
            yield from pa.ipc.open_stream(partition.stream)
            return
        assert isinstance(partition, QueryPartition)
        storage, plan = partition.storage, partition.plan
        if plan.query.is_row_scan and not plan.query.order_by:
            yield from row_scan.scan(storage, plan, plan.segments, partition.threads())
            return
        instead = partial(_plan_without_parts, storage, plan)
        rows = answer_without_views(storage, plan, instead, partition.threads())
        yield from rows.to_batches(max_chunksize=BATCH_ROWS_MAX)

    def _planned(self, partition: _UnplannedPartition) -> _TablePartition | QueryPartition:
        """Return the partition that the planner would make if it knew the time zone."""
        scan = Scan(partition.request.in_zone(zone_of_task()), partition.definitions)
        described = scan.description_rows()
        if described is not None:
            return _TablePartition(_stream_of(described))
        plan = scan.plan(self._schema.names, [entry for entry, _ in partition.entries])
        segments = tuple(_parts(plan.segments, partition.entries))
        return QueryPartition(scan.storage, replace(plan, segments=segments), partition.is_alone)


def _plan_without_parts(storage: Storage, plan: QueryPlan) -> QueryPlan | None:
    """Return a task's plan with segments in place of parts; None if it must or can not be so."""
    query, segments = plan.query, []
    versions = {one.covered.version for one in plan.segments if one.covered is not None}
    if not versions or query.context.force_views or query.context.use_view:
        return None
    snapshot = open_snapshot(storage, versions.pop())
    for one in plan.segments:
        if one.covered is None:
            segments.append(one)
            continue
        names = one.covered.names
        entries = [entry for entry in snapshot.segments if entry.listed_as in names]
        if len(entries) != len(names):
            return None  # the version is another table's by now
        among = query.among(query.filter, one.covered.interval)
        segments += plan_query(snapshot, among, entries).segments
    return replace(plan, segments=tuple(segments), wider=())


def _shares(scan: Scan, plan: QueryPlan) -> list[tuple[SegmentPlan, ...]]:
    """Divide the segments of a plan among tasks."""
    segments = plan.segments
    if not plan.query.is_divisible:
        return [tuple(segments)]
    if plan.query.is_row_scan:
        works = [work_of_scan(segment) for segment in segments]
        shares = shares_of(works, work_of_a_task(works, scan.request.parallelism))
    else:
        shares = shares_of([work_of_groups(segment) for segment in segments], GROUPS_WORK)
    return [tuple(_part(segments[piece.index], piece.rows) for piece in share) for share in shares]


def _entry_shares(
    scan: Scan, entries: Sequence[SegmentEntry], column_count: int
) -> list[tuple[EntryPart, ...]]:
    """Divide segments among tasks before their sources are chosen."""
    if scan.request.is_explain or not scan.query.is_divisible:
        return [tuple((entry, None) for entry in entries)]
    if scan.query.is_row_scan:
        works = [work_of_entry(entry, column_count) for entry in entries]
        shares = shares_of(works, work_of_a_task(works, scan.request.parallelism))
    else:
        shares = shares_of([SegmentWork(entry.byte_count) for entry in entries], GROUPS_WORK)
    return [tuple((entries[piece.index], piece.rows) for piece in share) for share in shares]


def _part(segment: SegmentPlan, rows: tuple[int, int] | None) -> SegmentPlan:
    return segment if rows is None else replace(segment, choice=segment.choice.part(*rows))


def _parts(segments: Sequence[SegmentPlan], entries: Iterable[EntryPart]) -> Iterator[SegmentPlan]:
    """Yield the planned segments, which are some of the entries in their order, cut as those."""
    parts = iter(entries)
    for segment in segments:
        rows = next(rows for entry, rows in parts if entry is segment.entry)
        part = _part(segment, rows)
        if not part.choice.is_empty:
            yield part


def _stream_of(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)


def _log(event: str, **fields: object) -> None:
    """Log a structured record; Spark can gather those of all workers into one table."""
    LOGGER.info(json.dumps({"event": event, **fields}))


class ExternalReader(DataSourceReader):
    """One read of the files that the engine has named.

    The option `EXTERNAL_FILES` is JSON of `parts` (a whole spec for each file), `roots` and `hosts`
    that the reader allows, and `timezone`.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._given = json.loads(options[EXTERNAL_FILES])
        self._schema = transfer_schema(schema)

    @in_one_line
    def partitions(self) -> list[InputPartition]:
        """Return a partition for each file."""
        return [InputPartition(number) for number in range(len(self._given["parts"]))]

    @in_one_line
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file in batches of exactly the schema that Spark asked for."""
        given = self._given
        rows = import_module(_READER).read_part(
            given["parts"][partition.value], given["roots"], given["hosts"], given["timezone"]
        )
        for batch in rows:
            yield shape_batch(batch, self._schema)

"""Advice tried on some segments: built in a temporary folder, asked with and without it."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from msgspec import UNSET
from msgspec.structs import replace as replaced

from projseg.advisor.advice import Advice
from projseg.advisor.advice_items import AdvisedShape
from projseg.advisor.known_shapes import (
    KnownShape,
    expected_milliseconds,
    fixed_milliseconds,
)
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.request import Query
from projseg.maintenance.sampled_segments import SampledSegments
from projseg.reader.answer import answer
from projseg.reader.plan.query_plan import plan_query
from projseg.reader.row_scan import scan
from projseg.table import Table
from projseg.table.declaration_commits import Declarations, declare_together
from projseg.table.table_version import reader_of, state_of
from projseg.table.version_reader import VersionReader
from projseg.table_layer.metadata.snapshot import Snapshot

_SEGMENTS_MAX: Final = 4
_ROWS_MAX: Final = 4_000_000
_RUNS: Final = 3
_TOLERANCE: Final = 1e-9


def measured_advice(advice: Advice, table: Table, shapes: Sequence[KnownShape]) -> Advice:
    """Return advice whose shapes have milliseconds that were measured on some segments.

    Each shape is run over a copy of the segments: without the advice, with all of it, and from the
    rows alone. The three answers must be equal.
    """
    snapshot = table.snapshot
    with tempfile.TemporaryDirectory(prefix="projseg-advice-") as folder:
        copied = _copied(snapshot, Path(folder) / "sample")
        before = {known.shape.id: _timed_answer(copied, known.query) for known in shapes}
        additions = [item for item in advice.items if item.name in advice.candidates]
        replace(advice, items=tuple(additions)).apply(copied)
        asked = {known.shape.id: known for known in shapes}
        found = tuple(
            _measured(shape, before[shape.id], copied, asked[shape.id]) for shape in advice.shapes
        )
    return replace(advice, shapes=found)


def _copied(snapshot: Snapshot, place: Path) -> Table:
    """Write some segments of a version to a folder, as a table that declares the same."""
    properties = snapshot.properties
    table = Table.create(
        place,
        properties.schema,
        time_column=properties.time_column,
        segment_granularity=properties.segment_granularity,
        cluster_by=properties.cluster_by,
        target_segment_rows=properties.target_segment_rows,
    )
    if table.properties.columns == properties.columns and properties.stored_columns is UNSET:
        same = Declarations(properties.projections, properties.declared_indexes)
        if not same.is_empty:
            state = state_of(table)
            state.move_to(declare_together(table.snapshot, same, state.note))
    every = VersionReader(snapshot).bound(Query())
    for entry in SampledSegments(snapshot, _SEGMENTS_MAX, _ROWS_MAX).entries:
        plan = plan_query(snapshot, every, [entry])
        batches = scan(snapshot.storage, plan, plan.segments)
        table.append(pa.RecordBatchReader.from_batches(every.output_schema, batches))
    return table


def _timed_answer(table: Table, query: QuerySpec) -> tuple[pa.Table, float]:
    """Return an answer, and the least milliseconds of some runs once its files are read."""
    reader = reader_of(table)
    plan = reader.plan_bound(query)
    rows = answer(reader.storage, plan)
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        answer(reader.storage, plan)
        times.append((time.perf_counter() - start) * 1000)
    return rows, min(times)


def _measured(
    shape: AdvisedShape, before: tuple[pa.Table, float], table: Table, known: KnownShape
) -> AdvisedShape:
    query = known.query
    rows, milliseconds = _timed_answer(table, query)
    by_rows = replaced(query.context, no_projections=True, no_indexes=True, no_views=True)
    reader = reader_of(table)
    plain = answer(reader.storage, reader.plan_bound(replaced(query, context=by_rows)))
    is_same = all(same_rows(rows, other, query) for other in (before[0], plain))
    share = shape.planned_then / max(shape.planned_now, 1e-9)
    fixed = fixed_milliseconds(query, float(len(rows)))
    return replace(
        shape,
        measured_before=before[1],
        measured_expected=expected_milliseconds(before[1], share, fixed),
        measured_after=milliseconds,
        is_same_answer=is_same,
    )


def same_rows(one: pa.Table, other: pa.Table, query: QuerySpec) -> bool:
    """Whether two answers of a query are equal rows in any order; doubles up to rounding.

    Of rows that a limit cuts from no order any are right, and sketches that are thinned depend on
    the order in which they are merged.
    """
    if one.schema != other.schema or len(one) != len(other):
        return False
    is_any = query.is_row_scan and query.limit is not None and not query.order_by
    if is_any or any(primitive.kind.is_thinned for primitive in query.primitives):
        return True
    left, right = (sorted(map(_plain, table.to_pylist()), key=_rank) for table in (one, other))
    return all(map(_equal, left, right))


def _plain(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def _rank(row: tuple[Any, ...]) -> str:
    return repr([f"{value:.6g}" if isinstance(value, float) else value for value in row])


def _equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    for left, right in zip(one, other, strict=True):
        if isinstance(left, float) and isinstance(right, float):
            both_nan = math.isnan(left) and math.isnan(right)
            if not (both_nan or math.isclose(left, right, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)):
                return False
        elif left != right:
            return False
    return True

"""Merge rows into a table by key: update or delete those that are there, insert those that are not.

The rows to merge are held in memory; of the table, the keys of one segment at a time. Segments that
hold no such key stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.algebra.expressions import tree
from projseg.algebra.expressions.sql_words import backquoted
from projseg.algebra.proofs.index_keys import AllOf, Keys, KeyTree, OneOf
from projseg.errors import InvalidInputError, did_you_mean, listed
from projseg.evaluation.rows import RowRange, Rows
from projseg.maintenance.row_changes.affected_segments import AffectedSegment, Rewriting
from projseg.maintenance.row_changes.delete_and_update import Corrected, rewrite
from projseg.maintenance.row_changes.matching_rows import (
    Condition,
    planned,
    row_ids_of,
    rows_as_batches,
)
from projseg.reader.open_sources import open_source
from projseg.reader.plan.query_plan import QueryPlan, SegmentPlan
from projseg.reader.segment_source import SegmentSource
from projseg.segment_format.format_limits import PAGE_ROWS_MAX, name_key
from projseg.segment_format.logical_types import type_name
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.writer.checked_rows import normalise_batches

WhenMatched = Literal["update", "delete", "ignore"]
WhenNotMatched = Literal["insert", "ignore"]
_MATCHED: Final = ("update", "delete", "ignore")
_NOT_MATCHED: Final = ("insert", "ignore")
_INDEXED_KEYS_MAX: Final = 4_096  # beyond it most segments hold one
_KEY_ROWS: Final = 8 * PAGE_ROWS_MAX


class _Merge(msgspec.Struct, frozen=True):
    """The rows to merge, under the table's names and types, their key columns, and how to merge."""

    rows: pa.Table
    on: tuple[str, ...]
    when_matched: WhenMatched
    when_not_matched: WhenNotMatched


def merge_rows(
    base: Snapshot,
    batches: Iterable[pa.RecordBatch],
    on: Sequence[str],
    when_matched: WhenMatched,
    when_not_matched: WhenNotMatched,
    note: CommitNote,
    *,
    dry_run: bool = False,
) -> tuple[Snapshot, Corrected]:
    """Merge rows, whose columns are matched by name, by key, in one commit.

    Rows match where the columns `on` are equal; a null equals nothing. With `dry_run`, rows are
    counted and none is written.
    """
    _check_choice("when_matched", when_matched, _MATCHED)
    _check_choice("when_not_matched", when_not_matched, _NOT_MATCHED)
    schema = base.properties.schema
    held = list(batches)
    rows = _rows_of(held, schema)
    keys = _key_columns(on, rows, schema, has_rows=any(batch.num_rows for batch in held))
    merge = _Merge(rows, keys, when_matched, when_not_matched)
    note = note.asking(
        on=", ".join(keys), when_matched=when_matched, when_not_matched=when_not_matched
    )
    return rewrite(
        base,
        lambda now, done: _merged(now, merge, done),
        "merge",
        note,
        # A key that others added meanwhile would be added twice.
        depends_on_all=when_not_matched == "insert",
        dry_run=dry_run,
    )


def _check_choice(name: str, given: str, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"{name} is '{given}'; it must be one of {', '.join(allowed)}"
        )


def _rows_of(held: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    given = {name_key(name) for batch in held[:1] for name in batch.schema.names}
    present = pa.schema([field for field in schema if name_key(field.name) in given])
    return pa.Table.from_batches(normalise_batches(held, present, None), present)


def _key_columns(
    on: Sequence[str], rows: pa.Table, schema: pa.Schema, *, has_rows: bool
) -> tuple[str, ...]:
    if isinstance(on, str) or not on:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"on is {on!r}; give the names of one or more key columns"
        )
    names = {name_key(name): name for name in schema.names}
    keys = []
    for given in map(str, listed("on", on)):
        name = names.get(name_key(given))
        if name is None or (name not in rows.column_names and has_rows):
            missing = "the table" if name is None else "the rows to merge; each needs its key"
            near = did_you_mean(given, schema.names) if name is None else ""
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN", f"key column '{given}' is not in {missing}{near}"
            )
        type_ = schema.field(name).type
        if pa.types.is_floating(type_) or pa.types.is_nested(type_):
            raise InvalidInputError(
                "PROJSEG_BAD_ARGUMENT",
                f"key column '{name}' is {type_name(type_)}, by which rows cannot be matched; "
                "give columns of another type",
            )
        keys.append(name)
    return tuple(dict.fromkeys(keys))


def _merged(snapshot: Snapshot, merge: _Merge, done: Rewriting) -> Iterator[pa.RecordBatch]:
    is_known = np.zeros(len(merge.rows), np.bool_)
    if len(merge.rows):
        plan = planned(snapshot, Condition(_enclosing(merge)), _keys(merge))
        for segment in plan.segments:
            yield from _merged_segment(snapshot, plan, segment, merge, done, is_known)
    if merge.when_not_matched == "insert":
        added = merge.rows.filter(pa.array(~is_known))
        done.inserted = len(added)
        yield from added.to_batches()


def _keys(merge: _Merge) -> KeyTree | None:
    """Return the values of the key columns, for indexes; None if they are too many to ask about."""
    found = []
    for name in merge.on:
        values = pc.unique(merge.rows[name]).drop_null()
        if len(values) <= _INDEXED_KEYS_MAX:
            column = tree.Column(values.type, name)
            literals = tuple(tree.Literal(values.type, value) for value in values.to_pylist())
            found.append(Keys("bloom", name, column, OneOf(literals)))
    return AllOf(tuple(found)) if found else None


def _merged_segment(
    snapshot: Snapshot,
    plan: QueryPlan,
    segment: SegmentPlan,
    merge: _Merge,
    done: Rewriting,
    is_known: NDArray[np.bool_],
) -> Iterator[pa.RecordBatch]:
    source = open_source(snapshot.storage, segment.entry, segment.choice.plans[0], plan.schema)
    targets, sources = _pairs(source, merge)
    is_known[sources] = True
    if len(targets) == 0 or merge.when_matched == "ignore":
        return
    affected = AffectedSegment(
        snapshot.storage, plan, segment, np.unique(targets).astype(np.uint32)
    )
    yield from done.take_out(affected, snapshot.properties)
    if merge.when_matched == "delete":
        done.deleted += affected.row_count
        return
    done.updated += affected.row_count
    start = 0
    for batch in rows_as_batches(plan, source, targets.astype(np.uint32)):
        given = merge.rows.take(pa.array(sources[start : start + batch.num_rows]))
        start += batch.num_rows
        columns = [
            given[name].combine_chunks() if name in given.column_names else batch[name]
            for name in batch.schema.names
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _pairs(source: SegmentSource, merge: _Merge) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which rows of a segment match which rows to merge, int64[n] each, ascending."""
    names = [f"key {number}" for number in range(len(merge.on))]
    sought = merge.rows.select(merge.on).columns
    wanted = _numbered(sought, names, "source", np.arange(len(merge.rows)))
    targets, sources = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for start in range(0, source.row_count, _KEY_ROWS):
        end = min(start + _KEY_ROWS, source.row_count)
        rows = source.live(Rows(source, RowRange(start, end))).compact()
        if len(rows) == 0:
            continue
        keys = [rows.vector(name).to_arrow() for name in merge.on]
        numbered = _numbered(keys, names, "target", row_ids_of(rows))
        found = numbered.join(wanted, names, join_type="inner")
        targets.append(found["target"].to_numpy())
        sources.append(found["source"].to_numpy())
    target_ids, source_ids = np.concatenate(targets), np.concatenate(sources)
    order = np.lexsort((source_ids, target_ids))
    target_ids, source_ids = target_ids[order], source_ids[order]
    if merge.when_matched == "update" and (target_ids[1:] == target_ids[:-1]).any():
        at = source_ids[1:][target_ids[1:] == target_ids[:-1]][0]
        key = merge.rows.select(merge.on).slice(int(at), 1).to_pylist()[0]
        raise InvalidInputError(
            "PROJSEG_AMBIGUOUS_MERGE",
            f"several rows to merge have the key {key}, and a row of the table has it; nothing was "
            "committed: give each key once",
        )
    return target_ids, source_ids


def _numbered(
    keys: Sequence[pa.Array], names: Sequence[str], number: str, numbers: NDArray[Any]
) -> pa.Table:
    """Return key columns beside the numbers of their rows."""
    return pa.table([*keys, pa.array(numbers.astype(np.int64))], names=[*names, number])


def _enclosing(merge: _Merge) -> str | None:
    """Return a condition that every row which can match fulfils, for segments to be left out."""
    parts = []
    for name in merge.on:
        column = merge.rows[name]
        if pa.types.is_integer(column.type):
            bounds = pc.min_max(column).as_py()
            if bounds["min"] is not None:
                parts.append(f"{backquoted(name)} BETWEEN {bounds['min']} AND {bounds['max']}")
    return " AND ".join(parts) or None

"""Build a segment's projections, and put them behind its base rows into the segment file.

A projection folds its base rows and keeps the states, or sorts them. Each dictionary is written
once, before its first use.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import numpy as np
import pyarrow as pa

from projseg.aggregation.final_values import exact_to_arrow
from projseg.aggregation.fold import fold_base_rows
from projseg.aggregation.partial import Partial
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.aggregates.state_columns import state_column_name, stored_column
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.errors import CorruptionError, LimitExceededError, ProjsegError, StorageError
from projseg.evaluation.arrow_vectors import grouping_vector
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import ColumnSource, MemorySource, RowRange, Rows, all_rows
from projseg.segment_format.file.encoded_parts import EncodedColumn, encode_column
from projseg.segment_format.file.segment_encoder import SegmentEncoder
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE, FILE_ID_BYTES, ROW_NUMBER, Role
from projseg.segment_format.logical_types import is_text
from projseg.segment_format.vectors import Ids, Numbers, Opaque, Vector
from projseg.table_layer.metadata.known_properties import ProjectionScope
from projseg.writer.sort_order import sorted_row_ids

NOT_BUILT_CHARACTERS_MAX: Final = 1000
_ROWS_MIN: Final = 1 << 14

_Column = tuple[Role, str, Vector]


@dataclass(frozen=True, slots=True)
class BuiltProjection:
    """A projection's rows, in its order, by stored name.

    `grouping` has grouping columns, or columns of rows; `states` has state columns, or the numbers
    of rows in the base table.
    """

    spec: ProjectionSpec
    row_count: int
    grouping: dict[str, Vector]
    states: dict[str, Vector]


@dataclass(frozen=True, slots=True)
class NotBuilt:
    """Why a segment lacks a projection; queries fall back on its base rows."""

    spec: ProjectionSpec
    reason: str


def build_projection(source: ColumnSource, spec: ProjectionSpec) -> BuiltProjection | NotBuilt:
    """Return the projection of the base rows `source`, or the reason why there is none."""
    if spec.holds_rows:
        return _or_reason(spec, lambda: BuiltProjection(spec, *sorted_rows(source, spec)))

    def folded() -> tuple[Partial, int]:
        rows = filter_rows(all_rows(source), spec.filter)
        keys = [named.expression for named in spec.grouping]
        partial = fold_base_rows(rows, keys, spec.primitives)
        return partial, partial.group_count if len(rows) else 0

    return projection_of(spec, folded)


def projection_of(
    spec: ProjectionSpec, fold: Callable[[], tuple[Partial, int]]
) -> BuiltProjection | NotBuilt:
    """Return the projection whose groups `fold` makes, or the reason why there is none.

    It returns groups in the order of their keys, and how many of them, from the first, exist.
    """
    return _or_reason(spec, lambda: _built(spec, *fold()))


def _or_reason(
    spec: ProjectionSpec, build: Callable[[], BuiltProjection]
) -> BuiltProjection | NotBuilt:
    """Return the projection that is built, or the reason why it cannot be.

    A value that Spark's ANSI mode refuses, in a virtual column or in a sum, must not fail the
    write: the rows themselves are sound. Damaged or unreadable files do fail it.
    """
    if spec.changed_zones:
        zones = ", ".join(spec.changed_zones)
        return NotBuilt(
            spec,
            f"time zone {zones} has other rules here than where the projection was declared; drop"
            " the projection and declare it again",
        )
    try:
        return build()
    except (CorruptionError, StorageError):
        raise
    except (ProjsegError, ArithmeticError) as error:
        return NotBuilt(spec, str(error))


def _built(spec: ProjectionSpec, partial: Partial, group_count: int) -> BuiltProjection:
    grouping = {
        stored_column(named.expression).name: vector.slice(0, group_count)
        for named, vector in zip(spec.grouping, partial.keys, strict=True)
    }
    states = {
        state_column_name(primitive.text, part): _storable(
            columns[part].slice(0, group_count), primitive, part
        )
        for index, primitive in enumerate(spec.primitives)
        for columns in [partial.state_columns(index)]
        for part, _ in primitive.fields
    }
    return BuiltProjection(spec, group_count, grouping, states)


def _storable(vector: Vector, primitive: Primitive, part: str) -> Vector:
    """Return a state's column as it is stored.

    Text states (the smallest title) repeat, so they get a dictionary of their own; sketches are
    nearly all different. Sums in memory are exact at any size; a stored sum must fit the digits of
    its type.
    """
    if isinstance(vector, Opaque) and is_text(vector.array.type) and part != "sketch":
        return grouping_vector(vector.array)
    if isinstance(vector, Numbers) and vector.values.dtype == object:
        exact_to_arrow(vector.wide(), vector.type, vector.validity, primitive.text)
    return vector


def sorted_rows(
    source: ColumnSource, spec: ProjectionSpec
) -> tuple[int, dict[str, Vector], dict[str, Vector]]:
    """Return what a projection of rows stores of the base rows `source`.

    These are the number of rows, their columns by stored name, and the column of row numbers by its
    name. Ids keep the dictionaries of the base rows; equal rows stay in their order.
    """
    rows = filter_rows(all_rows(source), spec.filter)
    columns = {
        stored_column(named.expression).name: evaluate_over(named.expression, rows)
        for named in spec.grouping
    }
    for name in spec.stored_order:
        vector = columns[name]
        if isinstance(vector, Opaque):  # texts have an order as ids of a sorted dictionary
            columns[name] = grouping_vector(vector.array)
    numbers: Vector = Numbers(row_numbers(rows), pa.int64())
    order = sorted_row_ids(columns, spec.stored_order)
    if order is not None:
        columns = {name: vector.take(order) for name, vector in columns.items()}
        numbers = numbers.take(order)
    return len(rows), columns, {ROW_NUMBER: numbers}


def row_numbers(rows: Rows) -> np.ndarray:
    """Return the numbers of rows within their source, int64[n]."""
    selection = rows.selection
    if isinstance(selection, RowRange):
        return np.arange(selection.start, selection.end, dtype=np.int64)
    return selection.ids.astype(np.int64)


def guarded(
    result: BuiltProjection | NotBuilt, scope: ProjectionScope, base_rows: int, base_bytes: int
) -> BuiltProjection | NotBuilt:
    """Return a projection, or why its scope excludes it, by rows and bytes of the base table."""
    if isinstance(result, NotBuilt):
        return result
    reason = scope.row_guard(result.row_count, base_rows)
    if reason is None and scope.max_bytes_ratio is not None:
        reason = scope.bytes_guard(_stored_bytes(result), base_bytes)
    return result if reason is None else NotBuilt(result.spec, reason)


def _stored_bytes(projection: BuiltProjection) -> int:
    """Return the stored bytes of a projection's columns, by encoding it to nowhere."""
    encoder = SegmentEncoder(lambda _: None, file_id=bytes(FILE_ID_BYTES), schema=pa.schema([]))
    encoder.begin_table(BASE_TABLE, 0)
    encoder.end_table()
    if isinstance(SegmentContents(encoder).add_projection(projection), NotBuilt):
        return 0  # it passes a limit of the format, which says more than its size
    return encoder.column_bytes(projection.spec.name)


class SegmentContents:
    """The tables of one file, in the order they are added: base rows, then projections.

    A pool encodes the columns of a table of many rows side by side; they are written in order.
    """

    def __init__(self, encoder: SegmentEncoder, pool: Executor | None = None) -> None:
        self._encoder, self._pool = encoder, pool
        self._dictionary_names: dict[int, str] = {}

    def add_base(self, source: MemorySource, sort_order: Sequence[str]) -> None:
        """Write the base table."""
        columns: list[_Column] = [("base", name, v) for name, v in source.vectors.items()]
        self._add_dictionaries(columns, [name for _, name, _ in columns])
        self._encoder.begin_table(BASE_TABLE, source.row_count, sort_order=sort_order)
        self._add_columns(columns)
        self._encoder.end_table()

    def copy_tables(
        self, source: SegmentFile, tables: Sequence[tuple[str, tuple[str, str] | None]]
    ) -> None:
        """Copy tables of another segment, the base table first, and the dictionaries they use.

        Nothing is decoded or encoded, and each part's checksum is proved. A table is its name
        there, and the (name, definition) it is stored under here, None to keep them. The other
        segment must live as long as this object.
        """
        used = {column.dictionary for name, _ in tables for column in source.table(name).columns}
        for position, entry in enumerate(source.footer.dictionaries):
            if position in used:
                self._encoder.copy_dictionary(source, entry.name)
                self._dictionary_names[id(source.dictionary(entry.name))] = entry.name
        for name, stored_as in tables:
            self._encoder.copy_table(source, name, stored_as=stored_as)

    def add_projection(self, projection: BuiltProjection) -> BuiltProjection | NotBuilt:
        """Write a projection, or return why the format cannot hold it; the file stays valid."""
        spec = projection.spec
        columns: list[_Column] = [("grouping", n, v) for n, v in projection.grouping.items()]
        columns += [("state", name, vector) for name, vector in projection.states.items()]
        begun = False
        try:
            self._add_dictionaries(columns, [f"projection/{n}" for n in range(len(columns))])
            self._encoder.begin_table(
                spec.name,
                projection.row_count,
                definition=spec.definition,
                definition_hash=spec.definition_hash,
                sort_order=spec.stored_order,
            )
            begun = True
            self._add_columns(columns)
        except LimitExceededError as error:
            if begun:
                self._encoder.abandon_table()
            return NotBuilt(spec, str(error))
        self._encoder.end_table()
        return projection

    def add_not_built(self, failed: NotBuilt) -> None:
        """Record a projection that the segment lacks, and why."""
        reason = failed.reason[:NOT_BUILT_CHARACTERS_MAX]
        self._encoder.add_not_built(failed.spec.name, failed.spec.definition_hash, reason)

    def _add_dictionaries(self, columns: Sequence[_Column], preferred: Sequence[str]) -> None:
        """Add the dictionaries that no earlier table has, under names that are not taken."""
        for (_, _, vector), name in zip(columns, preferred, strict=True):
            if isinstance(vector, Ids) and id(vector.dictionary) not in self._dictionary_names:
                free = self._encoder.free_name(name)
                self._encoder.add_dictionary(free, vector.dictionary)
                self._dictionary_names[id(vector.dictionary)] = free

    def _add_columns(self, columns: Sequence[_Column]) -> None:
        with closing(self._encoded(columns)) as encoded:
            for (role, name, vector), one in zip(columns, encoded, strict=True):
                dictionary = None
                if isinstance(vector, Ids):
                    dictionary = self._dictionary_names[id(vector.dictionary)]
                self._encoder.add_column(
                    name, vector, role=role, dictionary=dictionary, encoded=one
                )

    def _encoded(self, columns: Sequence[_Column]) -> Generator[EncodedColumn | None, None, None]:
        """Yield what the pool makes of each column, or None for what the encoder is to encode."""
        row_count = max((len(vector) for _, _, vector in columns), default=0)
        if self._pool is None or not are_worth_threads(row_count):
            yield from repeat(None, len(columns))
            return
        # The largest first: no thread begins a long column when others have nothing left to do.
        by_size = sorted(range(len(columns)), key=lambda n: -columns[n][2].nbytes)
        futures = {
            n: self._pool.submit(encode_column, columns[n][2], columns[n][0]) for n in by_size
        }
        try:
            for number in range(len(columns)):
                yield futures.pop(number).result()
        finally:
            for future in futures.values():
                future.cancel()


def are_worth_threads(row_count: int) -> bool:
    """Whether work on columns of `row_count` rows takes longer than handing it to a thread."""
    return row_count >= _ROWS_MIN

"""Build one projection of a segment: fold its base rows and keep the states, or sort them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from projseg.aggregation.final_values import exact_to_arrow
from projseg.aggregation.fold import fold_base_rows
from projseg.aggregation.partial import Partial
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.aggregates.state_columns import ROW_NUMBER, state_column_name, stored_column
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.errors import CorruptionError, ProjsegError, StorageError
from projseg.evaluation.arrow_vectors import grouping_vector
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import ColumnSource, RowRange, Rows, all_rows
from projseg.segment_format.layout.logical_types import is_text
from projseg.segment_format.vectors.vectors import Numbers, Opaque, Vector
from projseg.writer.sort_order import sorted_row_ids

StoredRows = tuple[int, dict[str, Vector], dict[str, Vector]]
"""Number of rows, their columns by stored name, and the column of row numbers by its name."""


def sorted_rows(source: ColumnSource, spec: ProjectionSpec) -> StoredRows:
    """Return what a projection of rows stores of the base rows `source`.

    Ids keep the dictionaries of the base rows. Equal rows stay in the order of the base rows.

    Raises
    ------
    EvaluationError
        Where a column meets a value that Spark's ANSI mode refuses.
    """
    rows = filter_rows(all_rows(source), spec.filter)
    columns = {
        stored_column(named.expression).name: evaluate_over(named.expression, rows)
        for named in spec.grouping
    }
    for name in spec.stored_order:
        columns[name] = orderable(columns[name])
    numbers: Vector = Numbers(row_numbers(rows), pa.int64())
    order = sorted_row_ids(columns, spec.stored_order)
    if order is not None:
        columns = {name: vector.take(order) for name, vector in columns.items()}
        numbers = numbers.take(order)
    return len(rows), columns, {ROW_NUMBER: numbers}


def orderable(vector: Vector) -> Vector:
    """Return a column that has an order: texts as ids of a sorted dictionary."""
    return grouping_vector(vector.array) if isinstance(vector, Opaque) else vector


def row_numbers(rows: Rows) -> np.ndarray:
    """Return the numbers of rows within their source, int64[n]."""
    selection = rows.selection
    if isinstance(selection, RowRange):
        return np.arange(selection.start, selection.end, dtype=np.int64)
    return selection.ids.astype(np.int64)


@dataclass(frozen=True, slots=True)
class BuiltProjection:
    """A projection's rows, in its order.

    Parameters
    ----------
    spec : ProjectionSpec
        What was built.
    row_count : int
        Number of groups, or of rows.
    grouping : dict of str to Vector
        Grouping columns, or columns of rows, by stored name, in order.
    states : dict of str to Vector
        State columns by stored name; of rows their numbers in the base table.
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

    Parameters
    ----------
    spec : ProjectionSpec
        The projection.
    fold : callable
        Returns groups in the order of their keys, and how many of them, from the first, exist.

    Raises
    ------
    CorruptionError, StorageError
        If the rows cannot be read.
    """
    return _or_reason(spec, lambda: _built(spec, *fold()))


def _or_reason(
    spec: ProjectionSpec, build: Callable[[], BuiltProjection]
) -> BuiltProjection | NotBuilt:
    """Return what is built, or the reason why it cannot be.

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

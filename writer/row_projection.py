"""Build a projection of rows: chosen columns of base rows, sorted anew, with their row numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.projection.stored_names import ROW_NUMBER, stored_column
from projseg.evaluation.arrow_vectors import grouping_vector
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import ColumnSource, RowRange, Rows, all_rows
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

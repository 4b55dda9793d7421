"""Check stored projections, of groups and of rows, against a recomputation from the base rows.

Base rows are folded in batches and the batches merged, so that memory is that of one batch and of
the groups of one projection. Of a projection of rows, the order is checked, and every row against
the base row that it is; memory is that of a batch and of one column of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from numpy.typing import NDArray

from projseg.aggregation.fold import fold_base_rows
from projseg.aggregation.kll import sketches_apart
from projseg.aggregation.partial import Partial, merge_partials
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.aggregates.state_columns import state_column_name, stored_column
from projseg.algebra.expressions.tree import Call
from projseg.algebra.projection.renamed_projection import mentioned_columns
from projseg.algebra.projection.spec import ProjectionSpec, from_definition
from projseg.errors import ProjsegError
from projseg.evaluation.arrow_vectors import concat_vectors
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import RowRange
from projseg.maintenance.uncached_segment import BATCH_ROWS, PagedSource
from projseg.maintenance.verify_base_table import first_descent
from projseg.segment_format.arrow_arrays import filled_values
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import ROW_NUMBER, Role, TableEntry
from projseg.segment_format.format_limits import PAGE_ROWS_MAX
from projseg.segment_format.logical_types import parse_type_name
from projseg.segment_format.page_directory import may_widen
from projseg.segment_format.vectors import Ids, Numbers, Vector
from projseg.table_layer.commits.footer_match import Mismatch, projection_mismatches
from projseg.table_layer.foreign.foreign_segment import ForeignSegment
from projseg.table_layer.metadata.table_schema import TableSchema
from projseg.writer.segment_contents import row_numbers
from projseg.writer.sort_order import sort_keys

# Sums of doubles depend on the order of addition; anything beyond this share of the sum of absolute
# values is a wrong projection.
_TOLERANCE: Final = 1e-9
_EPSILON: Final = float(np.finfo(np.float64).eps)

_Places = NDArray[np.int64]


def verify_projection(
    segment: SegmentFile,
    table: TableEntry,
    schema: TableSchema,
    foreign: ForeignSegment | None = None,
) -> Iterator[Mismatch]:
    """Yield where a stored projection differs from its definition or its recomputation.

    There is no recomputation if base rows may be of a column that forgot their stored name, or if
    time zones have other rules here than where the projection was declared.
    """
    owner = f"projection '{table.name}'"
    spec = from_definition(table.definition, schema.columns)
    is_sound = True
    for what, expected, found in projection_mismatches(spec, table):
        is_sound = False
        yield Mismatch(f"{owner}: {what}", expected, found)
    if is_sound and not spec.changed_zones and not _has_forgotten_rows(segment, schema, spec):
        compare = _sorted_rows_mismatches if spec.holds_rows else _group_mismatches
        for what, expected, found in compare(PagedSource(segment, schema, foreign), table, spec):
            yield Mismatch(f"{owner}: {what}", expected, found)


def _has_forgotten_rows(segment: SegmentFile, schema: TableSchema, spec: ProjectionSpec) -> bool:
    """Whether the segment may hold a column of a projection under an unknown earlier name.

    A column that was dropped after it was widened leaves names that nothing connects. A projection
    that mentions one answers nothing.
    """
    if not schema.forms or not segment.tables[0].columns:
        return False
    present = {column.name for column in segment.tables[0].columns}
    narrower = [parse_type_name(f.type) for f in schema.every if f.name in present]
    retired = mentioned_columns(spec) - schema.forms.keys() - present
    return any(
        may_widen(narrow, schema.field(name).type) for name in retired for narrow in narrower
    )


def _group_mismatches(
    base: PagedSource, table: TableEntry, spec: ProjectionSpec
) -> Iterator[Mismatch]:
    try:
        partial = _recomputed(base, spec, spec.primitives, table.row_count)
    except (ProjsegError, ArithmeticError) as error:
        yield Mismatch("recomputation", f"{table.row_count} rows", str(error))
        return
    group_count = 0 if partial is None else partial.group_count
    if partial is None or group_count != table.row_count:
        if group_count != table.row_count:
            more = " or more" if group_count > table.row_count else ""
            yield Mismatch("rows", table.row_count, f"{group_count}{more} by recomputation")
        return
    for named, vector in zip(spec.grouping, partial.keys, strict=True):
        name = stored_column(named.expression).name
        row = _first_difference(base.segment.column(table.name, "grouping", name), vector, None)
        if row is not None:
            yield _difference(f"grouping column '{name}'", row)
    for index, primitive in enumerate(spec.primitives):
        columns = partial.state_columns(index)
        yield from _state_mismatches(base, table, spec, primitive, columns)


def _state_mismatches(
    base: PagedSource,
    table: TableEntry,
    spec: ProjectionSpec,
    primitive: Primitive,
    columns: Mapping[str, Vector],
) -> Iterator[Mismatch]:
    tolerances: Mapping[str, NDArray[np.float64]] | None = None
    for part, _ in primitive.fields:
        vector = columns[part]
        name = state_column_name(primitive.text, part)
        stored = base.segment.column(table.name, "state", name)
        row = _first_difference(stored, vector, None)
        if row is not None and primitive.kind.is_thinned and part == "sketch":
            row = _first_different_sketch(primitive, stored, columns)
        if row is not None and pa.types.is_floating(vector.type):
            if tolerances is None:
                tolerances = _tolerances(base, spec, primitive, columns, table.row_count)
            row = _first_difference(stored, vector, tolerances.get(part))
        if row is not None:
            yield _difference(f"state '{name}'", row)


def _first_different_sketch(
    primitive: Primitive, stored: Vector, columns: Mapping[str, Vector]
) -> tuple[int, str, str] | None:
    """Return (row, stored, recomputed) of the first sketch that differs by more than it may.

    Batches of rows are thinned one by one, so a recomputation makes other bytes.
    """
    sketches = {"sketch": stored, "nan_count": columns["nan_count"]}
    for row, gap, allowed in sketches_apart(primitive, len(stored), sketches, columns):
        return row, f"ranks that are {gap} off", f"at most {allowed} off"
    return None


def _difference(what: str, row: tuple[int, str, str]) -> Mismatch:
    index, stored, recomputed = row
    return Mismatch(f"{what}, row {index}", stored, f"{recomputed} by recomputation")


def _recomputed(
    base: PagedSource, spec: ProjectionSpec, primitives: Sequence[Primitive], groups_max: int
) -> Partial | None:
    """Return a projection's groups in order, None without rows; stop early at too many groups."""
    keys = [named.expression for named in spec.grouping]
    merged: Partial | None = None
    for batch in base.batches():
        rows = filter_rows(batch, spec.filter)
        if len(rows) == 0:
            continue
        partial = fold_base_rows(rows, keys, primitives)
        if merged is not None:
            partial = merge_partials([merged, partial], primitives, in_order=True)
        merged = partial
        if merged.group_count > groups_max:
            break
    return merged


def _tolerances(
    base: PagedSource,
    spec: ProjectionSpec,
    primitive: Primitive,
    columns: Mapping[str, Vector],
    groups_max: int,
) -> Mapping[str, NDArray[np.float64]]:
    """Return, for each group, how much the parts of its state may differ from a recomputation.

    Doubles added in another order differ by a share of the sum of their absolute values.
    """
    if primitive.kind.is_of_doubles:
        return _tolerances_of_moments(columns)
    if not primitive.kind.sums:
        return {}
    (argument,) = primitive.arguments
    sizes = replace(primitive, arguments=(Call(argument.type, "abs", (argument,)),))
    partial = _recomputed(base, spec, [sizes], groups_max)
    assert partial is not None, "the same rows have just been folded"
    ((part, total),) = partial.state_columns(0).items()
    return {part: np.nan_to_num(_TOLERANCE * _doubles(total))}


def _tolerances_of_moments(columns: Mapping[str, Vector]) -> dict[str, NDArray[np.float64]]:
    """Return tolerances from sqrt(n * (squares + n * mean**2)), a bound on the absolute sum.

    An error of a few roundings in the mean adds its square to the squares.
    """
    count, mean, squares = (_doubles(columns[part]) for part in ("count", "mean", "squares"))
    with np.errstate(all="ignore"):
        sizes = np.sqrt(count * (squares + count * mean**2))
        rounding = 16 * (_EPSILON * sizes) ** 2
        allowed = _TOLERANCE * squares + 2 * np.sqrt(squares * rounding) + rounding
        return {
            "mean": np.nan_to_num(_TOLERANCE * sizes / np.maximum(count, 1)),
            "squares": np.nan_to_num(allowed),
        }


def _doubles(vector: Vector) -> NDArray[np.float64]:
    return filled_values(vector.to_arrow(), 0).astype(np.float64)


def _first_difference(
    stored: Vector, recomputed: Vector, tolerance: NDArray[np.float64] | None
) -> tuple[int, str, str] | None:
    """Return (row, stored, recomputed) of the first row on which two columns differ."""
    for start in range(0, len(stored), PAGE_ROWS_MAX):
        end = min(start + PAGE_ROWS_MAX, len(stored))
        left, right = (vector.slice(start, end).to_arrow() for vector in (stored, recomputed))
        if left.equals(right):
            continue
        differs = _differences(left, right, None if tolerance is None else tolerance[start:end])
        if differs.any():
            row = int(differs.argmax())
            return start + row, str(left[row]), str(right[row])
    return None


def _differences(
    left: pa.Array, right: pa.Array, tolerance: NDArray[np.float64] | None
) -> NDArray[np.bool_]:
    if left.type != right.type:
        return np.ones(len(left), np.bool_)
    if pa.types.is_floating(left.type):
        known = [np.asarray(array.is_valid()) for array in (left, right)]
        values = [filled_values(array, 0.0).astype(np.float64) for array in (left, right)]
        allowed: Any = 0.0 if tolerance is None else tolerance
        with np.errstate(invalid="ignore"):
            is_near = np.abs(values[0] - values[1]) <= allowed
        same = is_near | (values[0] == values[1]) | (np.isnan(values[0]) & np.isnan(values[1]))
        differs: NDArray[np.bool_] = ~same | (known[0] != known[1])
        return differs
    if pa.types.is_list(left.type):  # sets, in no particular order
        return np.array([_as_set(a) != _as_set(b) for a, b in zip(left, right, strict=True)])
    pairs = zip(left, right, strict=True)
    return np.array([not a.equals(b) for a, b in pairs])


def _as_set(scalar: pa.Scalar) -> list[str] | None:
    """Return the values of a set as text, sorted: NaN is equal to itself, as 0.0 is to -0.0."""
    return None if not scalar.is_valid else sorted(str(value) for value in scalar.values)


def _sorted_rows_mismatches(
    base: PagedSource, table: TableEntry, spec: ProjectionSpec
) -> Iterator[Mismatch]:
    """Yield where a stored projection of rows is not in its order, or differs from base rows."""
    stored = _StoredRows(base.segment, table)
    yield from _order_mismatches(stored, spec)
    seen = 0
    try:
        for batch in base.batches():
            assert isinstance(batch.selection, RowRange)
            rows = filter_rows(batch, spec.filter)
            places, numbers = stored.places_of(batch.selection)
            seen += len(places)
            by_number = np.argsort(numbers, kind="stable")
            if not np.array_equal(numbers[by_number], row_numbers(rows)):
                where = f"base rows {batch.selection.start} to {batch.selection.end - 1}"
                yield Mismatch(f"{where} in the projection", len(rows), "others, or some twice")
                return
            for named in spec.grouping:
                name = stored_column(named.expression).name
                found = stored.values_at("grouping", name, places).take(by_number)
                row = _first_different_row(found, evaluate_over(named.expression, rows))
                if row is not None:
                    what = f"column '{name}', row {int(places[by_number[row[0]]])}"
                    yield Mismatch(what, row[1], f"{row[2]} in the base table")
                    return
    except (ProjsegError, ArithmeticError) as error:
        yield Mismatch("recomputation", f"{table.row_count} rows", str(error))
        return
    if seen != table.row_count:
        yield Mismatch("rows that are base rows", table.row_count, seen)


class _StoredRows:
    """A stored projection of rows, read some pages at a time."""

    def __init__(self, segment: SegmentFile, table: TableEntry) -> None:
        self._segment, self._table = segment, table
        self.row_count = table.row_count

    def places_of(self, base_rows: RowRange) -> tuple[_Places, _Places]:
        """Return the rows that are some base rows, ascending, and the numbers of these."""
        directory = self._segment.directory(self._table.name, "state", ROW_NUMBER)
        low, high = directory.records["minimum"], directory.records["maximum"]
        may_match = (high >= base_rows.start) & (low < base_rows.end)
        places, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for page in np.flatnonzero(may_match).tolist():
            vector = self._segment.column(self._table.name, "state", ROW_NUMBER, page, page + 1)
            assert isinstance(vector, Numbers), "proved when the file was opened"
            numbers = vector.wide()
            hits = np.flatnonzero((numbers >= base_rows.start) & (numbers < base_rows.end))
            places.append(hits + int(directory.row_starts[page]))
            found.append(numbers[hits])
        return np.concatenate(places), np.concatenate(found)

    def values_at(self, role: Role, name: str, places: _Places) -> Vector:
        """Return a column at some rows, ascending."""
        starts = self._segment.directory(self._table.name, role, name).row_starts
        pages = np.searchsorted(starts, places, side="right") - 1
        pieces = [
            self._segment.column(self._table.name, role, name, page, page + 1).take(
                places[pages == page] - int(starts[page])
            )
            for page in np.unique(pages).tolist()
        ]
        return (
            concat_vectors(pieces)
            if pieces
            else self._segment.column(self._table.name, role, name, 0, 0)
        )

    def sort_keys(self, role: Role, name: str, first: int, end: int) -> list[NDArray[Any]] | None:
        """Return the sort keys of the rows [first, end) of a column; None if it has no order."""
        vector = self.values_at(role, name, np.arange(first, end))
        return sort_keys(vector) if isinstance(vector, Ids | Numbers) else None


def _order_mismatches(stored: _StoredRows, spec: ProjectionSpec) -> Iterator[Mismatch]:
    keys: list[tuple[Role, str]] = [("grouping", name) for name in spec.stored_order]
    keys.append(("state", ROW_NUMBER))
    for start in range(0, stored.row_count, BATCH_ROWS):
        first, end = max(start - 1, 0), min(start + BATCH_ROWS, stored.row_count)
        columns: list[NDArray[Any]] = []
        for role, name in keys:
            values = stored.sort_keys(role, name, first, end)
            if values is None:
                yield Mismatch("sort order", spec.stored_order, f"'{name}' has no order")
                return
            columns += values
        descent = first_descent(columns)
        if descent is not None:
            what = f"rows sorted by {', '.join(spec.stored_order)}"
            yield Mismatch(what, "ascending", f"row {first + descent}")
            return


def _first_different_row(stored: Vector, wanted: Vector) -> tuple[int, str, str] | None:
    """Return (row, stored, wanted) of the first row on which two columns differ, to the bit."""
    for start in range(0, len(stored), PAGE_ROWS_MAX):
        end = min(start + PAGE_ROWS_MAX, len(stored))
        left, right = (_comparable(vector.slice(start, end)) for vector in (stored, wanted))
        if left.equals(right):
            continue
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            # A NaN within a nested value is not equal to itself.
            if not one.equals(other) and str(one) != str(other):
                return start + index, str(one), str(other)
    return None


def _comparable(vector: Vector) -> pa.Array:
    """Return a column as Arrow has it, floats as the integers of their bits."""
    array = vector.to_arrow()
    if not pa.types.is_floating(array.type):
        return array
    return array.view(pa.int64() if array.type == pa.float64() else pa.int32())

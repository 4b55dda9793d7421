"""Build one projection of a segment: fold its base rows and keep the states, or sort them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from projseg.aggregation.fold import fold_base_rows
from projseg.aggregation.partial import Partial
from projseg.aggregation.states.final_values import exact_to_arrow
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.projection.spec import ProjectionSpec
from projseg.algebra.projection.stored_names import state_column_name, stored_column
from projseg.errors import CorruptionError, ProjsegError, StorageError
from projseg.evaluation.arrow_vectors import grouping_vector
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import ColumnSource, all_rows
from projseg.segment_format.vectors.vectors import Numbers, Opaque, Vector
from projseg.writer.row_projection import sorted_rows


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
            columns[part].slice(0, group_count), primitive
        )
        for index, primitive in enumerate(spec.primitives)
        for columns in [partial.state_columns(index)]
        for part, _ in primitive.fields
    }
    return BuiltProjection(spec, group_count, grouping, states)


def _storable(vector: Vector, primitive: Primitive) -> Vector:
    """Return a state's column as it is stored.

    Text states (the smallest title) repeat, so they get a dictionary of their own. Sums in memory
    are exact at any size; a stored sum must fit the digits of its type.
    """
    if isinstance(vector, Opaque) and vector.type == "string":
        return grouping_vector(vector.array)
    if isinstance(vector, Numbers) and vector.values.dtype == object:
        exact_to_arrow(vector.wide(), vector.type, vector.validity, primitive.text)
    return vector

"""The facts about a segment in its manifest: enough to choose a source without opening the file."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from projseg.algebra.projection.spec import ProjectionSpec


class ColumnFacts(msgspec.Struct, frozen=True):
    """What is known of one column's values in a segment.

    Parameters
    ----------
    minimum, maximum : object
        Bounds of the values that are neither null nor NaN, as in `Literal`; None if there is no
        such value or no bound is known.
    null_count : int
        Number of rows that are null.
    has_nan : bool
        Whether some row is NaN.
    is_exact : bool
        Whether the bounds are values of the column; if not, all values lie between them.
    """

    minimum: object = None
    maximum: object = None
    null_count: int = 0
    has_nan: bool = False
    is_exact: bool = True


class ProjectionFacts(msgspec.Struct, frozen=True):
    """A projection that a segment holds.

    Parameters
    ----------
    spec : ProjectionSpec
        Its definition as stored; the table's current one of that name may differ.
    row_count : int
        Its rows.
    byte_count : int
        Its stored size in bytes, shared dictionaries not counted.
    column_bytes : mapping of str to int
        Stored bytes by column: grouping columns by name, states as `f"{primitive}.{part}"`. Empty
        if only the total is known.
    """

    spec: ProjectionSpec
    row_count: int
    byte_count: int
    column_bytes: Mapping[str, int] = msgspec.field(default_factory=dict)


class SegmentFacts(msgspec.Struct, frozen=True):
    """One segment as the planner sees it.

    Parameters
    ----------
    name : str
        The segment's name in messages.
    row_count : int
        Number of base rows.
    columns : mapping of str to ColumnFacts
        Facts of each column that the segment holds; other columns are read as null.
    column_bytes : mapping of str to int
        Stored bytes of base columns.
    time_minimum_us, time_maximum_us : int or None
        Smallest and largest time of the data, microseconds UTC, both inclusive and exact; None
        without a time column or without a value in it.
    projections : tuple of ProjectionFacts
        The projections that were built.
    not_built : mapping of str to str
        Why a projection could not be built, by its name.
    deleted_row_count : int
        Number of rows hidden by later deletes. Stored states and all other facts still count them.
    """

    name: str
    row_count: int
    columns: Mapping[str, ColumnFacts] = msgspec.field(default_factory=dict)
    column_bytes: Mapping[str, int] = msgspec.field(default_factory=dict)
    time_minimum_us: int | None = None
    time_maximum_us: int | None = None
    projections: tuple[ProjectionFacts, ...] = ()
    not_built: Mapping[str, str] = msgspec.field(default_factory=dict)
    deleted_row_count: int = 0

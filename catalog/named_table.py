"""`CatalogTable`: a table by the name that a catalog gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from projseg.algebra.query.declared_columns import DeclaredColumns
from projseg.catalog.named_declarations import NamedColumnEdits, NamedProjectionEdits
from projseg.catalog.named_rows import NamedRowEdits
from projseg.catalog.named_state import NamedState
from projseg.catalog.named_writes import given_options
from projseg.catalog.store.table_metadata import TableMetadata
from projseg.declarations import ProjectionLike
from projseg.input_rows import RowsLike
from projseg.table import Table
from projseg.table.writes import Commit, OnSegment

if TYPE_CHECKING:
    from projseg.algebra.expressions.sql_parameters import ArgumentsLike
    from projseg.algebra.query.request import IntervalLike
    from projseg.maintenance.row_changes.delete_and_update import Corrected


class CatalogTable(Table):
    """A table at one version, by the name that a catalog gives it; made by `Catalog.table`.

    It has all methods of `Table`. Queries and conditions see the declared columns; `append`,
    `overwrite`, `merge` and `update` write as the definition says, and changes of columns are made
    in the table and then in the definition.
    """

    _state: NamedState

    def __init__(self, state: NamedState) -> None:
        self._state = state

    @property
    def definition(self) -> TableMetadata:
        """The definition that this object goes by."""
        return self._state.definition

    @property
    def declared(self) -> DeclaredColumns:
        """The columns that the definition declares; a join reads them."""
        return self._state.declared

    @property
    def is_unwritten(self) -> bool:
        """Whether there is a definition and no table yet."""
        return self._state.is_unwritten

    def append(
        self,
        data: RowsLike,
        *,
        on_segment: OnSegment | None = None,
        commit_as: str | None = None,
        segment_granularity: str | None = None,
        cluster_by: Sequence[str] | None = None,
        target_segment_rows: int | None = None,
    ) -> Commit:
        """Add rows as new segments; the first rows make the table.

        Parameters
        ----------
        data, on_segment, commit_as
            As in `Table.append`; values are cast to the declared types as Spark's ANSI mode
            assigns them.
        segment_granularity, cluster_by, target_segment_rows
            Layout of the segments of this statement alone; None means the definition's, else the
            table's.
        """
        options = given_options(segment_granularity, cluster_by, target_segment_rows)
        return NamedRowEdits(self._state).append(
            data, options, on_segment=on_segment, commit_as=commit_as
        )

    def overwrite(
        self,
        data: RowsLike,
        interval: IntervalLike | None = None,
        *,
        filter: str | None = None,
        args: ArgumentsLike | None = None,
        timezone: str = "UTC",
        on_segment: OnSegment | None = None,
    ) -> Commit:
        """Replace all rows, or those of an interval or for which a condition is true.

        Parameters
        ----------
        data, interval, filter, args, timezone, on_segment
            As in `Table.overwrite`; values are cast as in `append`.
        """
        return NamedRowEdits(self._state).overwrite(
            data, interval, filter, args=args, timezone=timezone, on_segment=on_segment
        )

    def update(
        self,
        values: Mapping[str, str],
        filter: str | None = None,
        interval: IntervalLike | None = None,
        *,
        args: ArgumentsLike | None = None,
        timezone: str = "UTC",
        dry_run: bool = False,
    ) -> Corrected:
        """Set columns of the rows of an interval for which a condition is true, in one commit."""
        return NamedRowEdits(self._state).update(
            values, filter, interval, args, timezone, dry_run=dry_run
        )

    def merge(
        self,
        data: RowsLike,
        on: Sequence[str],
        when_matched: Literal["update", "delete", "ignore"] = "update",
        when_not_matched: Literal["insert", "ignore"] = "insert",
        *,
        dry_run: bool = False,
    ) -> Corrected:
        """Update or delete the rows whose keys are in `data`, and insert the others of `data`.

        Parameters
        ----------
        data, on, when_matched, when_not_matched, dry_run
            As in `Table.merge`; keys are columns that are stored in their declared type.
        """
        return NamedRowEdits(self._state).merge(
            data, on, when_matched, when_not_matched, dry_run=dry_run
        )

    def adopt(self, *, takes_over: bool = False) -> int:
        """Make the definition's columns and layout the table's, without rows.

        Parameters
        ----------
        takes_over : bool
            Whether it becomes the table's definition where another is.
        """
        return self._state.adopt(takes_over=takes_over)

    def add_column(self, name: str, type: str | pa.DataType) -> int:
        """Declare a column, which is null until it is written; returns the table's version."""
        return NamedColumnEdits(self._state).add(name, type)

    def rename_column(self, old: str, new: str) -> int:
        """Give a column another name in the table and in the definition."""
        return NamedColumnEdits(self._state).rename(old, new)

    def drop_column(self, name: str) -> int:
        """Take a column out of the table and out of the definition; its values are gone."""
        return NamedColumnEdits(self._state).drop(name)

    def widen_column(self, name: str, type: str | pa.DataType) -> int:
        """Give a column a wider type in the table, and declare it."""
        return NamedColumnEdits(self._state).widen(name, type)

    def add_projection(
        self,
        declaration: ProjectionLike,
        materialize: bool = False,
        build: str = "immediate",
        *,
        interval: IntervalLike | None = None,
        retain: str | None = None,
        max_row_ratio: float | None = None,
        max_bytes_ratio: float | None = None,
    ) -> int:
        """Declare a projection in the definition and in the table."""
        return NamedProjectionEdits(self._state).add(
            declaration,
            materialize=materialize,
            build=build,
            interval=interval,
            retain=retain,
            max_row_ratio=max_row_ratio,
            max_bytes_ratio=max_bytes_ratio,
        )

    def drop_projection(self, name: str) -> int:
        """Take a projection out of the definition and out of the table."""
        return NamedProjectionEdits(self._state).drop(name)

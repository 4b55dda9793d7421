"""`TableInspection`: what one version of a table says of itself."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from projseg.errors import without_secrets
from projseg.memory.forks import late_import
from projseg.table.table_state import TableState
from projseg.table.version_reader import VersionReader
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.metadata.table_properties import TableProperties
from projseg.table_layer.storage.storage_contract import Storage

if TYPE_CHECKING:
    from projseg.maintenance.findings import Finding
    from projseg.maintenance.verify import OnSegment


class TableInspection:
    """A table at one version, and its metadata.

    Parameters
    ----------
    state : TableState
        The version, and how it moves.
    """

    def __init__(self, state: TableState) -> None:
        self._state = state

    def __copy__(self) -> Self:
        return self._with_state(copy(self._state))

    def _with_state(self, state: TableState) -> Self:
        found = object.__new__(type(self))
        found.__dict__.update(self.__dict__, _state=state)
        return found

    @property
    def _snapshot(self) -> Snapshot:
        return self._state.reader.snapshot

    @_snapshot.setter
    def _snapshot(self, snapshot: Snapshot) -> None:
        self._state.move_to(snapshot)

    @property
    def _storage(self) -> Storage:
        return self._state.storage

    def __repr__(self) -> str:
        segments, rows = len(self._snapshot.segments), self._snapshot.row_count
        where = f"{without_secrets(self.location)} at version {self.version}"
        return f"<Table {where}: {rows:,} rows in {segments:,} segments>"

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it."""
        # Imported here, so that a process that only asks starts without it.
        from projseg.explain import html_block, html_fields, shown_names
        from projseg.segment_format.logical_types import type_name

        location = without_secrets(self.location)
        name = location.rstrip("/").rpartition("/")[2]
        columns = [f"{field.name} {type_name(field.type)}" for field in self.schema]
        return html_block(
            name or location,
            html_fields(
                [
                    ("location", location),
                    ("version", f"{self.version:,}"),
                    ("rows", f"{self._snapshot.row_count:,}"),
                    ("segments", f"{len(self._snapshot.segments):,}"),
                    ("columns", shown_names(columns)),
                    ("projections", shown_names([p.name for p in self.properties.projections])),
                ]
            ),
        )

    @property
    def location(self) -> str:
        """Where the table is: an absolute path."""
        return self._storage.location

    @property
    def schema(self) -> pa.Schema:
        """The columns, in projseg's types."""
        return self._state.reader.schema

    @property
    def version(self) -> int:
        """The version this object reads; the first is 0."""
        return self._snapshot.version

    @property
    def properties(self) -> TableProperties:
        """The declarations made at creation, and the projections that are declared now."""
        return self._snapshot.properties

    @property
    def snapshot(self) -> Snapshot:
        """The version's metadata as the engine holds it; later releases may change it."""
        return self._snapshot

    def _metadata(self, name: str) -> pa.Table:
        """Return the rows of a metadata table."""
        # Imported here, so that a process that only asks starts without it.
        from projseg.table_layer.metadata_tables import METADATA_TABLES

        return METADATA_TABLES[name].rows(self._snapshot)

    def history(self) -> pa.Table:
        """Return the versions that are kept, newest first.

        Returns
        -------
        pa.Table
            version, timestamp (of the commit), userName, operation, operationParameters,
            operationMetrics, engineInfo, userMetadata, readVersion, isBlindAppend, metrics (as
            numbers), write_id, rows, bytes (of all segments). Null is what was not said.

        Raises
        ------
        StorageError, CorruptTableError
            If a version cannot be read.
        """
        return self._metadata("history")

    def detail(self) -> dict[str, Any]:
        """Return the table's declaration and its totals.

        Returns
        -------
        dict
            location, table_id, version, columns (name to type), time_column, segment_granularity,
            cluster_by, target_segment_rows, projections (names), properties, segments (count),
            rows, bytes, dead_bytes (of deleted rows, dropped columns and dropped projections in
            these segments, without the dictionaries that only they use), still_stored (as of
            `Vacuumed`: which of this version and the 100 before it, and which tags, store removed
            values). Of a table over files of others also source, source_version, source_files,
            source_files_without_companion, left_out (columns, and why).
        """
        # Imported here, so that a process that only asks starts without it.
        from projseg.table_layer.metadata_tables import detail

        return detail(self._snapshot)

    def segments(self) -> pa.Table:
        """Return one row per segment, ordered by time.

        Returns
        -------
        pa.Table
            segment (its file), interval_start, interval_end, min_time, max_time, rows, bytes,
            projections (names), not_built (reason by name), deleted_rows (hidden; not in rows).
        """
        return self._metadata("segments")

    def projections(self) -> pa.Table:
        """Return one row per declared projection.

        Returns
        -------
        pa.Table
            name, group_by, aggregators, filter, definition_hash, segments (that hold it),
            segments_missing (that do not), rows, bytes.
        """
        return self._metadata("projections")

    def projection_stats(self) -> pa.Table:
        """Return one row per declared projection: where it is built, and where not and why.

        Returns
        -------
        pa.Table
            projection, definition_hash, build (`immediate` or `deferred`); segments by what became
            of it in them: built, missing, skipped (by its scope) and failed; rows and bytes;
            base_rows (of the segments that hold it) and base_share (of all rows); coverage (a list
            of start and end: the time chunks all of whose segments hold it); reasons (of those that
            were skipped or failed, each once).
        """
        return self._metadata("projectionStats")

    def columns(self) -> pa.Table:
        """Return one row per column, with its totals over all segments.

        Returns
        -------
        pa.Table
            column, type, bytes, null_count, segments (that have it).
        """
        return self._metadata("columns")

    def views(self) -> pa.Table:
        """Return one row for each view of the table, as this object knows them.

        Returns
        -------
        pa.Table
            name, grade, status (`ENABLED`, `DISABLED`), state (`empty`, `fresh`, `behind`,
            `failed`, `broken`), segments (that this version lists), segments_covered,
            rows_covered (the share of its rows), parts, rows (groups), bytes, chunk, refresh,
            refreshed_at, version (of the table, at the last refresh), last_refresh, last_error,
            comment, definition. A view that cannot be read has its error in `last_error`.

        Raises
        ------
        StorageError, CorruptTableError
            If the store of views cannot be read.
        """
        with late_import:
            from projseg.views.view_tables import views_table

        return views_table(self._snapshot, self._state.reader.view_store())

    def verify(
        self,
        deep: bool = False,
        *,
        all_versions: bool = False,
        on_segment: OnSegment | None = None,
    ) -> list[Finding]:
        """Check every file of this version, and its views, read anew, past every cache.

        Parameters
        ----------
        deep : bool
            Also compare what the table says of columns, times and order with the rows, and every
            projection and every part of a view with its recomputation from them.
        all_versions : bool
            Check the newest version and every earlier one that retention or a tag keeps; files
            that they share are read once.
        on_segment : callable, optional
            Called with each segment that was checked.

        Returns
        -------
        list of Finding
            One for each fault found; empty if there is none.
        """
        # Imported here, so that a process that only asks starts without it.
        from projseg.maintenance.verify import verify_kept_versions, verify_table

        verify = verify_kept_versions if all_versions else verify_table
        snapshot = open_snapshot(self._storage) if all_versions else self._snapshot.stored
        found = verify(self._storage, snapshot, deep=deep, on_segment=on_segment)
        return [*found, *self._state.reader.findings_of_views(deep=deep)]


def state_of(table: TableInspection) -> TableState:
    """Return the version that a table object holds, and how it moves on."""
    return table._state  # noqa: SLF001 - of this module's class


def reader_of(table: TableInspection) -> VersionReader:
    """Return the version that a table object holds, to be read."""
    return state_of(table).reader

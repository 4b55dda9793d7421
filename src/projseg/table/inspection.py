"""`Inspection`: what one version of a table says of itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import UNSET

from projseg.errors import without_secrets
from projseg.memory.forks import late_import
from projseg.table.table_state import TableState
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.metadata_tables import METADATA_TABLES, detail, tags

if TYPE_CHECKING:
    from projseg.maintenance.findings import Finding
    from projseg.maintenance.verify import OnSegment


@dataclass(frozen=True, slots=True)
class AttachedSource:
    """The source of a foreign table: existing files that the table never writes.

    Parameters
    ----------
    kind : str
        `parquet`, `delta` or `iceberg`.
    location : str
        The pattern of its files, the folder of its log, or its name in a catalog.
    version : str or None
        The source's version, where it has versions.
    files : int
        How many files of the source this version of the table covers.
    files_without_companion : int
        How many of these files have no companion yet; `sync` makes their companions.
    """

    kind: str
    location: str
    version: str | None
    files: int
    files_without_companion: int


class Inspection:
    """The version that a table's state reads, to be looked at."""

    def __init__(self, state: TableState) -> None:
        self._state, self._snapshot = state, state.snapshot

    def rows(self, name: str) -> pa.Table:
        """Return the rows of a metadata table."""
        return METADATA_TABLES[name].rows(self._snapshot)

    def detail(self) -> dict[str, Any]:
        """Return the table's declaration and its totals."""
        return detail(self._snapshot)

    def tags(self) -> pa.Table:
        """Return the table's tags, as the newest version has them."""
        return tags(open_snapshot(self._state.storage))

    def source(self) -> AttachedSource | None:
        """Return the source of a foreign table; None if the table's rows are its own."""
        source = self._state.properties.source
        if source is UNSET:
            return None
        files, uncovered = _paths(self._snapshot.segments)
        listed = getattr(self._snapshot, "listed", None)
        version = source.version if listed is None else listed.version
        return AttachedSource(source.kind, source.location, version, len(files), len(uncovered))

    def views(self) -> pa.Table:
        """Return one row for each view of the table."""
        with late_import:
            from projseg.views.view_tables import views_table

        return views_table(self._snapshot, self._state.reader.view_store())

    def findings(
        self, *, deep: bool, all_versions: bool, on_segment: OnSegment | None
    ) -> list[Finding]:
        """Check every file of this version, or of all that are kept, and its views."""
        from projseg.maintenance.verify import verify_kept_versions, verify_table

        verify = verify_kept_versions if all_versions else verify_table
        storage = self._state.storage
        snapshot = open_snapshot(storage) if all_versions else self._snapshot.stored
        found = verify(storage, snapshot, deep=deep, on_segment=on_segment)
        return [*found, *self._state.reader.findings_of_views(deep=deep)]

    def html(self) -> str:
        """Return the table as a notebook shows it."""
        from projseg.explain import html_block, html_fields, shown_names
        from projseg.segment_format.logical_types import type_name

        snapshot = self._snapshot
        location = without_secrets(self._state.storage.location)
        name = location.rstrip("/").rpartition("/")[2]
        columns = [f"{field.name} {type_name(field.type)}" for field in self._state.reader.schema]
        projections = [one.name for one in snapshot.properties.projections]
        return html_block(
            name or location,
            html_fields(
                [
                    ("location", location),
                    ("version", f"{snapshot.version:,}"),
                    ("rows", f"{snapshot.row_count:,}"),
                    ("segments", f"{len(snapshot.segments):,}"),
                    ("columns", shown_names(columns)),
                    ("projections", shown_names(projections)),
                ]
            ),
        )


def _paths(entries: Iterable[SegmentEntry]) -> tuple[set[str], set[str]]:
    """Return the source's files of some entries, and those of them without a companion."""
    found: tuple[set[str], set[str]] = (set(), set())
    for entry in entries:
        if entry.foreign is not None:
            found[0].add(entry.foreign.path)
            if not entry.has_file and entry.row_count:
                found[1].add(entry.foreign.path)
    return found

"""The view of a table: its facts, what is wrong with it and how to mend that, and the timeline."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
import numpy as np
from msgspec import UNSET

from projseg.algebra.time.interval import micros_to_iso
from projseg.errors import ProjsegError, without_secrets
from projseg.memory.deadline import check_deadline
from projseg.page.timeline import SegmentTime, Timeline, open_window, snapped, timeline
from projseg.segment_format.indexes.bloom_file import BUILT
from projseg.table.table_version import TableVersion, reader_of
from projseg.table_layer.coverage import (
    CoverageState,
    coverage,
    projection_state,
    state_of_reason,
)
from projseg.table_layer.metadata.change import now_us
from projseg.table_layer.metadata.known_properties import scope_of
from projseg.table_layer.metadata.manifest import NO_TIME_MIN, ManifestReference
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata_tables import METADATA_TABLES, segment_label, source_facts

if TYPE_CHECKING:
    from projseg.views.view_store import StoreVersion

DECODED_MAX: Final = 5000
"""So many segments are looked at one by one; of more, manifests are."""
LISTED_MAX: Final = 50_000
"""So many segments' times are read to see which lie in a window, and which a view lacks."""
_SMALL_SHARE: Final = 0.25  # of the rows of a full segment
_SMALL_SEGMENTS: Final = 8
_DEAD_SHARE: Final = 0.1
_OLD_VERSIONS: Final = 1000
_LOOK_EVERY: Final = 256  # segments between looks at the clock

LaneKind = Literal["projection", "index", "view"]
LANE_KINDS: Final[tuple[LaneKind, ...]] = ("projection", "index", "view")


class TableWarning(msgspec.Struct):
    """Something to mend, and the command that does; where the page can, its change, too."""

    text: str
    command: str
    change: str | None = None
    what: str = ""


class PartSize(msgspec.Struct):
    """The bytes of a part of the table, and their share of the largest part's."""

    name: str
    kind: str
    bytes: int
    share: float


class TableRecord(msgspec.Struct):
    """What a table is, at one version; `last_time` is that of the last row.

    `source` is what `Table.detail` says of the source of a foreign table.
    """

    name: str
    location: str
    version: int
    committed: str
    operation: str
    columns: int
    time_column: str | None
    segment_granularity: str
    cluster_by: list[str]
    rows: int
    first_time: str | None
    last_time: str | None
    segments: int
    bytes: int
    deleted_rows: int | None
    tags: dict[str, int]
    warnings: list[TableWarning]
    sizes: list[PartSize]
    timeline: Timeline
    source: dict[str, Any] | None = None


def table_record(
    name: str, version: TableVersion, start: str | None, end: str | None
) -> TableRecord:
    """Return the facts of a table at a version, its timeline in a window, None for all times.

    Raises InvalidInputError (PROJSEG_BAD_INTERVAL).
    """
    snapshot, properties = version.snapshot, version.properties
    times = all_times(snapshot)
    is_small = len(snapshot.segments) <= DECODED_MAX
    entries = list(snapshot.segments) if is_small else []
    return TableRecord(
        name=name,
        location=without_secrets(version.location),
        version=version.version,
        committed=micros_to_iso(snapshot.timestamp_us),
        operation=snapshot.operation,
        columns=len(version.schema),
        time_column=reader_of(version).time_column,
        segment_granularity=properties.segment_granularity,
        cluster_by=list(properties.cluster_by),
        rows=snapshot.row_count,
        first_time=None if times is None else micros_to_iso(times[0]),
        last_time=None if times is None else micros_to_iso(times[1] - 1),
        segments=len(snapshot.segments),
        bytes=snapshot.data_bytes,
        deleted_rows=sum(one.deleted_row_count for one in entries) if is_small else None,
        tags=dict(snapshot.tags),
        warnings=list(table_warnings(version, entries)),
        sizes=_sizes(version, entries),
        timeline=table_timeline(version, start, end),
        source=source_of(version),
    )


def source_of(version: TableVersion) -> dict[str, Any] | None:
    """Return the source in `Table.detail` of a foreign table; None for other tables.

    Of too many files there are no counts.
    """
    snapshot, source = version.snapshot, version.properties.source
    if source is UNSET:
        return None
    if len(snapshot.segments) > DECODED_MAX:
        return {
            "source": f"{source.kind}:{source.location}",
            "source_version": source.version,
            "left_out": dict(source.left_out),
        }
    return source_facts(snapshot, source)


def table_timeline(version: TableVersion, start: str | None, end: str | None) -> Timeline:
    """Return the timeline of a version, exact where its window has few enough segments."""
    snapshot, window = version.snapshot, None
    if (asked := open_window(start, end)) is not None:
        first, last = all_times(snapshot) or (asked.start_us, asked.end_us)
        low = asked.start_us if start else min(first, asked.end_us - 1)
        high = asked.end_us if end else max(last, asked.start_us + 1)
        window = snapped(low, high)
    lanes = list(_lanes(version))
    entries = _entries_within(snapshot, window)
    is_listed = entries is not None and len(snapshot.segments) <= LISTED_MAX
    known = LANE_KINDS if is_listed else LANE_KINDS[:1]
    shown = [lane for lane in lanes if lane[1] in known]
    if entries is None:
        references = [one for one in snapshot.file.manifests if _overlaps(one, window)]
        times = [_of_manifest(version, one) for one in references]
    else:
        times = list(_of_entries(version, entries, known))
    found = timeline(times, shown, window, is_exact=entries is not None)
    found.left_out = [f"{kind} {name}" for name, kind in lanes if kind not in known]
    return found


def _entries_within(
    snapshot: Snapshot, window: tuple[int, int] | None
) -> list[SegmentEntry] | None:
    """Return the segments of a window; None if there are too many to be decoded.

    Only where a window was asked for are manifests read to see whether that is so.
    """
    references = [one for one in snapshot.file.manifests if _overlaps(one, window)]
    count = sum(one.segment_count for one in references)
    if count > (DECODED_MAX if window is None else LISTED_MAX):
        return None
    found = []
    for manifest in snapshot.load_all(references):
        places = list(range(len(manifest)))
        if window is not None:
            timeless = np.flatnonzero(manifest.min_times == NO_TIME_MIN)
            places = [*timeless.tolist(), *manifest.overlapping(*window).tolist()]
        found += [(manifest, place) for place in places]
        if len(found) > DECODED_MAX:
            return None
    return [manifest.entry(place) for manifest, place in found]


def decoded(segments: Iterable[SegmentEntry]) -> list[SegmentEntry]:
    """Return segments, as long as a view may take for that."""
    found = []
    for place, entry in enumerate(segments):
        if place % _LOOK_EVERY == 0:
            check_deadline()
        found.append(entry)
    return found


def all_times(snapshot: Snapshot) -> tuple[int, int] | None:
    """Return the first and the last time of a version, the end excluded; None if there is none."""
    timed = [one for one in snapshot.file.manifests if one.min_time_us <= one.max_time_us]
    if not timed:
        return None
    return min(one.min_time_us for one in timed), max(one.max_time_us for one in timed) + 1


def _overlaps(one: ManifestReference, window: tuple[int, int] | None) -> bool:
    return (
        window is None
        or one.min_time_us == NO_TIME_MIN
        or (one.min_time_us < window[1] and one.max_time_us >= window[0])
    )


def _lanes(version: TableVersion) -> Iterator[tuple[str, LaneKind]]:
    properties = version.properties
    for projection in properties.projections:
        yield projection.name, "projection"
    for index in properties.declared_indexes:
        yield index.name, "index"
    store = store_of_views(version)
    for view in () if store is None else store.views.values():
        yield view.name, "view"


def store_of_views(version: TableVersion) -> StoreVersion | None:
    """Return the store of views; None where there is none that can be read."""
    try:
        return reader_of(version).view_store()
    except (ProjsegError, OSError):
        return None


def _of_manifest(version: TableVersion, one: ManifestReference) -> SegmentTime:
    has_time = one.min_time_us <= one.max_time_us
    known = set(one.definition_hashes)
    return SegmentTime(
        None,
        one.min_time_us if has_time else None,
        one.max_time_us + 1 if has_time else None,
        one.row_count,
        None,
        one.segment_count,
        {
            f"projection:{declared.name}": "built"
            for declared in version.properties.projections
            if declared.definition_hash in known
        },
    )


def _of_entries(
    version: TableVersion, entries: Sequence[SegmentEntry], kinds: Container[str]
) -> Iterator[SegmentTime]:
    """Yield the segments as the timeline takes them, for lanes of some kinds."""
    properties, now = version.properties, now_us()
    scopes = {one.name: scope_of(properties.properties, one.name) for one in properties.projections}
    by_index = _index_states(version) if "index" in kinds else {}
    uncovered = _uncovered_by_view(version) if "view" in kinds else {}
    for entry in entries:
        states: dict[str, CoverageState] = {
            f"projection:{one.name}": projection_state(
                entry, one.definition_hash, scopes[one.name], now
            )[0]
            for one in properties.projections
        }
        for index, statuses in by_index.items():
            found = [_state_of_filter(status.get(entry.file)) for status in statuses]
            states[f"index:{index}"] = next((s for s in found if s != "built"), "built")
        for view, missing in uncovered.items():
            states[f"view:{view}"] = "missing" if entry.file in missing else "built"
        time = (entry.min_time_us, entry.max_time_us)
        yield SegmentTime(
            segment_label(entry),
            time[0],
            None if time[1] is None else time[1] + 1,
            entry.live_row_count,
            entry.deleted_row_count,
            1,
            states,
        )


def _state_of_filter(status: str | None) -> CoverageState:
    return "built" if status == BUILT else state_of_reason(status)


def _index_states(version: TableVersion) -> Mapping[str, list[dict[str, str]]]:
    """Return the states of each index's columns, by segment."""
    snapshot = version.snapshot
    return {
        index.name: [coverage(snapshot, definition).statuses for definition in index.columns]
        for index in snapshot.properties.declared_indexes
    }


def _uncovered_by_view(version: TableVersion) -> Mapping[str, set[str]]:
    """Return the segments that no valid part of a view stands for."""
    store = store_of_views(version)
    if store is None:
        return {}
    # Imported here: most tables have no views.
    from projseg.views.cover_test import coverage as coverage_of_view

    found = {}
    for view in store.views.values():
        try:
            lacking = {
                one.file for one in coverage_of_view(version.snapshot, store, view).uncovered
            }
        except (ProjsegError, OSError):
            lacking = {one.file for one in version.snapshot.segments}
        found[view.name] = lacking
    return found


def _sizes(version: TableVersion, entries: Iterable[SegmentEntry]) -> list[PartSize]:
    """Return the bytes of the base table and of each projection, index and view."""
    found: dict[tuple[str, str], int] = {("base rows", "base"): version.snapshot.data_bytes}
    for declared in version.properties.projections:
        found[declared.name, "projection"] = 0
    names = {one.definition_hash: one.name for one in version.properties.projections}
    for entry in entries:
        for stored in entry.projections:
            name = names.get(stored.definition_hash, f"{stored.name} (dropped)")
            key = (name, "projection")
            found[key] = found.get(key, 0) + stored.byte_count
            found["base rows", "base"] -= stored.byte_count
        if entry.deletion_vector is not None:
            key = ("deletion vectors", "deleted")
            found[key] = found.get(key, 0) + entry.deletion_vector.byte_count
    for reference in version.snapshot.bloom_files:
        key = ("indexes", "index")
        found[key] = found.get(key, 0) + reference.byte_count
    store = store_of_views(version)
    for view in () if store is None else store.views.values():
        found[view.name, "view"] = view.byte_count
    most = max([1, *found.values()])
    return [PartSize(name, kind, size, size / most) for (name, kind), size in found.items()]


def table_warnings(version: TableVersion, entries: list[SegmentEntry]) -> Iterator[TableWarning]:
    """Yield faults, and how to mend them."""
    place = shlex.quote(without_secrets(version.location))
    kept = version.version - version.snapshot.kept_from
    if kept >= _OLD_VERSIONS:
        yield TableWarning(f"{kept:,} versions are kept", f"projseg vacuum {place}")
    if entries:
        yield from _of_segments(version, entries, place)
        yield from _of_projections(version, place)
        yield from _of_indexes_and_views(version, place)


def _of_segments(
    version: TableVersion, entries: list[SegmentEntry], place: str
) -> Iterator[TableWarning]:
    most = version.properties.target_segment_rows * _SMALL_SHARE
    chunks = Counter(entry.interval for entry in entries if entry.row_count < most)
    small = sum(count for count in chunks.values() if count >= _SMALL_SEGMENTS)
    if small:
        text = f"{small:,} small segments share time chunks with others"
        yield TableWarning(text, f"projseg compact {place}", "compact")
    deleted = sum(entry.deleted_row_count for entry in entries)
    if deleted > _DEAD_SHARE * sum(entry.row_count for entry in entries):
        text = f"{deleted:,} deleted rows are stored"
        yield TableWarning(text, f"projseg compact {place} --purge")


def _of_projections(version: TableVersion, place: str) -> Iterator[TableWarning]:
    for row in version.projection_stats().to_pylist():
        name = row["projection"]
        command = f"projseg materialize-projection {place} {shlex.quote(name)}"
        if row["missing"] and row["build"] == "immediate":
            text = f"projection {name} is not built in {row['missing']:,} segments"
            yield TableWarning(text, command, "materialize-projection", name)
        if row["failed"]:
            reasons = "; ".join(row["reasons"][:3])
            text = f"projection {name} failed in {row['failed']:,} segments: {reasons}"
            yield TableWarning(text, command, "materialize-projection", name)


def _of_indexes_and_views(version: TableVersion, place: str) -> Iterator[TableWarning]:
    rows = sorted(
        METADATA_TABLES["indexes"].rows(version.snapshot).to_pylist(),
        key=lambda row: -row["covered"],
    )
    # Of an index over several columns, the one that covers least.
    for name, row in {row["name"]: row for row in rows}.items():
        if row["covered"] < row["segments"]:
            text = f"index {name} covers {row['covered']:,} of {row['segments']:,} segments"
            command = f"projseg materialize-index {place} {shlex.quote(name)}"
            yield TableWarning(text, command, "materialize-index", name)
    for view, lacking in _uncovered_by_view(version).items():
        if lacking:
            text = f"view {view} is behind by {len(lacking):,} segments"
            command = f"projseg refresh-view {place} {shlex.quote(view)}"
            yield TableWarning(text, command, "refresh-view", view)

"""Embed declared projections in segments that lack them: base bytes are copied, not encoded again.

A segment's file is written anew, with the projections that the table declares and no other. Its
base table, dictionaries and the projections that stay are copied part by part, each part's checksum
being proved; a segment with deleted rows or dropped columns is written without them, as by a
compaction. A projection that cannot be built is recorded with its reason, and tried again the next
time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from projseg.algebra.projection.spec import ProjectionSpec, from_definition
from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError, did_you_mean
from projseg.maintenance.merged_segment import Merging
from projseg.maintenance.replace_segments import NOBODY, Replacement, Watchers
from projseg.maintenance.rewrite_tasks import NewFile, Target, TaskRunner, ThreadRunner
from projseg.maintenance.uncached_segment import (
    UncachedColumns,
    build_from_segment,
    column_keys,
    stored_filter,
)
from projseg.reader.plan.version_facts import VersionFacts
from projseg.segment_format.file.postings import BuiltPostings
from projseg.segment_format.file.segment_file import SegmentFile
from projseg.segment_format.footer import BASE_TABLE, PostingsEntry
from projseg.table_layer.commits.footer_match import open_checked
from projseg.table_layer.coverage import postings_lacking
from projseg.table_layer.metadata.change import NO_NOTE, CommitNote, now_us
from projseg.table_layer.metadata.segment_entry import SegmentEntry, StoredProjection
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import TableSchema, stored_schema
from projseg.table_layer.still_stored import LiveParts
from projseg.writer.segment_contents import BuiltProjection, NotBuilt, SegmentContents
from projseg.writer.segment_filters import FilterWriter, SegmentKeys, put_postings
from projseg.writer.segment_writer import (
    add_projections,
    new_segment,
    not_built,
    stored_projections,
)

IN_THREADS: Final = ThreadRunner(min(2, os.cpu_count() or 1))
"""How projections are built without a cluster."""


class Materialization(msgspec.Struct, frozen=True, tag="materialize"):
    """Which projections, None for all, are built in which segments.

    Segments have times in `interval`, [start, end) in microseconds UTC; retentions are counted from
    `now_us`. With `postings`, hashes of definitions, postings of indexes are built and no
    projection.
    """

    name: str | None = None
    interval: tuple[int, int] | None = None
    now_us: int = msgspec.field(default_factory=now_us)
    postings: tuple[str, ...] = ()

    def plan(self, target: Target) -> list[_Embedding | Merging]:
        """Return the tasks for the segments that lack a projection, or postings."""
        entries, live = segments_in(target.snapshot, self.interval), LiveParts.of(target.snapshot)
        if self.postings:
            entries = postings_lacking(target.snapshot, self.postings, entries, self.now_us)
        found = (_embedding(target, entry, self) for entry in entries)
        return [_without_removed_values(one, live) for one in found if one.missing or one.postings]

    def task(self, target: Target, replaced: tuple[SegmentEntry, ...]) -> _Embedding | Merging:
        """Return the task that writes a segment again."""
        (entry,) = replaced
        task = _embedding(target, entry, self)
        return _without_removed_values(task, LiveParts.of(target.snapshot))


def materialize(
    base: Snapshot,
    materialization: Materialization,
    *,
    runner: TaskRunner | None = None,
    watchers: Watchers = NOBODY,
    note: CommitNote = NO_NOTE,
) -> tuple[Snapshot, tuple[SegmentEntry, ...]]:
    """Build declared projections in the segments that lack them, in one commit.

    Return the newest version and the new segments, none if there was nothing to do.
    """
    name, interval = materialization.name, materialization.interval
    require_declared(base, name)
    return Replacement(
        base,
        materialization,
        "materialize projection",
        runner or IN_THREADS,
        watchers,
        note.asking(
            projection=name, interval=None if interval is None else str(Interval(*interval))
        ),
    ).run()


def require_declared(snapshot: Snapshot, name: str | None) -> None:
    """Refuse the name of a projection that is not declared; None is none."""
    known = [declared.name for declared in snapshot.properties.projections]
    if name is not None and name not in known:
        raise InvalidInputError(
            "PROJSEG_UNKNOWN_PROJECTION",
            f"projection '{name}' is not declared on {snapshot.storage.location}"
            f"{did_you_mean(name, known)}; declare it with add_projection",
        )


def segments_in(snapshot: Snapshot, interval: tuple[int, int] | None) -> Sequence[SegmentEntry]:
    """Return the listed segments, or those with times in `[start, end)`, microseconds UTC."""
    if interval is None:
        return snapshot.segments
    if snapshot.properties.time_column is None:
        raise InvalidInputError(
            "PROJSEG_NO_TIME_COLUMN",
            f"table {snapshot.storage.location} has no timeColumn, so it has no segments of an "
            "interval; leave the interval out",
        )
    return snapshot.segments_between(*interval)


def _without_removed_values(task: _Embedding, live: LiveParts) -> _Embedding | Merging:
    """Return how a segment is written again: what is copied whole holds no removed value."""
    dead = live.dead(task.entry)
    if dead.columns or dead.deleted_rows:
        return Merging(task.target, (task.entry,))
    return task


def _embedding(target: Target, entry: SegmentEntry, wanted: Materialization) -> _Embedding:
    """Return the embedding for a segment's new file."""
    name, now = wanted.name, wanted.now_us
    by_hash = {stored.definition_hash: stored for stored in entry.projections}
    by_name = {(stored.name, stored.definition_hash): stored for stored in entry.projections}
    reasons = {digest: reason for _, digest, reason in entry.not_built}
    layout = target.layout
    kept, missing, recorded = [], [], []
    held = set[str]()
    for spec in layout.specs:
        scope, reason = layout.scopes[spec.name], reasons.get(spec.definition_hash)
        stored = by_name.get((spec.name, spec.definition_hash)) or by_hash.get(spec.definition_hash)
        if spec.definition_hash in held:
            continue  # one stored form serves all names of a definition
        if stored is not None:
            held.add(spec.definition_hash)
            kept.append((stored, spec))
        elif (
            not wanted.postings
            and name in (None, spec.name)
            and scope.reason_against(entry.min_time_us, entry.max_time_us, now) is None
            and not (reason is not None and scope.is_settled(reason))
        ):
            held.add(spec.definition_hash)
            missing.append(spec)
        elif reason is not None:
            recorded.append(NotBuilt(spec, reason))
    return _Embedding(target, entry, tuple(kept), tuple(missing), tuple(recorded), wanted.postings)


@dataclass(frozen=True, slots=True)
class _Embedding:
    """Write a segment again, with more projections: those kept are copied, those missing are built.

    Projections in `recorded` are left out, for the reason in the record. Without the `postings` of
    these definitions, by hash, the file is not worth writing.
    """

    target: Target
    entry: SegmentEntry
    kept: tuple[tuple[StoredProjection, ProjectionSpec], ...]
    missing: tuple[ProjectionSpec, ...]
    recorded: tuple[NotBuilt, ...]
    postings: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        """The segment's file, and the definitions of what its new file holds."""
        specs = [spec for _, spec in self.kept] + list(self.missing)
        filters = ((one.column, one.definition) for one in self.target.layout.filters)
        return (
            self.entry.file,
            *self.postings,
            *filters,
            *((spec.name, spec.definition_hash) for spec in specs),
        )

    @property
    def replaced(self) -> tuple[SegmentEntry, ...]:
        """The segment."""
        return (self.entry,)

    def write(self, file: NewFile, pool: Executor) -> tuple[SegmentEntry, ...]:
        """Build what is missing and write the file; none if nothing can be built, as before."""
        snapshot = self.target.snapshot
        schema = stored_schema(snapshot.properties)
        segment = open_checked(snapshot.storage, self.entry, schema)
        base = UncachedColumns(segment, BASE_TABLE, schema)
        facts = VersionFacts(snapshot, as_stored=True).of(self.entry)
        results = list(pool.map(lambda spec: build_from_segment(base, spec, facts), self.missing))
        is_built = any(isinstance(result, BuiltProjection) for result in results)
        indexed = self._indexed(segment, schema)
        if self.postings:
            is_built = any(
                isinstance(one.postings, BuiltPostings) and one.wanted.digest in self.postings
                for one in indexed
            )
            if not is_built:
                return ()
        if not is_built and set(not_built([*results, *self.recorded])) == set(self.entry.not_built):
            return ()
        copies = [(stored.name, _stored_as(base, stored, spec)) for stored, spec in self.kept]
        with new_segment(snapshot.storage, file.name, segment.schema) as encoder:
            contents = SegmentContents(encoder)
            contents.copy_tables(segment, [(BASE_TABLE, None), *copies])
            found = add_projections(
                contents, encoder, results, self.target.layout, self.entry.row_count
            )
            for settled in self.recorded:
                contents.add_not_built(settled)
            for stored in self._kept_postings(segment):
                encoder.copy_postings(segment, stored)
            postings = put_postings(encoder, indexed)
            summary = encoder.finish()
        copied = tuple(replace(stored, name=spec.name) for stored, spec in self.kept)
        entry = replace(
            self.entry,
            file=file.name,
            write_id=file.write_id,
            byte_count=summary.byte_count,
            footer_checksum=summary.footer_checksum,
            projections=(*copied, *stored_projections(found, summary)),
            not_built=not_built([*found, *self.recorded]),
        )
        filters = FilterWriter(snapshot.storage, file.write_id, self.target.layout.filters)
        filters.add(entry, indexed, postings)
        done = {one.wanted.definition for one in indexed}
        for wanted in filters.wanted:
            if wanted.definition not in done:
                made = stored_filter(entry, segment, schema, wanted)
                filters.put(wanted.definition, made, entry)
        return (replace(entry, bloom_files=filters.finish()),)

    def _kept_postings(self, segment: SegmentFile) -> list[PostingsEntry]:
        """Return the postings to be copied: those of indexes that are declared."""
        declared = {one.digest for one in self.target.layout.filters if one.definition.postings}
        return [one for one in segment.footer.postings if one.definition_hash in declared]

    def _indexed(self, segment: SegmentFile, schema: TableSchema) -> list[SegmentKeys]:
        """Return the keys of the columns that are to have postings and have none."""
        there = {one.definition_hash for one in segment.footer.postings}
        entry, now = self.entry, now_us()
        return [
            column_keys(segment, schema, wanted)
            for wanted in self.target.layout.filters
            if wanted.definition.postings
            and wanted.digest not in there
            and wanted.reason_against(entry.min_time_us, entry.max_time_us, now) is None
        ]


def _stored_as(
    base: UncachedColumns, stored: StoredProjection, spec: ProjectionSpec
) -> tuple[str, str] | None:
    """Return name and definition of a copied projection; None if both stay.

    A definition that stores the same may be declared under another name. The stored columns stay in
    the order of the definition that they were built by.
    """
    if stored.name == spec.name:
        return None
    built_by = from_definition(base.segment.table(stored.name).definition, base.schema.columns)
    return spec.name, replace(built_by, name=spec.name).definition

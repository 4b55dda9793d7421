"""Bring the parts of a view up to a version of its table, in one commit of the store."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace as replace_fields
from typing import Final

from msgspec.structs import replace

from projseg.algebra.time.interval import micros_to_iso
from projseg.errors import (
    CommitConflictError,
    CorruptionError,
    InvalidInputError,
    ProjsegError,
    StorageError,
)
from projseg.segment_format.layout.format_limits import SEGMENT_ROWS_MAX
from projseg.table_layer.metadata.commit_info import CommitNote
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.metadata.table_schema import stored_schema
from projseg.views.cover_test import (
    Coverage,
    among,
    coverage,
    covered_names,
    listed_segments,
)
from projseg.views.definition import bad_view, mentioned, renewed, stored_groups_spec
from projseg.views.dimension_changes import DimensionChanges
from projseg.views.part_files import PART_GROUPS_MAX, Folder, NewPart, forms_of
from projseg.views.refresh_work import Refresh, Work
from projseg.views.view_commits import StoreWrite, conflict, edited, store_write, with_parts
from projseg.views.view_dimensions import (
    check_keys,
    newest_dimensions,
    with_tables_at_their_places,
)
from projseg.views.view_options import CoveredSegments
from projseg.views.view_records import (
    COVER_SEGMENTS_MAX,
    Refreshed,
    RefreshFigures,
    ViewEntry,
    ViewPart,
)
from projseg.views.view_store import StoreVersion, newest_store, store_of, unknown_view

_TRIES_MAX: Final = 20
_CHUNK_PARTS_MAX: Final = 4
REASON_CHARACTERS_MAX: Final = 1_000
"""Of why something failed, so much is kept."""


def refresh_view(
    snapshot: Snapshot, view_id: str, work: Work, note: CommitNote, *, dry_run: bool = False
) -> tuple[StoreVersion, Refresh]:
    """Bring a view up to the newest version of its table; return the store, and what was done.

    Raises
    ------
    InvalidInputError
        PROJSEG_UNKNOWN_VIEW, PROJSEG_BAD_VIEW, PROJSEG_VIEW_BROKEN, PROJSEG_VIEW_NOT_INCREMENTAL.
    CommitConflictError
        If others refreshed the same view 20 times in a row.
    CommitError, CorruptionError, StorageError
        If a file cannot be read or written; the view stays as it was.
    """
    for _ in range(_TRIES_MAX):
        store = newest_store(store_of(snapshot.storage))
        views = {} if store is None else store.views
        if store is None or view_id not in views:
            raise unknown_view(view_id, views.values(), snapshot.storage.location)
        refresher = Refresher(snapshot, store, views[view_id], work)
        if dry_run:
            return store, refresher.planned()
        try:
            return refresher.run(note)
        except CommitConflictError as error:
            lost = error
            snapshot = open_snapshot(snapshot.storage)
    raise lost


class Refresher:
    """One try at a refresh of one view.

    Parameters
    ----------
    snapshot : Snapshot
        The table at the version that is pinned.
    store : StoreVersion
        The store as it is.
    view : ViewEntry
        The view, of the store or new.
    work : Work
        What is asked for.
    """

    def __init__(
        self, snapshot: Snapshot, store: StoreVersion, view: ViewEntry, work: Work
    ) -> None:
        self._start = time.perf_counter()
        self._snapshot, self._store, self._view, self._work = snapshot, store, view, work
        properties = snapshot.properties
        if properties.table_id != view.fact.table_id:
            raise InvalidInputError(
                "PROJSEG_VIEW_BROKEN",
                f"view '{view.name}' is of another table than the one that is at "
                f"{snapshot.storage.location} now; drop the view and make it anew",
            )
        known = view.refreshed.get(properties.table_id)
        if known is not None and known.version > snapshot.version:
            conflict(f"view '{view.name}' is at version {known.version} already")
        self._dimensions = newest_dimensions(snapshot, view)
        view = with_tables_at_their_places(view, self._dimensions)
        text, digest = renewed(view, properties)
        if digest != self._view.definition_hash:
            work = Work(True, None, work.on_progress)
            groups, states = mentioned(text, view.dimensions, stored_schema(properties).columns)
            self._view = view = replace(
                view,
                definition=text,
                definition_hash=digest,
                group_columns=groups,
                state_columns=states,
                manifests=(),
            )
        self._before = store.parts(store.views[view.view_id]) if self._is_known() else ()
        spec = stored_groups_spec(view, properties, self._dimensions)
        check_keys(view.name, spec, view.dimensions)
        self._schema = stored_schema(properties)
        self._folder = Folder(snapshot, spec)
        self._relabelled: dict[str, ViewPart] = {}
        self._coverage = self._classified(work)
        self._kept_for = CoveredSegments.of(view)
        self._folded: set[str] = set()
        self._not_built: dict[str, str] = {}
        self._failure: ProjsegError | None = None
        self._check_required()

    def _is_known(self) -> bool:
        return self._store.version >= 0 and self._view.view_id in self._store.views

    def _classified(self, work: Work) -> Coverage:
        if work.is_full or not self._view.manifests:
            return Coverage((), self._before, tuple(self._snapshot.segments))
        found = coverage(self._snapshot, self._store, self._view)
        if not self._view.dimensions:
            return found
        changes = DimensionChanges(self._snapshot, self._folder.spec, self._dimensions)
        kept: list[ViewPart] = []
        stale: list[ViewPart] = []
        for part in found.valid:
            fate = changes.fate_of(part, self._store.cover(part))
            (stale if fate is None else kept).append(part)
            if fate is not None and fate != part:
                self._relabelled[part.segment.file] = fate
        left = covered_names(self._store, stale)
        uncovered = (*found.uncovered, *(among(self._snapshot, left) if left else ()))
        return Coverage(tuple(kept), (*found.stale, *stale), uncovered)

    def _check_required(self) -> None:
        is_all_gone = bool(self._before) and not self._coverage.valid
        is_asked = self._work.is_full
        if self._view.options.get("require") and is_all_gone and not is_asked:
            raise InvalidInputError(
                "PROJSEG_VIEW_NOT_INCREMENTAL",
                f"every part of view '{self._view.name}' would be folded anew, and it requires "
                "incremental refreshes; refresh it with full=True, or make it without require",
            )

    def _chunks(self) -> dict[tuple[int | None, frozenset[str]], list[SegmentEntry]]:
        """Return the uncovered segments to fold by chunk; those of one part store alike."""
        found: dict[tuple[int | None, frozenset[str]], list[SegmentEntry]] = defaultdict(list)
        for entry in self._coverage.uncovered:
            if self._kept_for.holds(entry) and self._work.wants(entry):
                key = (self._kept_for.chunk_of(entry), forms_of(entry, self._schema))
                found[key].append(entry)
        return found

    def _expired(self) -> set[str]:
        """Return the files of valid parts that the view is no longer kept for."""
        return {
            part.segment.file
            for part in self._coverage.valid
            if not self._kept_for.holds(part.segment) and self._kept_for.retain.retain is not None
        }

    def planned(self) -> Refresh:
        """Return what a refresh would do; rows are those that would be read."""
        chunks, expired = self._chunks(), self._expired()
        plans = [self._folder.plan(entries) for entries in chunks.values()]
        rows = sum(source.row_count for p in plans for s in p.segments for source in s.choice.plans)
        gone, refolded = self._fates()
        return Refresh(
            kept=len(self._coverage.valid) - len(expired) - len(self._relabelled),
            relabelled=len(self._relabelled),
            refolded=refolded,
            added=len(chunks),
            dropped=gone + len(expired),
            rows_read=rows,
            milliseconds=self._milliseconds(),
        )

    def _fates(self) -> tuple[int, int]:
        """Return how many stale parts have no listed segment left, and how many have some."""
        stale = self._coverage.stale
        if not stale:
            return 0, 0
        listed = listed_segments(self._snapshot)
        gone = sum(listed.isdisjoint(self._store.cover(part)) for part in stale)
        return gone, len(stale) - gone

    def run(self, note: CommitNote) -> tuple[StoreVersion, Refresh]:
        """Fold, write and commit what is to be done."""
        with store_write(self._store) as write:
            view, done = self.build(write)
            if view is None:
                return self._store, done
            before = self._store.views[view.view_id]

            def edit(now: ViewEntry) -> ViewEntry:
                if now.manifests != before.manifests or now.fact != before.fact:
                    conflict(f"view '{now.name}' was refreshed by another commit")
                return replace(
                    view,
                    name=now.name,
                    is_enabled=now.is_enabled,
                    options=now.options,
                    comment=now.comment,
                )

            store = write.commit(edited(view.view_id, edit), "refresh", note.asking(view=view.name))
        return store, replace_fields(done, version=store.version)

    def build(self, write: StoreWrite) -> tuple[ViewEntry | None, Refresh]:
        """Write the parts, and return the view as it is to be listed; None: nothing changed.

        Raises
        ------
        ProjsegError
            If the view is new and no chunk of it can be built: the first reason.
        """
        chunks, expired = self._chunks(), self._expired()
        kept = {p.segment.file: p for p in self._coverage.valid if p.segment.file not in expired}
        kept |= {file: part for file, part in self._relabelled.items() if file in kept}
        relabelled = [file for file in self._relabelled if file in kept]
        added: list[ViewPart] = []
        merged = 0
        for done, ((chunk, forms), entries) in enumerate(sorted(chunks.items(), key=_by_chunk)):
            self._report(done, len(chunks))
            there = [p for p in kept.values() if self._belongs(p, chunk, forms)]
            for piece in self._pieces(chunk, entries, there):
                for part in piece.merged:
                    if piece.groups is not None:
                        del kept[part.segment.file]
                        merged += 1
                if piece.groups is not None:
                    names = self._names(piece)
                    number = len(added)
                    added.append(self._folder.write(write, number, piece, chunk, names))
                    self._folded.update(entry.listed_as for entry in piece.entries)
        self._report(len(chunks), len(chunks))
        if not self._is_known() and self._failure is not None and not added:
            raise self._failure
        gone, refolded = self._fates()
        done_now = Refresh(
            kept=len(kept) - sum(file in kept for file in relabelled),
            relabelled=sum(file in kept for file in relabelled),
            refolded=refolded,
            added=len(added),
            dropped=gone + merged + len(expired),
            rows_read=self._folder.rows_read,
            milliseconds=self._milliseconds(),
            not_built=self._not_built,
        )
        view = self._listed(write, tuple(kept.values()), added, done_now)
        return (view if self._is_changed(view) else None), done_now

    def _report(self, done: int, of: int) -> None:
        if self._work.on_progress is not None:
            self._work.on_progress(done, of)

    def _belongs(self, part: ViewPart, chunk: int | None, forms: frozenset[str]) -> bool:
        return part.chunk == chunk and forms_of(part.segment, self._schema) == forms

    def _pieces(
        self, chunk: int | None, entries: Sequence[SegmentEntry], there: Sequence[ViewPart]
    ) -> list[NewPart]:
        """Return the pieces of a chunk after the refresh; what cannot be built is left out."""
        known = [NewPart((), (part,), None) for part in there]
        try:
            return self._settled([*known, *self._folder.fold(entries)])
        except (CorruptionError, StorageError):
            raise
        except (ProjsegError, ArithmeticError) as error:
            name = "all" if chunk is None else micros_to_iso(chunk)
            self._not_built[name] = str(error)[:REASON_CHARACTERS_MAX]
            if isinstance(error, ProjsegError):
                self._failure = self._failure or error
            return []

    def _settled(self, pieces: list[NewPart]) -> list[NewPart]:
        """Merge the two smallest pieces while there are many, or these two are of like size."""
        while len(pieces) > 1:
            pieces.sort(key=lambda piece: piece.group_count)
            one, other, *rest = pieces
            are_alike = other.group_count < 2 * one.group_count or one.group_count == 0
            if not (are_alike or len(pieces) > _CHUNK_PARTS_MAX) or _is_large([one, other]):
                break
            pieces = [self._folder.merged([one, other]), *rest]
        return pieces

    def _names(self, piece: NewPart) -> list[str]:
        names = [entry.listed_as for entry in piece.entries]
        for part in piece.merged:
            names += self._store.cover(part)
        return names

    def _listed(
        self,
        write: StoreWrite,
        kept: Sequence[ViewPart],
        added: Sequence[ViewPart],
        done: Refresh,
    ) -> ViewEntry:
        snapshot, view = self._snapshot, self._view
        left = [e for e in self._coverage.uncovered if e.listed_as not in self._folded]
        dropped = self._expired()
        left_rows = sum(entry.live_row_count for entry in left)
        expired = [p for p in self._coverage.valid if p.segment.file in dropped]
        count = len(left) + sum(part.cover.segment_count for part in expired)
        left_rows += sum(part.cover.live_row_count for part in expired)
        view = with_parts(view, self._store, kept, added, write.lists)
        pinned = Refreshed(snapshot.version, snapshot.file.write_id, snapshot.timestamp_us)
        figures = RefreshFigures(
            **{name: getattr(done, name) for name in RefreshFigures.__struct_fields__}
        )
        return replace(
            view,
            refreshed={snapshot.properties.table_id: pinned} | self._pinned_dimensions(),
            fact_manifests=tuple(r.name for r in snapshot.file.manifests),
            uncovered=(count, left_rows),
            not_built=tuple(done.not_built.items()),
            last_error=None,
            last_refresh=figures,
        )

    def _pinned_dimensions(self) -> dict[str, Refreshed]:
        """Return the versions that are pinned, by the ids that tables have now."""
        several = [one.snapshot for one in self._dimensions.values()]
        return {
            one.properties.table_id: Refreshed(one.version, one.file.write_id, one.timestamp_us)
            for one in several
            if one.properties.table_id != self._snapshot.properties.table_id
        }

    def _is_changed(self, view: ViewEntry) -> bool:
        """Whether a commit would tell more than what a new version of the table would."""
        if not self._is_known():
            return True
        before = self._store.views[view.view_id]
        compared = ("definition_hash", "manifests", "fact_manifests", "not_built", "last_error")
        return any(getattr(before, name) != getattr(view, name) for name in compared)

    def _milliseconds(self) -> int:
        return round((time.perf_counter() - self._start) * 1000)


def _is_large(pieces: Iterable[NewPart]) -> bool:
    both = list(pieces)
    segments = sum(len(p.entries) + sum(m.cover.segment_count for m in p.merged) for p in both)
    return (
        sum(piece.group_count for piece in both) > PART_GROUPS_MAX
        or sum(piece.row_count for piece in both) > SEGMENT_ROWS_MAX
        or segments > COVER_SEGMENTS_MAX
    )


def _by_chunk(
    item: tuple[tuple[int | None, frozenset[str]], list[SegmentEntry]],
) -> tuple[int, list[str]]:
    (chunk, forms), _ = item
    return (-(2**63) if chunk is None else chunk, sorted(forms))


def check_enabled(view: ViewEntry) -> None:
    """Refuse to refresh a view that is disabled."""
    if not view.is_enabled:
        raise bad_view(f"view '{view.name}' is disabled and not refreshed; enable it first")

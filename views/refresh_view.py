"""Bring the parts of a view up to a version of its table, in one commit of the store."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
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
from projseg.table_layer.commits.open_version import open_as_of
from projseg.table_layer.metadata.change import CommitNote
from projseg.table_layer.metadata.segment_entry import SegmentEntry
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_schema import stored_schema
from projseg.table_layer.storage.storage_contract import ViewsFolder
from projseg.views.classify_parts import PartFates, RewrittenParts, fates_of_parts
from projseg.views.cover_test import listed_segments
from projseg.views.definitions.definition import mentioned, renewed, stored_groups_spec
from projseg.views.definitions.view_checks import CoveredSegments, bad_view
from projseg.views.followed_parts import rewritten_part
from projseg.views.part_files import Folder, NewPart, forms_of
from projseg.views.refresh_work import (
    Chunk,
    ChunkWork,
    Refresh,
    Work,
    by_chunk,
    commit_refresh,
    costs_of_changes,
    rewritten_counts,
    settled,
)
from projseg.views.stored_results import ResultRefresher
from projseg.views.view_commits import StoreWrite, conflict, with_parts
from projseg.views.view_dimensions import (
    check_keys,
    newest_dimensions,
    paths_of,
)
from projseg.views.view_records import Refreshed, RefreshFigures, ViewEntry, ViewPart
from projseg.views.view_store import StoreVersion, newest_store, unknown_view

_TRIES_MAX: Final = 20
REASON_CHARACTERS_MAX: Final = 1_000
"""Of why something failed, so much is kept."""


def refresh_view(
    snapshot: Snapshot, view_id: str, work: Work, note: CommitNote, *, dry_run: bool = False
) -> tuple[StoreVersion, Refresh]:
    """Bring a view up to the newest version of its table; return the store, and what was done."""
    for _ in range(_TRIES_MAX):
        store = newest_store(ViewsFolder(snapshot.storage))
        views = {} if store is None else store.views
        if store is None or view_id not in views:
            raise unknown_view(view_id, views.values(), snapshot.storage.location)
        try:
            refresher = refresher_of(snapshot, store, views[view_id], work)
            return (store, refresher.planned()) if dry_run else refresher.run(note)
        except CommitConflictError as error:
            lost = error
            snapshot = open_as_of(snapshot.storage)
    raise lost


def refresher_of(
    snapshot: Snapshot, store: StoreVersion, view: ViewEntry, work: Work
) -> Refresher | ResultRefresher:
    """Return one try at a refresh of a view; the arguments are a `Refresher`'s."""
    kind = ResultRefresher if view.is_result else Refresher
    return kind(snapshot, store, view, work)


class Refresher:
    """One try at a refresh of one view, of the store or new, that is kept as parts.

    The table is pinned at a version.
    """

    def __init__(
        self, snapshot: Snapshot, store: StoreVersion, view: ViewEntry, work: Work
    ) -> None:
        self._start = time.perf_counter()
        # Of files without a companion too little is known to plan from a part of theirs.
        snapshot = snapshot.with_files_only()
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
        try:
            self._before = store.parts(store.views[view.view_id]) if self._is_known() else ()
        except CorruptionError:
            # Its parts cannot be known any more, and are built anew.
            work = Work(True, None, work.on_progress)
            self._before, self._view = (), replace(view, manifests=())
        spec = stored_groups_spec(view, properties, self._dimensions)
        check_keys(view.name, spec, view.dimensions)
        self._schema = stored_schema(properties)
        self._folder = Folder(snapshot, spec, work.written)
        self._kept_for = CoveredSegments.of(view)
        self._fates = self._classified(work)
        self._folded: set[str] = set()
        self._not_built: dict[str, str] = {}
        self._failure: ProjsegError | None = None
        self._rewritten: list[RewrittenParts] = []
        self._not_rewritten = 0
        self._check_required()

    def _is_known(self) -> bool:
        return self._store.version >= 0 and self._view.view_id in self._store.views

    def _classified(self, work: Work) -> PartFates:
        if work.is_full or not self._view.manifests:
            return PartFates(stale=list(self._before), uncovered=tuple(self._snapshot.segments))
        return fates_of_parts(
            self._snapshot, self._store, self._view, self._folder, self._dimensions
        )

    def _check_required(self) -> None:
        is_all_gone = bool(self._before) and not (self._fates.kept or self._fates.rewritten)
        is_asked = self._work.is_full
        if self._view.options.get("require") and is_all_gone and not is_asked:
            raise InvalidInputError(
                "PROJSEG_VIEW_NOT_INCREMENTAL",
                f"every part of view '{self._view.name}' would be folded anew, and it requires "
                "incremental refreshes; refresh it with full=True, or make it without require",
            )

    def _chunks(self) -> dict[Chunk, ChunkWork]:
        """Return the work by chunk; the segments of one part store alike."""
        found: dict[Chunk, ChunkWork] = defaultdict(ChunkWork)
        for one in self._fates.rewritten:
            first = one.followed.parts[0]
            forms = forms_of(first.segment, self._schema)
            found[first.chunk, forms].rewritten.append(one)
        known = {name for one in self._fates.rewritten for name in one.followed.names}
        for entry in self._fates.uncovered:
            if entry.listed_as not in known and self._is_wanted(entry):
                key = (self._kept_for.chunk_of(entry), forms_of(entry, self._schema))
                found[key].entries.append(entry)
        return found

    def _is_wanted(self, entry: SegmentEntry) -> bool:
        return self._kept_for.holds(entry) and self._work.wants(entry)

    def _expired(self) -> set[str]:
        """Return the files of kept parts that the view is no longer kept for."""
        return {
            part.segment.file
            for part in self._fates.kept
            if not self._kept_for.holds(part.segment) and self._kept_for.retain.retain is not None
        }

    def planned(self) -> Refresh:
        """Return the figures of a refresh before it runs; rows are those that it would read."""
        chunks, expired = self._chunks(), self._expired()
        plans = [self._folder.plan(one.entries) for one in chunks.values()]
        rows = sum(source.row_count for p in plans for s in p.segments for source in s.choice.plans)
        rows += sum(one.rows_to_read for one in self._fates.rewritten)
        gone, refolded = self._stale_counts()
        joined, subtracted = rewritten_counts(self._fates.rewritten)
        relabelled = len(self._fates.relabelled.keys() - expired)
        return Refresh(
            kept=len(self._fates.kept) - len(expired) - relabelled,
            relabelled=relabelled + joined,
            subtracted=subtracted,
            refolded=refolded,
            added=len(chunks),
            dropped=gone + len(expired),
            rows_read=rows,
            milliseconds=self._milliseconds(),
            costs=costs_of_changes(
                self._folder.query.primitives,
                paths_of(self._folder.spec),
                {one.table_id: one.alias for one in self._view.dimensions},
            ),
        )

    def _stale_counts(self) -> tuple[int, int]:
        """Return how many stale parts have no listed segment left, and how many have some."""
        stale = self._fates.stale
        if not stale:
            return 0, 0
        listed = listed_segments(self._snapshot)
        gone = sum(listed.isdisjoint(self._cover(part)) for part in stale)
        return gone, len(stale) - gone

    def _cover(self, part: ViewPart) -> tuple[str, ...]:
        """Return the cover of a part; nothing if that cannot be read any more."""
        try:
            return self._store.cover(part)
        except CorruptionError:
            return ()

    def run(self, note: CommitNote) -> tuple[StoreVersion, Refresh]:
        """Fold, write and commit what is to be done."""
        return commit_refresh(self._store, self._view.view_id, self.build, note)

    def build(self, write: StoreWrite) -> tuple[ViewEntry | None, Refresh]:
        """Write the parts, and return the view as it is to be listed; None if nothing changed."""
        chunks, expired = self._chunks(), self._expired()
        relabelled = self._fates.relabelled
        kept = {p.segment.file: p for p in self._fates.kept if p.segment.file not in expired}
        kept |= {file: part for file, part in relabelled.items() if file in kept}
        added: list[ViewPart] = []
        merged = 0
        for done, ((chunk, forms), wanted) in enumerate(sorted(chunks.items(), key=by_chunk)):
            self._report(done, len(chunks))
            there = [p for p in kept.values() if self._belongs(p, chunk, forms)]
            for piece in self._pieces(chunk, wanted, there):
                for part in piece.merged:
                    if piece.groups is not None:
                        del kept[part.segment.file]
                        merged += 1
                if piece.groups is not None:
                    names = self._names(piece)
                    added.append(self._folder.write(write, piece, chunk, names))
                    self._folded.update(entry.listed_as for entry in piece.entries)
        self._report(len(chunks), len(chunks))
        if not self._is_known() and self._failure is not None and not added:
            raise self._failure
        gone, refolded = self._stale_counts()
        joined, subtracted = rewritten_counts(self._rewritten)
        listed_anew = [file for file in kept if file in relabelled]
        done_now = Refresh(
            kept=len(kept) - len(listed_anew),
            relabelled=len(listed_anew) + joined,
            subtracted=subtracted,
            refolded=refolded + self._not_rewritten,
            added=len(added),
            dropped=gone + merged + len(expired),
            rows_read=self._folder.rows_read,
            milliseconds=self._milliseconds(),
            not_built=self._not_built,
        )
        listed = tuple(self._with_cover(write, part) for part in kept.values())
        view = self._listed(write, listed, added, done_now)
        return (view if self._is_changed(view) else None), done_now

    def _with_cover(self, write: StoreWrite, part: ViewPart) -> ViewPart:
        """Return a kept part with the file of its cover, which is written if it is another."""
        names = self._fates.covers.get(part.segment.file)
        if names is None:
            return part
        live_rows, byte_count = part.cover.live_row_count, part.cover.byte_count
        return replace(part, cover=write.lists.write_cover(names, live_rows, byte_count))

    def _report(self, done: int, of: int) -> None:
        if self._work.on_progress is not None:
            self._work.on_progress(done, of)

    def _belongs(self, part: ViewPart, chunk: int | None, forms: frozenset[str]) -> bool:
        return part.chunk == chunk and forms_of(part.segment, self._schema) == forms

    def _pieces(
        self, chunk: int | None, wanted: ChunkWork, there: Sequence[ViewPart]
    ) -> list[NewPart]:
        """Return the pieces of a chunk after the refresh; what cannot be built is left out."""
        pieces = [NewPart((), (part,), None) for part in there]
        entries = list(wanted.entries)
        for one in wanted.rewritten:
            try:
                pieces.append(rewritten_part(self._folder, one.followed, one.entries))
                self._rewritten.append(one)
            except (ProjsegError, ArithmeticError):
                # A file that is not listed any more may be gone: the segments that are tell more.
                self._not_rewritten += len(one.followed.parts)
                entries += filter(self._is_wanted, one.entries)
        try:
            return settled(
                self._folder, [*pieces, *(self._folder.fold(entries) if entries else ())]
            )
        except (CorruptionError, StorageError):
            raise
        except (ProjsegError, ArithmeticError) as error:
            name = "all" if chunk is None else micros_to_iso(chunk)
            self._not_built[name] = str(error)[:REASON_CHARACTERS_MAX]
            if isinstance(error, ProjsegError):
                self._failure = self._failure or error
            return []

    def _names(self, piece: NewPart) -> list[str]:
        names = [entry.listed_as for entry in piece.entries]
        for part in piece.merged:
            names += self._fates.cover(self._store, part)
        return names

    def _listed(
        self,
        write: StoreWrite,
        kept: Sequence[ViewPart],
        added: Sequence[ViewPart],
        done: Refresh,
    ) -> ViewEntry:
        snapshot, view = self._snapshot, self._view
        left = [e for e in self._fates.uncovered if e.listed_as not in self._folded]
        dropped = self._expired()
        left_rows = sum(entry.live_row_count for entry in left)
        expired = [p for p in self._fates.kept if p.segment.file in dropped]
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
        """Whether the view differs from its entry in more than the version of its table."""
        if not self._is_known():
            return True
        before = self._store.views[view.view_id]
        compared = ("definition_hash", "manifests", "fact_manifests", "not_built", "last_error")
        return any(getattr(before, name) != getattr(view, name) for name in compared)

    def _milliseconds(self) -> int:
        return round((time.perf_counter() - self._start) * 1000)


def check_enabled(view: ViewEntry) -> None:
    """Refuse to refresh a view that is disabled."""
    if not view.is_enabled:
        raise bad_view(f"view '{view.name}' is disabled and not refreshed; enable it first")

"""Replace segments by others that hold the same rows, in one commit, while others write.

Files are written first; the commit lists them if every segment that they replace is still listed.
If others replaced one of those meanwhile, the work is planned anew for the newest version: what was
written for segments that are still there is used, and the rest is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from projseg.errors import CommitConflictError, InvalidInputError, StorageError
from projseg.maintenance.rewrite_tasks import Rewrite, Target, Task, TaskRunner, WorkOrder
from projseg.table_layer.commits.commit import commit, not_committed
from projseg.table_layer.commits.publish import remove, removed_on_failure
from projseg.table_layer.metadata.change import NO_NOTE, CommitNote, Replace
from projseg.table_layer.metadata.segment_entry import SegmentEntry, bloom_files_of, written_files
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.storage.paths import new_write_id

PLANS_MAX: Final = 10
"""How often the work is planned anew because others replaced its segments."""


@dataclass(frozen=True, slots=True)
class Watchers:
    """Receives the progress of the work.

    `on_segment` gets each new segment's entry once its file is known to be finished; `on_progress`
    gets the number of segments done and of all, first with 0.
    """

    on_segment: Callable[[SegmentEntry], object] | None = None
    on_progress: Callable[[int, int], object] | None = None

    def progress(self, done: int, count: int) -> None:
        """Say how far the work is."""
        if self.on_progress is not None:
            self.on_progress(done, count)

    def segment(self, entry: SegmentEntry) -> None:
        """Hand a new segment on."""
        if self.on_segment is not None:
            self.on_segment(entry)


NOBODY: Final = Watchers()


@dataclass(slots=True)
class Replacement:
    """One commit that replaces segments: its rewrite, and what the history says of it."""

    base: Snapshot
    rewrite: Rewrite
    operation: str
    runner: TaskRunner
    watchers: Watchers = NOBODY
    note: CommitNote = NO_NOTE
    _write_id: str = field(default_factory=new_write_id)
    _written: dict[tuple[object, ...], tuple[SegmentEntry, ...]] = field(default_factory=dict)
    _files: list[str] = field(default_factory=list)

    def run(self) -> tuple[Snapshot, tuple[SegmentEntry, ...]]:
        """Write and commit; return the newest version and its new segments, perhaps none."""
        with removed_on_failure(self.base.storage, self._write_id, self.base.version) as files:
            self._files = files
            try:
                return self._run()
            except StorageError as error:
                raise not_committed(self.base.storage, error) from error

    def _run(self) -> tuple[Snapshot, tuple[SegmentEntry, ...]]:
        snapshot = self.base
        for plans_left in reversed(range(PLANS_MAX)):
            target = Target.of(snapshot)
            tasks = self.rewrite.plan(target)
            self._write_missing(target, tasks)
            changed = [(t, e) for t in tasks if (e := self._written[t.key])]
            entries = tuple(entry for _, several in changed for entry in several)
            landed = snapshot
            if entries:
                removed = frozenset(old.listed_as for task, _ in changed for old in task.replaced)
                try:
                    landed = self._commit(snapshot, Replace(removed, entries))
                except CommitConflictError as conflict:
                    if not plans_left:
                        raise
                    snapshot = self._newest(conflict)
                    continue
            self._remove_unused(entries)
            return landed, entries
        raise AssertionError("the last plan was committed or refused")

    def _commit(self, snapshot: Snapshot, change: Replace) -> Snapshot:
        return commit(
            snapshot.storage,
            snapshot,
            change,
            write_id=self._write_id,
            operation=self.operation,
            note=self.note,
            metrics={
                "removed_segments": len(change.removed),
                "added_segments": len(change.entries),
                "rows": sum(entry.row_count for entry in change.entries),
                "written_bytes": sum(entry.byte_count for entry in change.entries),
            },
        )

    def _newest(self, conflict: CommitConflictError) -> Snapshot:
        """Return the newest version; the conflict stands if the table was created anew."""
        newest = open_snapshot(self.base.storage)
        if newest.properties.table_id != self.base.properties.table_id:
            raise conflict
        return newest

    def _write_missing(self, target: Target, tasks: Sequence[Task]) -> None:
        """Write the segments that earlier plans have not; the first failure stops the rest."""
        missing = [task for task in tasks if task.key not in self._written]
        there = len(tasks) - len(missing)
        if tasks:
            self.watchers.progress(there, len(tasks))
        if not missing:
            return
        self.base.storage.check_writable()
        order = WorkOrder(
            self.rewrite,
            self.operation,
            target,
            missing,
            self._write_id,
            first_number=len(self._written),
            files=self._files,
            on_done=lambda done: self.watchers.progress(there + done, len(tasks)),
        )
        try:
            with closing(self.runner.run(order)) as found:
                for task, entries in found:
                    self._finish(task, entries)
        except BaseException:
            # No commit is under way, so whatever stopped the work, no version lists a file.
            remove(self.base.storage, self._files)
            raise

    def _finish(self, task: Task, entries: tuple[SegmentEntry, ...]) -> None:
        if entries:
            _check_rows(task, entries)
            self._files += [one.name for one in bloom_files_of(entries)]
        for entry in entries:
            self.watchers.segment(entry)
        self._written[task.key] = entries

    def _remove_unused(self, entries: Sequence[SegmentEntry]) -> None:
        listed = set(written_files(entries))
        written = written_files([one for several in self._written.values() for one in several])
        remove(self.base.storage, [file for file in written if file not in listed])


def _check_rows(task: Task, entries: Sequence[SegmentEntry]) -> None:
    """Refuse segments that cannot hold the rows of those that they replace."""
    row_count = sum(old.live_row_count for old in task.replaced)
    found = sum(entry.live_row_count for entry in entries)
    if found != row_count:
        raise InvalidInputError(
            "PROJSEG_BAD_COMMIT_ENTRY",
            f"segment {entries[0].file} has {found} rows in place of {row_count} of "
            f"{len(task.replaced)} segments; nothing was committed: use one release of projseg "
            "everywhere",
        )

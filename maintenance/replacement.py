"""Replace segments by others that hold the same rows, in one commit, while others write.

Files are written first; the commit lists them if every segment that they replace is still listed.
If others replaced one of those meanwhile, the work is planned anew for the newest version: what was
written for segments that are still there is used, and the rest is removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Protocol

from projseg.errors import CommitConflictError, StorageError
from projseg.maintenance.listed_segment import open_checked
from projseg.table_layer.change import Replace
from projseg.table_layer.commit import commit, not_committed
from projseg.table_layer.commit_info import NO_NOTE, CommitNote
from projseg.table_layer.own_files import remove, removed_on_failure
from projseg.table_layer.paths import new_write_id, segment_name
from projseg.table_layer.segment_entry import SegmentEntry
from projseg.table_layer.snapshot import Snapshot, open_snapshot
from projseg.table_layer.table_schema import stored_schema

PLANS_MAX: Final = 10
"""How often the work is planned anew because others replaced its segments."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """The file that a task is to write."""

    name: str
    write_id: str


class Task(Protocol):
    """One segment to write, in place of others.

    Equal keys mean that the same is to be written.
    """

    @property
    def key(self) -> tuple[object, ...]:
        """What is replaced and what is wanted instead."""

    @property
    def replaced(self) -> tuple[SegmentEntry, ...]:
        """The listed segments that it replaces."""

    def write(self, file: NewFile, pool: Executor) -> SegmentEntry | None:
        """Write the segment; None if it would be as what it replaces, and no file is left."""


@dataclass(slots=True)
class Replacement:
    """One commit that replaces segments.

    Parameters
    ----------
    base : Snapshot
        The version to begin with.
    plan : callable
        Returns the tasks for a version; none once there is nothing to do.
    operation : str
        For the table's history.
    at_once : int
        Tasks that are worked on side by side.
    on_segment : callable or None
        Called with each new segment's entry as its file is finished.
    note : CommitNote
        What the table's history is to say besides.
    """

    base: Snapshot
    plan: Callable[[Snapshot], Sequence[Task]]
    operation: str
    at_once: int = 1
    on_segment: Callable[[SegmentEntry], object] | None = None
    note: CommitNote = NO_NOTE
    _write_id: str = field(default_factory=new_write_id)
    _written: dict[tuple[object, ...], SegmentEntry | None] = field(default_factory=dict)
    _files: list[str] = field(default_factory=list)

    def run(self) -> tuple[Snapshot, tuple[SegmentEntry, ...]]:
        """Write and commit.

        Returns
        -------
        (Snapshot, tuple of SegmentEntry)
            The version that lists the new segments, and these; the newest version and none if there
            is nothing to do.

        Raises
        ------
        CorruptionError
            If a segment to be replaced is damaged; nothing is committed.
        CommitConflictError
            If others replaced the segments again and again.
        CommitError, StorageError
            As of any commit.
        """
        with removed_on_failure(self.base.storage, self._write_id, self.base.version) as files:
            self._files = files
            try:
                return self._run()
            except StorageError as error:
                raise not_committed(self.base.storage, error) from error

    def _run(self) -> tuple[Snapshot, tuple[SegmentEntry, ...]]:
        snapshot = self.base
        for plans_left in reversed(range(PLANS_MAX)):
            tasks = self.plan(snapshot)
            self._write_missing(tasks)
            changed = [(t, e) for t in tasks if (e := self._written[t.key]) is not None]
            entries = tuple(entry for _, entry in changed)
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

    def _write_missing(self, tasks: Sequence[Task]) -> None:
        """Write what earlier plans have not written; the first failure stops the rest."""
        missing = [task for task in tasks if task.key not in self._written]
        if not missing:
            return
        self.base.storage.check_writable()
        # Two pools: a task that waits for its columns must not hold a thread that they need.
        with (
            ThreadPoolExecutor(os.cpu_count() or 1) as pool,
            ThreadPoolExecutor(self.at_once) as outer,
        ):
            futures = [
                (task, outer.submit(self._write_one, task, self._new_file(), pool))
                for task in missing
            ]
            try:
                for task, future in futures:
                    self._finish(task, future)
            except BaseException:
                # No commit is under way, so whatever stopped the work, no version lists a file.
                outer.shutdown(cancel_futures=True)
                remove(self.base.storage, self._files)
                raise

    def _new_file(self) -> NewFile:
        name = segment_name(self._write_id, 0, 0, len(self._files))
        self._files.append(name)
        return NewFile(name, self._write_id)

    def _write_one(self, task: Task, file: NewFile, pool: Executor) -> SegmentEntry | None:
        entry = task.write(file, pool)
        if entry is not None:
            # What it replaces leaves the table, so the file must be what will be listed.
            open_checked(self.base.storage, entry, stored_schema(self.base.properties))
        return entry

    def _finish(self, task: Task, future: Future[SegmentEntry | None]) -> None:
        entry = self._written[task.key] = future.result()
        if entry is not None and self.on_segment is not None:
            self.on_segment(entry)

    def _remove_unused(self, entries: Sequence[SegmentEntry]) -> None:
        listed = {entry.file for entry in entries}
        written = [entry.file for entry in self._written.values() if entry is not None]
        remove(self.base.storage, [file for file in written if file not in listed])

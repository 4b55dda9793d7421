"""A whole commit happens between any two storage operations of another, for every pair of kinds."""

from itertools import count, product

import pytest
from fault_storage import FaultStorage
from small_tables import HOUR_US, HOURLY, files_of, new_table, new_write_id, put_segment

from projseg.errors import CommitConflictError, CommitStateUnknownError
from projseg.table_layer.column_changes import ColumnChanges
from projseg.table_layer.commits.commit import append, commit
from projseg.table_layer.metadata.change import (
    Append,
    ChangeColumns,
    Overwrite,
    Replace,
    SetProperties,
    added_entries,
)
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.metadata.stored_columns import ColumnDeclaration
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration
from projseg.table_layer.metadata.versions_and_tags import list_versions
from projseg.table_layer.storage import local_files

KINDS = [
    "append",
    "overwrite all",
    "overwrite hour 0",
    "overwrite hour 1",
    "compact hour 0",
    "delete hour 1",
    "declare",
    "declare otherwise",
    "add column",
]


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch):
    """The commit in the middle would wait in vain for the one around it to end its turn."""
    monkeypatch.setattr(local_files, "_TURN_SECONDS_MAX", 0.0)


class MeetingStorage(FaultStorage):
    """Runs an action just before its n-th operation."""

    def __init__(self, inner, at, action):
        super().__init__(inner)
        self.meet_at = at
        self.action = action

    def _do(self, operation, name, action, *, is_put=False):
        if self.count + 1 == self.meet_at:
            self.action()
        return super()._do(operation, name, action, is_put=is_put)


def change_of(kind, storage, base, write_id):
    """Return (change, files it removes)."""
    by_hour = {0: set(), 1: set()}
    for entry in base.segments:
        by_hour[entry.interval[0] // HOUR_US].add(entry.file)
    entry = None
    if kind.split()[0] in ("append", "overwrite", "compact"):
        entry = put_segment(storage, write_id, hour=1 if kind.endswith("1") else 0)
    other = ProjectionDeclaration("hourly", "b" * 32, "{}")
    return {
        "append": lambda: (Append((entry,)), set()),
        "overwrite all": lambda: (Overwrite((entry,)), by_hour[0] | by_hour[1]),
        "overwrite hour 0": lambda: (Overwrite((entry,), (0, HOUR_US)), by_hour[0]),
        "overwrite hour 1": lambda: (Overwrite((entry,), (HOUR_US, 2 * HOUR_US)), by_hour[1]),
        "compact hour 0": lambda: (Replace(frozenset(by_hour[0]), (entry,)), by_hour[0]),
        "delete hour 1": lambda: (Replace(frozenset(by_hour[1])), by_hour[1]),
        "declare": lambda: (SetProperties(add_projections=(HOURLY,)), set()),
        "declare otherwise": lambda: (SetProperties(add_projections=(other,)), set()),
        "add column": lambda: (
            ChangeColumns(ColumnChanges(add=(ColumnDeclaration("deleted", "bigint"),))),
            set(),
        ),
    }[kind]()


def is_conflict(first, second, removed_first, removed_second):
    """Say from the rules alone whether the later of two commits must be refused."""
    if removed_first & removed_second:
        return True
    return {first, second} == {"declare", "declare otherwise"}


class Meeting:
    """The commit in the middle: which versions it met, and whether it landed."""

    def __init__(self, storage, base, change, write_id, operation):
        self.storage = storage
        self.commit = lambda: commit(storage, base, change, write_id=write_id, operation=operation)
        self.versions = None
        self.landed = False

    def __call__(self):
        self.versions = len(list_versions(self.storage))
        try:
            self.commit()
        except CommitConflictError:
            return
        self.landed = True


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("kind", "other_kind"), list(product(KINDS, KINDS)))
def test_two_commits_meet(tmp_path, kind, other_kind):
    was_later = set()
    for at in count(1):
        storage, base = new_table(tmp_path / f"t{at}")
        write_id = new_write_id()
        entries = [put_segment(storage, write_id, number=n, hour=n // 2) for n in range(3)]
        base = append(storage, base, entries, write_id=write_id)
        ids = new_write_id(), new_write_id()
        change, removed = change_of(kind, storage, base, ids[0])
        other, other_removed = change_of(other_kind, storage, base, ids[1])
        meet = Meeting(storage, base, other, ids[1], other_kind)
        landed = True
        try:
            commit(MeetingStorage(storage, at, meet), base, change, write_id=ids[0], operation=kind)
        except CommitConflictError:
            landed = False
        expected = set(files_of(base))
        if meet.landed:
            expected = expected - other_removed | {e.file for e in added_entries(other)}
        if landed:
            expected = expected - removed | {e.file for e in added_entries(change)}
        assert set(files_of(open_snapshot(storage))) == expected
        assert list_versions(storage) == list(range(2 + meet.landed + landed))
        if meet.versions is None:
            assert landed
            break
        # What looks at its files once more, after it is published, may meet a later commit then.
        is_later = meet.versions > 2
        was_later.add(is_later)
        earlier, later = (landed, meet.landed) if is_later else (meet.landed, landed)
        assert earlier
        assert later != is_conflict(kind, other_kind, removed, other_removed)
    assert at >= 5
    assert was_later == ({False, True} if added_entries(change) else {False})


def test_rows_that_were_compacted_and_vacuumed_at_once_are_not_written_again(tmp_path):
    outcomes = set()
    for at in count(1):
        storage, base = new_table(tmp_path / f"t{at}")
        ids = new_write_id(), new_write_id()
        entry = put_segment(storage, ids[0])
        compacted = put_segment(storage, ids[1])

        def compact_and_vacuum(storage=storage, entry=entry, compacted=compacted, ids=ids):
            newest = open_snapshot(storage)
            if files_of(newest):
                change = Replace(frozenset({entry.file}), (compacted,))
                commit(storage, newest, change, write_id=ids[1], operation="compact")
                storage.delete(entry.file)

        meeting = MeetingStorage(storage, at, compact_and_vacuum)
        try:
            append(meeting, base, [entry], write_id=ids[0])
            outcome = "landed"
        except CommitStateUnknownError:
            outcome = "unknown"
        outcomes.add(outcome)
        assert files_of(open_snapshot(storage)) == [
            (compacted if outcome == "unknown" else entry).file
        ]
        if meeting.count < at:
            break
    assert outcomes == {"landed", "unknown"}

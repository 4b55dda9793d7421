"""Vacuum removes what no kept version needs, and nothing else."""

import errno
import itertools
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from fault_storage import FaultStorage
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from race import CONTEXT
from recorded_os import FailingOs

import projseg
from projseg.errors import (
    CommitConflictError,
    CommitError,
    CorruptTableError,
    InvalidInputError,
    ProjsegError,
    StorageError,
)
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata.change import CommitNote, Restore
from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot
from projseg.table_layer.storage import local_storage
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.paths import new_manifest_name, new_write_id, segment_name
from projseg.table_layer.vacuum import vacuum

LONG_AGO = 1_000_000_000


def rows_of(table):
    return sorted(table.query(columns="n")["n"].to_pylist())


def all_files(location):
    return sorted(str(p.relative_to(location)) for p in Path(location).rglob("*") if p.is_file())


def removed_all(table, **options):
    """Vacuum what is not in the newest version."""
    return table.vacuum(retention_hours=0, dry_run=False, force=True, **options)


@pytest.fixture
def table(tmp_path):
    """Versions: 0 empty, 1 and 2 appended, 3 overwritten."""
    made = projseg.Table.create(tmp_path / "t", {"n": "int"})
    made.append([{"n": 1}])
    made.append([{"n": 2}, {"n": 3}])
    made.overwrite([{"n": 9}])
    return made


@pytest.mark.folder
def test_old_versions_go_and_the_newest_stays(table):
    before = all_files(table.location)
    told = table.vacuum(retention_hours=0, force=True)
    assert (told.is_dry_run, told.version, told.versions) == (True, None, 3)
    assert all_files(table.location) == before
    assert table.version == 3
    done = removed_all(table)
    assert (done.is_dry_run, done.version, done.versions) == (False, 4, 3)
    assert done.files["file"].to_pylist() == told.files["file"].to_pylist()
    assert set(before) - set(all_files(table.location)) == set(done.files["file"].to_pylist())
    assert done.file_count == len(done.files) == 3 + 2 + 2
    assert done.bytes == told.bytes == sum(done.files["bytes"].to_pylist())
    assert rows_of(projseg.Table(table.location)) == [9]
    assert table.verify(deep=True) == []
    for version in range(3):
        with pytest.raises(InvalidInputError, match=r"PROJSEG_UNKNOWN_VERSION.*the oldest 3"):
            projseg.Table(table.location, version)
    assert [row["version"] for row in table.history().to_pylist()] == [4, 3]
    assert dict(table.history().to_pylist()[0]["metrics"])["removed_versions"] == 3
    table.append([{"n": 10}])
    assert rows_of(table) == [9, 10]


def test_the_default_keeps_a_week(table):
    assert table.vacuum().file_count == 0
    assert table.vacuum(dry_run=False).version is None
    assert table.version == 3


def test_what_was_current_within_the_retention_is_kept(table, monkeypatch):
    hour = 3_600_000_000
    committed = open_snapshot(open_storage(table.location), 3).timestamp_us
    from projseg.table_layer import vacuum as module

    monkeypatch.setattr(module, "now_us", lambda: committed + 48 * hour - 1_000)
    assert table.vacuum(retention_hours=48).versions < 3
    monkeypatch.setattr(module, "now_us", lambda: committed + 48 * hour + 1_000_000)
    assert table.vacuum(retention_hours=48).versions == 3


@pytest.mark.parametrize("hours", [0, 1, 23.9])
def test_too_short_a_retention_has_to_be_forced(table, hours):
    with pytest.raises(InvalidInputError, match="PROJSEG_RETENTION_TOO_SHORT"):
        table.vacuum(retention_hours=hours)
    table.vacuum(retention_hours=hours, force=True)
    table.vacuum(retention_hours=24)


@pytest.mark.parametrize("hours", [-1, float("nan"), float("inf")])
def test_a_retention_is_hours(table, hours):
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_ARGUMENT"):
        table.vacuum(retention_hours=hours, force=True)


@pytest.mark.folder
def test_a_tagged_version_stays_whole_until_its_tag_is_dropped(table):
    table.tag("two", 2)
    for _ in range(2):
        removed_all(table)
        tagged = projseg.Table(table.location, tag="two")
        assert (tagged.version, rows_of(tagged)) == (2, [1, 2, 3])
        assert tagged.verify(deep=True) == []
        with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_VERSION"):
            projseg.Table(table.location, 1)
    table.restore(tag="two")
    assert rows_of(table) == [1, 2, 3]
    table.overwrite([{"n": 4}])
    table.drop_tag("two")
    removed_all(table)
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_VERSION"):
        projseg.Table(table.location, 2)
    assert [name for name in all_files(table.location) if "kept-" in name] == []
    assert len([name for name in all_files(table.location) if name.startswith("data/")]) == 1


@pytest.mark.folder
def test_orphans_go_by_age_and_foreign_files_never(table, tmp_path):
    root, outside = tmp_path / "t", tmp_path / "outside.pseg"
    outside.write_bytes(b"mine")
    orphan = segment_name(new_write_id(), 0, 0, 0)
    temporary = segment_name(new_write_id(), 0, 0, 0) + ".0123456789abcdef.tmp"
    fresh = segment_name(new_write_id(), 0, 0, 0)
    manifest = new_manifest_name()
    foreign = ["data/notes.txt", "data/x.pseg", "_projseg/README", "data/deep/" + orphan[5:]]
    link = segment_name(new_write_id(), 0, 0, 0)
    for name in (orphan, temporary, fresh, manifest, *foreign):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"12345")
        if name != fresh:
            os.utime(root / name, (LONG_AGO, LONG_AGO))
    (root / link).symlink_to(outside)
    os.utime(root / link, (LONG_AGO, LONG_AGO), follow_symlinks=False)
    before = set(all_files(root))
    done = table.vacuum(dry_run=False)
    assert set(done.files["file"].to_pylist()) == {orphan, temporary, manifest}
    assert done.bytes == 15
    assert before - set(all_files(root)) == {orphan, temporary, manifest}
    assert outside.read_bytes() == b"mine"
    assert rows_of(projseg.Table(root, 2)) == [1, 2, 3]


@pytest.mark.folder
@pytest.mark.parametrize("folder", ["data", "_projseg/manifests"])
def test_a_folder_that_leads_elsewhere_is_not_entered(table, tmp_path, folder):
    other = projseg.Table.create(tmp_path / "other", {"n": "int"})
    other.append([{"n": 5}])
    inside = tmp_path / "t" / folder
    for file in inside.iterdir():
        file.unlink()
    inside.rmdir()
    inside.symlink_to(tmp_path / "other" / folder, target_is_directory=True)
    with pytest.raises((StorageError, CorruptTableError)):
        removed_all(projseg.Table(table.location))
    assert rows_of(projseg.Table(tmp_path / "other")) == [5]


def test_a_reader_of_a_removed_version_is_told(table):
    reader = projseg.Table(table.location, 2)
    removed_all(table)
    with pytest.raises(CorruptTableError, match="by a vacuum"):
        reader.query(columns="n")


def test_a_restore_begun_before_a_vacuum_is_refused(table):
    base = open_snapshot(open_storage(table.location))
    old = open_snapshot(base.storage, 1)
    removed_all(table)
    late = Restore(1, old.properties, old.definitions, old.file.manifests)
    with pytest.raises(CommitConflictError, match="no longer kept"):
        commit(base.storage, base, late, write_id=new_write_id(), operation="restore")
    assert rows_of(projseg.Table(table.location)) == [9]


def test_what_was_restored_while_a_vacuum_began_stays(table, monkeypatch):
    """The restore commits after the vacuum has looked, and before it commits."""
    from projseg.table_layer import vacuum as module

    other = projseg.Table(table.location)

    def commit_late(*given, **named):
        other.restore(2)
        return commit(*given, **named)

    monkeypatch.setattr(module, "commit", commit_late)
    removed_all(table)
    assert rows_of(projseg.Table(table.location)) == [1, 2, 3]
    assert projseg.Table(table.location).verify(deep=True) == []


def faults():
    yield from itertools.product(range(1, 200), (False, True), (False, True))


@pytest.mark.folder
def test_a_vacuum_that_fails_anywhere_leaves_readable_versions(tmp_path):
    """Each operation of the storage fails, once or from then on, before or after its effect."""
    count = 0
    for at, forever, after in faults():
        location = tmp_path / f"t{at}{forever}{after}"
        table = projseg.Table.create(location, {"n": "int"})
        table.append([{"n": 1}])
        table.tag("one")
        table.overwrite([{"n": 2}])
        storage = FaultStorage(open_storage(location), at, forever=forever, after=after)
        base = Snapshot(storage, open_snapshot(open_storage(location)).file)
        with suppress(ProjsegError):
            vacuum(base, 0, CommitNote(), dry_run=False, force=True)
        newest = projseg.Table(location)
        assert rows_of(newest) == [2]
        assert rows_of(projseg.Table(location, tag="one")) == [1]
        for version in range(newest.version):
            with suppress(InvalidInputError):
                assert projseg.Table(location, version).verify() == []
        removed_all(newest)
        assert newest.verify(deep=True) == []
        assert len([name for name in all_files(location) if name.startswith("data/")]) == 2
        count += 1
        if not storage.was_reached:
            break
    assert count > 40


class _FullUntil(FailingOs):
    """A disk without room until a file is gone."""

    def __init__(self, file):
        super().__init__(0)
        self.file = file

    def before(self, call):
        if call in ("create", "write", "link") and self.file.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.folder
def test_a_vacuum_on_a_full_disk_removes_what_no_version_lists(table, tmp_path, monkeypatch):
    orphan = tmp_path / "t" / segment_name(new_write_id(), 0, 0, 0)
    orphan.write_bytes(b"left by a job that died")
    os.utime(orphan, (LONG_AGO, LONG_AGO))
    listed = tmp_path / "t" / table.snapshot.segments[0].file
    with monkeypatch.context() as patch:
        patch.setattr(local_storage, "os", _FullUntil(listed))
        with pytest.raises(CommitError, match="1 files that no version lists were removed") as told:
            removed_all(table)
    assert told.value.code == "PROJSEG_STORAGE_FULL"
    assert not orphan.exists()
    assert projseg.Table(table.location, 0).verify() == []
    orphan.write_bytes(b"left by another job that died")
    os.utime(orphan, (LONG_AGO, LONG_AGO))
    with monkeypatch.context() as patch:
        patch.setattr(local_storage, "os", _FullUntil(orphan))
        assert removed_all(projseg.Table(table.location)).versions == 3
    newest = projseg.Table(table.location)
    assert rows_of(newest) == [9]
    assert newest.verify(deep=True) == []


def _append_slowly(location, written, go_on):
    def wait(_):
        written.set()
        assert go_on.wait(60)

    projseg.Table(location).append([{"n": 50}], on_segment=wait)


@pytest.mark.folder
def test_the_files_of_a_write_in_another_process_survive(table, tmp_path):
    orphan = tmp_path / "t" / segment_name(new_write_id(), 0, 0, 0)
    orphan.write_bytes(b"left by a job that died")
    os.utime(orphan, (LONG_AGO, LONG_AGO))
    written, go_on = CONTEXT.Event(), CONTEXT.Event()
    writer = CONTEXT.Process(target=_append_slowly, args=(table.location, written, go_on))
    writer.start()
    assert written.wait(60)
    assert len(list((tmp_path / "t" / "data").iterdir())) == 5
    done = projseg.Table(table.location).vacuum(retention_hours=24, dry_run=False)
    assert done.files["file"].to_pylist() == [str(orphan.relative_to(tmp_path / "t"))]
    go_on.set()
    writer.join()
    assert writer.exitcode == 0
    newest = projseg.Table(table.location)
    assert rows_of(newest) == [9, 50]
    assert newest.verify(deep=True) == []


class Lives(RuleBasedStateMachine):
    """Random lives, with every version's rows kept in a list beside the table."""

    @initialize()
    def create(self):
        self.folder = tempfile.TemporaryDirectory()
        self.location = Path(self.folder.name) / "t"
        self.table = projseg.Table.create(self.location, {"n": "int"})
        self.rows = {0: []}
        self.tags = {}
        self.oldest = 0
        self.gone = set()
        self.number = 0

    def moved(self, rows):
        self.rows[self.table.version] = sorted(rows)

    @property
    def now(self):
        return self.rows[max(self.rows)]

    def new_rows(self, count):
        self.number += count
        return list(range(self.number - count, self.number))

    @rule(count=st.integers(1, 3))
    def append(self, count):
        rows = self.new_rows(count)
        before = self.now
        self.table.append([{"n": n} for n in rows])
        self.moved(before + rows)

    @rule(count=st.integers(0, 2))
    def overwrite(self, count):
        rows = self.new_rows(count)
        self.table.overwrite({"n": rows})
        self.moved(rows)

    @rule(data=st.data())
    def tag(self, data):
        version = data.draw(st.sampled_from(sorted(self.kept())))
        name = f"t{self.table.version}"
        before = self.now
        self.table.tag(name, version)
        self.tags[name] = version
        self.moved(before)

    @rule(data=st.data())
    def drop_tag(self, data):
        if self.tags:
            name = data.draw(st.sampled_from(sorted(self.tags)))
            before = self.now
            self.table.drop_tag(name)
            del self.tags[name]
            self.moved(before)

    @rule(data=st.data())
    def restore(self, data):
        version = data.draw(st.sampled_from(sorted(self.kept())))
        self.table.restore(version)
        self.moved(self.rows[version])

    @rule()
    def vacuum(self):
        before = self.now
        newest = self.table.version
        done = removed_all(self.table)
        if done.version is not None:
            self.oldest = newest
            self.gone = self.rows.keys() - self.kept()
            self.moved(before)

    def kept(self):
        return {v for v in self.rows if v >= self.oldest or v in self.tags.values()}

    @invariant()
    def every_version_is_what_it_was(self):
        for version, rows in self.rows.items():
            if version not in self.gone:
                assert rows_of(projseg.Table(self.location, version)) == rows
            else:
                with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_VERSION"):
                    projseg.Table(self.location, version)
        for name, version in self.tags.items():
            assert projseg.Table(self.location, tag=name).version == version

    def teardown(self):
        assert self.table.verify(deep=True) == []
        self.folder.cleanup()


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=30, stateful_step_count=12, deadline=None)

"""A write that certainly failed gives back its disk; no raw OSError leaves the front door."""

import errno
import os
import resource
import shutil
import subprocess
from contextlib import contextmanager, suppress
from itertools import count

import pytest
from race import run_processes
from recorded_os import FailingOs, UnsyncedOs
from test_table_appends import answers, create, expected_sum, rows_of

import projseg
from projseg.errors import (
    CommitConflictError,
    CommitError,
    CommitStateUnknownError,
    CorruptTableError,
    InvalidInputError,
    ProjsegError,
    StorageError,
)
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.storage import local_storage

ALONE = {"threads": 1}  # what a child of this process asks with
GROWING = ("create", "write", "fsync", "link", "mkdir")


def files_under(location):
    return sorted(str(p.relative_to(location)) for p in location.rglob("*") if p.is_file())


def told_by(action):
    """Return (code, message) of the error that an action ends in, or empty texts."""
    try:
        action()
    except ProjsegError as error:
        return error.code, error.message
    return "", ""


@pytest.fixture
def table(tmp_path):
    table = create(tmp_path / "t")
    table.append(rows_of("before", 0))
    return table


@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_append_leaves_no_file(tmp_path, table, monkeypatch, code, forever):
    outcomes = set()
    for at in count(1):
        before = files_under(tmp_path / "t")
        failing = FailingOs(at, code, forever=forever, only=GROWING)
        with monkeypatch.context() as patch:
            patch.setattr(local_storage, "os", failing)
            told, message = told_by(lambda: table.append(rows_of("w", 0)))
        if "nothing was committed" in message:
            assert files_under(tmp_path / "t") == before
        else:
            assert told in ("", "PROJSEG_COMMIT_STATE_UNKNOWN")
        outcomes.add(told)
        table.refresh()
        if not failing.was_reached:
            break
    assert at > 15
    assert table.verify() == []
    refused = "PROJSEG_STORAGE_FULL" if code == errno.ENOSPC else "PROJSEG_STORAGE_FAILED"
    assert outcomes == {"", refused, "PROJSEG_COMMIT_STATE_UNKNOWN"}


def test_an_append_whose_outcome_is_unknown_keeps_every_file(tmp_path, table, monkeypatch):
    """The last link may have made the snapshot: its segments must be there if it has."""
    failing = FailingOs(4, errno.EIO, only=("link",))  # two segments, a manifest, the snapshot
    with monkeypatch.context() as patch:
        patch.setattr(local_storage, "os", failing)
        with pytest.raises(CommitStateUnknownError):
            table.append(rows_of("w", 0))
    assert len(list((tmp_path / "t" / "data").iterdir())) == 4
    assert len(list((tmp_path / "t" / "_projseg" / "manifests").iterdir())) == 2


def test_a_commit_that_landed_unheard_is_not_undone(tmp_path, table, monkeypatch):
    """An error after the commit, as a broken storage may raise it, must not cost rows."""

    def commit_and_fail(storage, *arguments, **named):
        commit(storage, *arguments, **named)
        raise CommitError("PROJSEG_STORAGE_FAILED", "a wrong answer")

    with monkeypatch.context() as patch:
        patch.setattr("projseg.table.writes.commit", commit_and_fail)
        with pytest.raises(CommitError, match="a wrong answer"):
            table.append(rows_of("w", 0))
    assert answers(tmp_path / "t")["w"] == (expected_sum(1), 12)
    assert projseg.Table(tmp_path / "t").verify() == []


def test_an_interrupted_commit_keeps_its_files(tmp_path, table, monkeypatch):
    def interrupt(*_arguments, **_named):
        raise KeyboardInterrupt

    monkeypatch.setattr("projseg.table.writes.commit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        table.append(rows_of("w", 0))
    assert len(list((tmp_path / "t" / "data").iterdir())) == 4


def test_refused_rows_leave_no_file(tmp_path, table):
    before = files_under(tmp_path / "t")
    fresh = projseg.Table.create(tmp_path / "small", table.schema, target_segment_rows=4)

    def batches():
        yield from rows_of("w", 0).to_batches()
        yield from rows_of("w", 1).rename_columns(["time", "writer", "addde"]).to_batches()

    for target in (table, fresh):
        with pytest.raises(InvalidInputError, match="did you mean 'added'"):
            target.append(batches())
    assert files_under(tmp_path / "t") == before
    assert not list((tmp_path / "small").glob("data/*"))


def test_an_error_of_the_rows_own_source_leaves_as_it_is(tmp_path, table):
    def batches():
        yield from rows_of("w", 0).to_batches()
        raise ConnectionResetError("the source")

    before = files_under(tmp_path / "t")
    with pytest.raises(ConnectionResetError, match="the source"):
        table.append(batches())
    assert files_under(tmp_path / "t") == before


def test_a_conflict_leaves_no_file(tmp_path, table):
    other = projseg.Table(tmp_path / "t")
    made = []

    def batches():
        yield from rows_of("w", 0).to_batches()
        other.overwrite(rows_of("other", 0))
        made.extend(files_under(tmp_path / "t"))

    with pytest.raises(CommitConflictError):
        table.overwrite(batches())
    assert files_under(tmp_path / "t") == made
    assert set(answers(tmp_path / "t")) == {"other"}


def test_a_failed_creation_with_rows_leaves_nothing(tmp_path):
    def batches():
        yield from rows_of("w", 0).to_batches()
        raise ValueError("no more")

    schema = rows_of("w", 0).schema
    with pytest.raises(ValueError, match="no more"):
        projseg.Table.create(tmp_path / "t", schema, data=batches(), target_segment_rows=4)
    assert files_under(tmp_path / "t") == []
    assert not projseg.is_table(tmp_path / "t")
    made = projseg.Table.create(tmp_path / "t", schema, data=rows_of("w", 0))
    assert (made.version, made.history()["rows"].to_pylist()) == (0, [12])
    with pytest.raises(InvalidInputError, match="PROJSEG_TABLE_EXISTS"):
        projseg.Table.create(tmp_path / "t", schema, data=rows_of("w", 0))
    assert len(list((tmp_path / "t" / "data").iterdir())) == 1


def create_with_rows(location, number):
    try:
        data = rows_of(f"w{number}", 0)
        projseg.Table.create(location, data.schema, data=data)
    except InvalidInputError as error:
        return error.code
    return "created"


def test_one_of_many_creations_with_rows_wins(tmp_path):
    create_with_rows(tmp_path / "warm-up", 0)
    told = run_processes(create_with_rows, [(tmp_path / "t", number) for number in range(6)])
    assert sorted(told) == ["PROJSEG_TABLE_EXISTS"] * 5 + ["created"]
    assert list(answers(tmp_path / "t")) == [f"w{told.index('created')}"]
    assert len(files_under(tmp_path / "t")) == 3  # a segment, its manifest, the snapshot


class ReadFailingOs(UnsyncedOs):
    """Fails the n-th call that reads."""

    def __init__(self, at, code):
        self.at, self.code, self.count = at, code, 0

    def _call(self, name, *arguments, **named):
        self.count += 1
        if self.count == self.at:
            raise OSError(self.code, os.strerror(self.code))
        return getattr(os, name)(*arguments, **named)

    def open(self, *arguments, **named):
        return self._call("open", *arguments, **named)

    def stat(self, *arguments, **named):
        return self._call("stat", *arguments, **named)

    def fstat(self, *arguments):
        return self._call("fstat", *arguments)

    def pread(self, *arguments):
        return self._call("pread", *arguments)

    def scandir(self, *arguments):
        return self._call("scandir", *arguments)


def read_failing(location, monkeypatch, at, code):
    """Read a table that no cache knows; return (what was told, whether the call was reached)."""
    create(location).append(rows_of("w", 0))
    failing = ReadFailingOs(at, code)
    with monkeypatch.context() as patch:
        patch.setattr(local_storage, "os", failing)
        told = told_by(lambda: projseg.Table(location).query(columns=["added"]))
    return told, failing.count >= at


def test_every_failed_read_is_an_error_of_ours(tmp_path, monkeypatch):
    for at in count(1):
        location = tmp_path / f"t{at}"
        (code, message), was_reached = read_failing(location, monkeypatch, at, errno.EIO)
        if not was_reached:
            break
        assert code == "PROJSEG_STORAGE_FAILED"
        assert str(location) in message
    assert at > 10
    assert not code


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EACCES, "PROJSEG_NO_PERMISSION"),
        (errno.EMFILE, "PROJSEG_TOO_MANY_OPEN_FILES"),
        (errno.ENOTDIR, "PROJSEG_NOT_A_FILE"),
    ],
)
def test_a_failed_read_says_what_to_do(tmp_path, monkeypatch, number, code):
    (told, message), _ = read_failing(tmp_path / "t", monkeypatch, 9, number)
    assert told == code
    assert ";" in message


def test_a_segment_that_vanishes_while_it_is_read(tmp_path, table):
    """Its footer is in memory; a page is asked for when the file has gone."""
    table.query(columns=["writer"])
    shutil.rmtree(tmp_path / "t" / "data")
    with pytest.raises(CorruptTableError, match=r"PROJSEG_SEGMENT_MISSING.*removed by hand"):
        table.query(columns=["added"])


def test_a_directory_in_place_of_a_segment(tmp_path, table):
    segment = next((tmp_path / "t" / "data").iterdir())
    segment.unlink()
    segment.mkdir()
    with pytest.raises(StorageError, match=rf"PROJSEG_NOT_A_FILE.*{segment.name}"):
        table.query(columns=["added"])


@pytest.mark.parametrize("inside", ["", "/t"])
def test_a_file_in_place_of_a_table(tmp_path, inside):
    (tmp_path / "file").write_text("mine")
    location = f"{tmp_path / 'file'}{inside}"
    with pytest.raises(InvalidInputError, match="PROJSEG_NOT_A_TABLE"):
        projseg.Table(location)
    with pytest.raises(ProjsegError, match="PROJSEG_NOT_A_FILE"):
        create(location)
    with pytest.raises(CommitError, match="PROJSEG_NOT_A_FILE"):
        projseg.Table.create(location, rows_of("w", 0).schema, data=rows_of("w", 0))


# For real: a small disk, a read-only one, another user, few descriptors.


@contextmanager
def small_disk(folder, size="2m"):
    """Mount a file system of `size` on `folder`, or skip."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small disk")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(tmp_path):
    with small_disk(tmp_path / "disk"):
        location = tmp_path / "disk" / "t"
        table = create(location)
        kept = 0
        (tmp_path / "disk" / "ballast").write_bytes(b"x" * (1900 << 10))
        code = ""
        while not code:
            before = files_under(location)
            code, message = told_by(lambda: table.append(rows_of("w", 0)))
            kept += not code
        assert code == "PROJSEG_STORAGE_FULL"
        assert "free some space" in message
        assert files_under(location) == before
        assert projseg.Table(location).version == kept
        (tmp_path / "disk" / "ballast").unlink()
        table.append(rows_of("w", 0))
        assert answers(location)["w"] == ((kept + 1) * expected_sum(1), 12 * (kept + 1))


def test_a_read_only_disk_is_noticed_before_a_row_is_read(tmp_path):
    with small_disk(tmp_path / "disk"):
        location = tmp_path / "disk" / "t"
        create(location).append(rows_of("w", 0))
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path / "disk")], check=True)
        table = projseg.Table(location)
        assert answers(location)["w"] == (expected_sum(1), 12)
        untouched = iter(rows_of("w", 1).to_batches())
        with pytest.raises(CommitError, match=r"PROJSEG_READ_ONLY_STORAGE.*mounted read-only"):
            table.append(untouched)
        assert len(list(untouched)) == 1
        with pytest.raises(CommitError, match="PROJSEG_READ_ONLY_STORAGE"):
            table.add_projection({"name": "n", "sql": "SELECT count(*) AS n"})
        with pytest.raises(CommitError, match="PROJSEG_READ_ONLY_STORAGE"):
            create(tmp_path / "disk" / "other")


def as_nobody(action, location):
    """Run `action` in a child of another user; return what it returns."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    for folder in location.parents:
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    (told,) = run_processes(_as_nobody, [(action, location)])
    return told


def _as_nobody(action, location):
    os.setuid(65534)
    return action(location)


def append_by(location):
    untouched = iter(rows_of("w", 1).to_batches())
    return told_by(lambda: projseg.Table(location).append(untouched)), len(list(untouched))


def test_a_table_of_another_user_is_noticed_before_a_row_is_read(tmp_path, table):
    location = tmp_path / "t"
    for folder in ("data", "_projseg", "_projseg/manifests"):
        for other in ("data", "_projseg", "_projseg/manifests"):
            (location / other).chmod(0o755 if other == folder else 0o777)
        (code, message), untouched = as_nobody(append_by, location)
        assert code == "PROJSEG_NO_PERMISSION"
        assert f"{location}/{folder}" in message
        assert untouched == 1


def read_by(location):
    return told_by(lambda: projseg.Table(location).query(columns=["added"], context=ALONE))


def open_by(location):
    return told_by(lambda: projseg.Table(location)), told_by(lambda: projseg.is_table(location))


def test_a_table_that_another_user_may_not_read(tmp_path, table):
    location = tmp_path / "t"
    segment = next((location / "data").iterdir())
    segment.chmod(0o600)
    code, message = as_nobody(read_by, location)
    assert code == "PROJSEG_NO_PERMISSION"
    assert segment.name in message
    for hidden in (location / "_projseg", location):
        hidden.chmod(0o700)
        for code, message in as_nobody(open_by, location):
            assert code == "PROJSEG_NO_PERMISSION"
            assert str(location) in message


def read_with_no_descriptor_left(location):
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    with suppress(OSError):
        while True:
            os.open(os.devnull, os.O_RDONLY)
    return told_by(lambda: projseg.Table(location).query(columns=["added"], context=ALONE))


def test_too_many_open_files(tmp_path, table):
    ((code, message),) = run_processes(read_with_no_descriptor_left, [(tmp_path / "t",)])
    assert code == "PROJSEG_TOO_MANY_OPEN_FILES"
    assert "ulimit -n" in message

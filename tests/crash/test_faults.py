"""Every operation fails in turn, once and from then on, until an append succeeds."""

import errno
import shutil
from itertools import count

import pytest
from fault_storage import FaultStorage
from recorded_os import FailingOs, RecordedOs, ShortWritingOs
from small_tables import files_of, new_table, new_write_id, put_segment, small_properties

from projseg.errors import (
    CommitError,
    CommitStateUnknownError,
    InvalidInputError,
)
from projseg.memory.cache import KEPT
from projseg.table_layer.commits.commit import append, commit, create_table
from projseg.table_layer.metadata.change import Append
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.metadata.versions_and_tags import holds_table, list_versions
from projseg.table_layer.storage import local_storage
from projseg.table_layer.storage.local_files import SYNCED
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.paths import (
    METADATA_PREFIX,
    is_temporary,
    new_manifest_name,
    snapshot_name,
)
from projseg.table_layer.storage.storage_contract import PutOutcomeUnknownError


def outcome_of_append(storage):
    """Return ("kept" | "refused" | "unknown", file name): what the writer was told."""
    write_id = new_write_id()
    try:
        base = open_snapshot(storage)
        entry = put_segment(storage, write_id)
        append(storage, base, [entry], write_id=write_id)
    except CommitStateUnknownError as error:
        return ("unknown" if write_id in error.message else "unnamed"), write_id
    except (CommitError, OSError):
        return "refused", write_id
    return "kept", write_id


def check(storage, outcomes):
    """What was acknowledged is listed, what was refused is not, and the log has no gap."""
    assert {outcome for outcome, _ in outcomes} <= {"kept", "refused", "unknown"}
    KEPT.clear()
    snapshot = open_snapshot(storage)
    listed = [entry.write_id for entry in snapshot.segments]
    assert len(set(listed)) == len(listed)
    for outcome, write_id in outcomes:
        if outcome != "unknown":
            assert (write_id in listed) == (outcome == "kept")
    assert set(listed) <= {write_id for _, write_id in outcomes}
    assert list_versions(storage) == list(range(snapshot.version + 1))
    for entry in snapshot.segments:
        assert storage.size(entry.file) == entry.byte_count


@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize("mode", ["before", "after", "unsure"])
def test_every_storage_operation(tmp_path, mode, forever):
    storage, _ = new_table(tmp_path / "t")
    outcomes = [outcome_of_append(storage)]
    for at in count(1):
        faulty = FaultStorage(
            storage, at, forever=forever, after=mode == "after", unsure=mode == "unsure"
        )
        outcomes.append(outcome_of_append(faulty))
        check(storage, outcomes)
        if not faulty.was_reached:
            break
        outcomes.append(outcome_of_append(storage))
        assert outcomes[-1][0] == "kept", "the next writer must succeed"
    told = [outcome for outcome, _ in outcomes]
    assert at > 8
    assert "refused" in told
    if mode != "before":
        # A lost answer is read back; only if that fails too, or nothing is there, is it unknown.
        assert ("unknown" in told) == (forever or mode == "unsure")


@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_every_system_call(tmp_path, monkeypatch, code, forever):
    storage, _ = new_table(tmp_path / "t")
    outcomes = []
    for at in count(1):
        failing = FailingOs(at, code, forever=forever)
        with monkeypatch.context() as patch:
            patch.setattr(local_storage, "os", failing)
            outcomes.append(outcome_of_append(storage))
        check(storage, outcomes)
        if not failing.was_reached:
            break
        outcomes.append(outcome_of_append(storage))
        assert outcomes[-1][0] == "kept", "the next writer must succeed"
    assert at > 15
    assert {"kept", "refused"} <= {outcome for outcome, _ in outcomes}


def test_no_failed_sync_is_acknowledged(tmp_path, monkeypatch):
    storage, _ = new_table(tmp_path / "t")
    outcomes = []
    for at in count(1):
        SYNCED.clear()  # as in a process that has not written here yet
        failing = FailingOs(at, only=("fsync",))
        with monkeypatch.context() as patch:
            patch.setattr(local_storage, "os", failing)
            outcomes.append(outcome_of_append(storage))
        if not failing.was_reached:
            break
        assert outcomes[-1][0] != "kept"
        files = [event[1] for event in failing.events if event[0] == "fsync"]
        assert len(files) == len(set(files)), "a failed sync was repeated on the same file"
        check(storage, outcomes)
    # Segment, manifest and snapshot: the file, its folder, and the folders above each once.
    assert at == 10
    assert [outcome for outcome, _ in outcomes].count("unknown") == 1


def test_a_folder_is_synced_once_while_it_stays(tmp_path, monkeypatch):
    recorded = RecordedOs()
    monkeypatch.setattr(local_storage, "os", recorded)
    storage = open_storage(tmp_path / "t")

    def synced():
        recorded.events.clear()
        storage.put_if_absent(new_manifest_name(), b"x")
        return [event[1] for event in recorded.events if event[0] == "sync_folder"]

    above = [str(tmp_path / "t"), str(tmp_path / "t/_projseg")]
    inside = [str(tmp_path / "t/_projseg/manifests")]
    SYNCED.clear()
    assert synced()[-3:] == [*above, *inside]
    assert synced() == inside
    SYNCED.clear()  # another process trusts nobody
    assert synced() == [*above, *inside]
    shutil.rmtree(tmp_path / "t/_projseg/manifests")
    assert synced() == [above[1], *inside]
    (tmp_path / "t/_projseg").rename(tmp_path / "elsewhere")
    shutil.copytree(tmp_path / "elsewhere", tmp_path / "t/_projseg")
    assert synced() == [*above, *inside]


def test_temporary_files_are_removed_when_the_disk_is_full(tmp_path, monkeypatch):
    storage, _ = new_table(tmp_path / "t")
    for at in range(1, 10):
        failing = FailingOs(at, errno.ENOSPC, only=("create", "write", "fsync", "link"))
        with monkeypatch.context() as patch:
            patch.setattr(local_storage, "os", failing)
            outcome_of_append(storage)
    names = [file.name for file in storage.list_names(METADATA_PREFIX)]
    assert not [name for name in names if is_temporary(name)]


def test_short_writes_are_completed(tmp_path, monkeypatch):
    storage, _ = new_table(tmp_path / "t")
    monkeypatch.setattr(local_storage, "os", ShortWritingOs())
    outcomes = [outcome_of_append(storage)]
    check(storage, outcomes)
    assert outcomes[0][0] == "kept"


@pytest.mark.parametrize("forever", [False, True], ids=["once", "forever"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_creation_under_faults(tmp_path, after, forever):
    for at in count(1):
        storage = open_storage(tmp_path / f"t{at}")
        faulty = FaultStorage(storage, at, forever=forever, after=after)
        told = "kept"
        try:
            create_table(faulty, small_properties())
        except CommitStateUnknownError:
            told = "unknown"
        except CommitError:
            told = "refused"
        exists = holds_table(storage.location)
        assert exists == (told == "kept") or told == "unknown"
        if not exists:
            create_table(storage, small_properties())
        if not faulty.was_reached:
            break
    assert at > 5


class ForgetfulStorage(FaultStorage):
    """Replaces what it was told to create only if absent, as some object stores do."""

    def put_if_absent(self, name, payload):
        if name in {file.name for file in self.inner.list_names(METADATA_PREFIX)}:
            self.inner.delete(name)
        self.inner.put_if_absent(name, payload)


class SilentStorage(FaultStorage):
    """Keeps the first file and says that the second was created."""

    def put_if_absent(self, name, payload):
        try:
            self.inner.put_if_absent(name, payload)
        except FileExistsError:
            return


class RefusingStorage(FaultStorage):
    """Knows no conditional create."""

    def put_if_absent(self, name, payload):
        raise OSError(errno.ENOTSUP, "not implemented", name)


class LyingStorage(ForgetfulStorage):
    """Says that the name was taken, after it has replaced the file."""

    def put_if_absent(self, name, payload):
        names = {file.name for file in self.inner.list_names(METADATA_PREFIX)}
        super().put_if_absent(name, payload)
        if name in names:
            raise FileExistsError(errno.EEXIST, "taken", name)


@pytest.mark.parametrize("kind", [ForgetfulStorage, SilentStorage, RefusingStorage, LyingStorage])
def test_storage_without_conditional_create_is_refused(tmp_path, kind):
    storage = open_storage(tmp_path / "t")
    with pytest.raises(CommitError, match=r"PROJSEG_STORAGE_NOT_ATOMIC|not implemented"):
        create_table(kind(storage), small_properties())
    with pytest.raises(InvalidInputError, match="PROJSEG_NOT_A_TABLE"):
        open_snapshot(storage)


def test_an_unknown_outcome_then_a_retry_with_txn(tmp_path):
    storage, base = new_table(tmp_path / "t")
    write_id = new_write_id()
    entry = put_segment(storage, write_id)
    for at in count(1):
        faulty = FaultStorage(storage, at, forever=True, after=True)
        try:
            commit(faulty, base, Append((entry,)), write_id=write_id, operation="x", txn=("app", 1))
        except CommitStateUnknownError:
            break
        except CommitError:
            assert open_snapshot(storage).version == 0
    retry = new_write_id()
    again = put_segment(storage, retry)
    landed = commit(storage, base, Append((again,)), write_id=retry, operation="x", txn=("app", 1))
    assert landed.version == 1
    assert files_of(open_snapshot(storage)) == [entry.file]


class LosingReply(FaultStorage):
    """Publishes a snapshot, loses the answer, and the retry beneath meets its own file."""

    def put_if_absent(self, name, payload):
        self.inner.put_if_absent(name, payload)
        if name == snapshot_name(1):
            raise FileExistsError(errno.EEXIST, "taken by ourselves", name)


def test_a_conflict_with_oneself_is_success(tmp_path):
    storage, _ = new_table(tmp_path / "t")
    outcome = outcome_of_append(LosingReply(storage))
    assert outcome[0] == "kept"
    check(storage, [outcome])
    assert open_snapshot(storage).version == 1


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (errno.ENOSPC, "refused"),
        (errno.EPERM, "refused"),
        (errno.EROFS, "refused"),
        (errno.EIO, "unknown"),
        (errno.ESTALE, "unknown"),
    ],
)
def test_a_failed_link_is_unknown_only_if_it_may_have_worked(tmp_path, monkeypatch, code, told):
    storage, _ = new_table(tmp_path / "t")
    with monkeypatch.context() as patch:
        patch.setattr(local_storage, "os", FailingOs(3, code, only=("link",)))
        outcome = outcome_of_append(storage)
    assert outcome[0] == told
    assert open_snapshot(storage).version == 0


class OvertakenStorage(FaultStorage):
    """Loses the answer of a put that another writer has just won."""

    def __init__(self, inner, overtake):
        super().__init__(inner)
        self.overtake = overtake

    def put_if_absent(self, name, payload):
        if name == snapshot_name(1):
            self.overtake()
            raise PutOutcomeUnknownError(errno.ETIMEDOUT, "no answer", name)
        self.inner.put_if_absent(name, payload)


def test_an_unknown_outcome_that_another_won_is_tried_again(tmp_path):
    storage, _ = new_table(tmp_path / "t")
    outcomes = []
    overtaken = OvertakenStorage(storage, lambda: outcomes.append(outcome_of_append(storage)))
    outcomes.append(outcome_of_append(overtaken))
    assert [outcome for outcome, _ in outcomes] == ["kept", "kept"]
    check(storage, outcomes)
    assert open_snapshot(storage).version == 2

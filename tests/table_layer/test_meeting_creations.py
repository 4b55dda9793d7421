"""Whoever looks while tables are created finds one or none, and never a log that was lost.

The incident: a look listed the log, a whole creation took place, and the look then found manifests
without a probe.
"""

from contextlib import suppress
from itertools import combinations_with_replacement, count

import pytest
from fault_storage import FaultStorage
from race import run_processes
from small_tables import new_write_id, put_segment, small_properties

from projseg.errors import CommitError, CorruptTableError, InvalidInputError, StorageError
from projseg.memory.cache import KEPT
from projseg.table_layer.commits.commit import create_table
from projseg.table_layer.metadata.snapshot import latest_version
from projseg.table_layer.metadata.versions_and_tags import holds_table
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.paths import (
    MANIFEST_PREFIX,
    METADATA_PREFIX,
    is_probe_name,
    snapshot_name,
)
from projseg.table_layer.storage.storage_contract import StoredFile


def create_with_rows(storage):
    write_id = new_write_id()
    entry = put_segment(storage, write_id)
    return create_table(storage, small_properties(), entries=[entry], write_id=write_id)


def names_in(storage):
    return frozenset(file.name for file in storage.list_names(METADATA_PREFIX))


class WatchedStorage(FaultStorage):
    """Keeps the names in the log's folder after each operation; runs an action before the n-th."""

    def __init__(self, inner, at=0, *, meet_at=0, action=None, **faults):
        super().__init__(inner, at, **faults)
        self.meet_at, self.action = meet_at, action
        self.states = [names_in(inner)]

    def _do(self, operation, name, action, *, is_put=False):
        if self.count + 1 == self.meet_at:
            self.action()
        try:
            return super()._do(operation, name, action, is_put=is_put)
        finally:
            if operation in ("put", "commit", "delete"):
                self.states.append(names_in(self.inner))


class ReplayedStorage:
    """Answers the n-th call from the n-th of some states, and later calls from the last."""

    location = "replayed"

    def __init__(self, states, *, is_remote):
        self.states, self.calls, self.is_remote = states, 0, is_remote

    def _names(self):
        state = self.states[min(self.calls, len(self.states) - 1)]
        self.calls += 1
        return state

    def list_names(self, prefix, after=""):
        names = sorted(name for name in self._names() if name.startswith(prefix) and name > after)
        return iter([StoredFile(name, 1, 1) for name in names])

    def size(self, name):
        if name not in self._names():
            raise FileNotFoundError(name)
        return 1


def refused_as(action):
    """Return (what an action returns, None), or (None, the code of its refusal)."""
    try:
        return action(), None
    except InvalidInputError as error:
        return None, error.code


def look(storage):
    """Return the version that a process finds which looks for the first time, if any."""
    KEPT.clear()
    version, refusal = refused_as(lambda: latest_version(storage))
    assert refusal in (None, "PROJSEG_NOT_A_TABLE")
    return version


def creates(storage):
    """Whether a creation wins, not another."""
    _, refusal = refused_as(lambda: create_with_rows(storage))
    assert refusal in (None, "PROJSEG_TABLE_EXISTS")
    return refusal is None


def states_of_creations(folder):
    """Yield (why, states) of creations that win, are given up at any operation, and lose."""
    for at in count(0):
        storage = WatchedStorage(open_storage(folder / f"failed{at}"), at)
        with suppress(CommitError, OSError):
            create_with_rows(storage)
        yield f"operation {at} fails", storage.states
        if at and not storage.was_reached:
            break
    for at in range(1, storage.count):
        inner = open_storage(folder / f"lost{at}")
        storage = WatchedStorage(inner, meet_at=at, action=lambda to=inner: creates(to))
        if not creates(storage):
            yield f"loses at operation {at}", storage.states


@pytest.mark.folder
def test_no_look_takes_a_creation_for_a_lost_log(tmp_path):
    """Each look of five calls, wherever the calls meet a creation."""
    seen = set()
    for why, states in states_of_creations(tmp_path):
        distinct = [state for n, state in enumerate(states) if n == 0 or state != states[n - 1]]
        for at_calls in combinations_with_replacement(distinct, 5):
            for is_remote in (False, True):
                try:
                    found = look(ReplayedStorage(at_calls, is_remote=is_remote))
                except CorruptTableError as error:
                    pytest.fail(f"{why}: {error}")
                first, last = (snapshot_name(0) in at_calls[n] for n in (0, -1))
                seen.add((found, first, last))
                assert found == 0 if first else found is None or last, why
    assert {(None, False, False), (0, True, True), (0, False, True)} <= seen


@pytest.mark.folder
def test_what_a_creation_leaves_that_cannot_clean_up_is_no_lost_log(tmp_path):
    """The snapshot cannot be written, and then the manifest cannot be removed."""

    class Stuck(FaultStorage):
        def _do(self, operation, name, action, *, is_put=False):
            is_manifest = operation == "delete" and name.startswith(MANIFEST_PREFIX)
            if is_manifest or (operation == "put" and name == snapshot_name(0)):
                raise StorageError("PROJSEG_STORAGE_FAILED", f"injected, {name}", 5)
            return super()._do(operation, name, action, is_put=is_put)

    with pytest.raises(CommitError, match="nothing was committed"):
        create_with_rows(Stuck(open_storage(tmp_path)))
    assert any(map(is_probe_name, names_in(open_storage(tmp_path))))
    assert not holds_table(tmp_path)
    assert create_with_rows(open_storage(tmp_path)).version == 0


def test_a_whole_creation_between_any_two_calls_of_another_or_of_a_look(tmp_path):
    for does in (look, creates):
        for at in count(1):
            inner = open_storage(tmp_path / f"{does.__name__}{at}")
            others = []
            storage = WatchedStorage(
                inner, meet_at=at, action=lambda to=inner, told=others: told.append(creates(to))
            )
            found = does(storage)
            if does is creates:
                assert found != any(others)
            elif found is not None:
                assert others == [True]
            assert look(inner) == (0 if found or others else None)
            if not others:
                break
        assert at > 2


def look_and_create(location, number):
    storage = open_storage(location)
    while number % 2 and look(storage) is None:
        pass
    return creates(storage)


@pytest.mark.folder
def test_many_processes_look_and_create(tmp_path):
    for n in range(4):
        won = run_processes(look_and_create, [(tmp_path / f"t{n}", each) for each in range(6)])
        assert sum(won) == 1
        assert len(names_in(open_storage(tmp_path / f"t{n}"))) == 2  # a manifest, the snapshot

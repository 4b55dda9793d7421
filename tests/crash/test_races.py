"""Many writers at once lose nothing, and every order of commits keeps the rules."""

import random

import pytest
from race import run_processes
from scale import tries
from small_tables import HOUR_US, files_of, new_table, new_write_id, put_segment

from projseg.errors import CommitConflictError, InvalidInputError
from projseg.memory.cache import KEPT
from projseg.table_layer.commits.commit import append, commit
from projseg.table_layer.metadata.change import Append, Overwrite, Replace
from projseg.table_layer.metadata.snapshot import kept_versions, open_snapshot
from projseg.table_layer.metadata.versions_and_tags import list_versions
from projseg.table_layer.storage.locate_storage import open_storage


def append_many(location, count):
    """Append `count` segments and return (file, version) of each."""
    storage = open_storage(location)
    done = []
    for hour in range(count):
        write_id = new_write_id()
        entry = put_segment(storage, write_id, hour=hour)
        landed = append(storage, open_snapshot(storage), [entry], write_id=write_id)
        done.append((entry.file, landed.version))
    return done


def check_race(location, writers, appends):
    storage, _ = new_table(location)
    by_writer = run_processes(append_many, [(location, appends)] * writers)
    done = [one for each in by_writer for one in each]
    assert len(done) == writers * appends
    versions = sorted(version for _, version in done)
    assert versions == list(range(1, writers * appends + 1))
    assert list_versions(storage) == [0, *versions]
    assert files_of(open_snapshot(storage)) == sorted(file for file, _ in done)
    for file, version in done[:: max(1, len(done) // 40)]:
        assert file in files_of(open_snapshot(storage, version))
        assert file not in files_of(open_snapshot(storage, version - 1))
    assert len(list(kept_versions(storage))) == len(versions) + 1


@pytest.mark.slow  # by day eight writers race through `Table.append`
def test_eight_writers_of_fifty_appends(tmp_path):
    check_race(tmp_path / "t", 8, 50)


@pytest.mark.slow
def test_thirty_two_writers_of_two_hundred_appends(tmp_path):
    check_race(tmp_path / "t", 32, 200)


def create_or_lose(location):
    try:
        new_table(location)
    except InvalidInputError as error:
        return error.code
    return "created"


def test_one_of_many_creations_wins(tmp_path):
    results = run_processes(create_or_lose, [(tmp_path / "t",)] * 8)
    assert sorted(results) == ["PROJSEG_TABLE_EXISTS"] * 7 + ["created"]


class Actor:
    """A writer that looks at the table now and commits later."""

    def __init__(self, storage, rng):
        self.storage = storage
        self.rng = rng
        self.pinned = None

    def look(self):
        self.pinned = open_snapshot(self.storage)

    def plan(self):
        """Return (change, write id) made for the version looked at."""
        write_id, hour = new_write_id(), self.rng.randrange(4)
        kind = self.rng.choice(["append", "compact", "overwrite"])
        interval = (hour * HOUR_US, (hour + 1) * HOUR_US)
        inputs = self.pinned.segments_between(*interval)[:2]
        rows = self.rng.randrange(1, 99)
        if kind == "compact" and inputs:
            rows = sum(entry.row_count for entry in inputs)
        entry = put_segment(self.storage, write_id, hour=hour, rows=rows)
        if kind == "compact" and inputs:
            removed = frozenset(file.file for file in inputs)
            return Replace(removed, (entry,)), write_id
        if kind == "overwrite":
            return Overwrite((entry,), interval), write_id
        return Append((entry,)), write_id

    def act(self, model):
        change, write_id = self.plan()
        try:
            landed = commit(self.storage, self.pinned, change, write_id=write_id, operation="test")
        except CommitConflictError:
            assert not isinstance(change, Append), "an append never conflicts"
            return
        removed = set()
        if isinstance(change, Replace):
            removed = change.removed
            assert removed <= model.keys()
        elif isinstance(change, Overwrite):
            start, end = change.interval
            removed = {e.file for e in self.pinned.segments_between(start, end)}
            assert removed <= model.keys(), "an overwrite replaced what was gone"
        for file in removed:
            del model[file]
        for entry in change.entries:
            model[entry.file] = entry.row_count
        assert files_of(landed) == sorted(model)


def interleave(location, seed, steps):
    """Let actors look and commit in a random order; a dict is the expected table."""
    KEPT.clear()
    rng = random.Random(seed)
    storage, _ = new_table(location)
    actors = [Actor(storage, rng) for _ in range(4)]
    model = {}
    pinned = []
    for _ in range(steps):
        actor = rng.choice(actors)
        if actor.pinned is None:
            actor.look()
            pinned.append((actor.pinned, dict(model)))
        else:
            actor.act(model)
            actor.pinned = None
    assert files_of(open_snapshot(storage)) == sorted(model)
    assert open_snapshot(storage).row_count == sum(model.values())
    for snapshot, then in pinned:
        assert files_of(snapshot) == sorted(then), "a pinned snapshot changed"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", range(0, 500, 50))
def test_random_interleavings(tmp_path, first):
    for seed in range(first, first + 50):
        interleave(tmp_path / f"t{seed}", seed, steps=40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1000 + tries(500)))
def test_many_random_interleavings(tmp_path, seed):
    interleave(tmp_path / "t", seed, steps=80)

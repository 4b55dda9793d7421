"""A power cut at any moment leaves the table before the commit or after it."""

from itertools import count, islice

import pytest
from crash_states import Disk, crash_states, image, materialise
from recorded_os import RecordedOs
from small_tables import files_of, new_table, new_write_id, put_segment, small_properties

from projseg.errors import InvalidInputError, ProjsegError
from projseg.memory.cache import KEPT
from projseg.table_layer.commits.commit import append, create_table
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.storage import local_storage
from projseg.table_layer.storage.locate_storage import open_storage


def record(monkeypatch, action):
    recorded = RecordedOs()
    with monkeypatch.context() as patch:
        patch.setattr(local_storage, "os", recorded)
        result = action()
    return recorded.events, result


def check_segments(storage, snapshot):
    """Every listed segment is there, whole."""
    for entry in snapshot.segments:
        assert storage.size(entry.file) == entry.byte_count


def append_one(storage, base):
    write_id = new_write_id()
    entry = put_segment(storage, write_id)
    return append(storage, base, [entry], write_id=write_id)


def test_append(tmp_path, monkeypatch):
    root = tmp_path / "t"
    storage, base = new_table(root)
    base = append_one(storage, base)
    before = image(root)
    events, after = record(monkeypatch, lambda: append_one(storage, base))
    versions_seen, states = set(), 0
    numbers = count()
    for done, state in crash_states(events):
        # Names that the record removes or adds decide; what was there before stays.
        place = tmp_path / f"state{next(numbers)}"
        materialise(state, before, root, place)
        KEPT.clear()
        found = open_storage(place)
        snapshot = open_snapshot(found)
        expected = {1: base, 2: after}[snapshot.version]
        assert files_of(snapshot) == files_of(expected)
        check_segments(found, snapshot)
        if done == len(events):
            assert snapshot.version == 2, "an acknowledged commit was lost"
        assert append_one(found, snapshot).version == snapshot.version + 1
        versions_seen.add(snapshot.version)
        states += 1
    assert versions_seen == {1, 2}
    assert states >= 50


def test_create(tmp_path, monkeypatch):
    root = tmp_path / "t"
    tmp_path.joinpath("t").mkdir()
    storage = open_storage(root)
    events, _ = record(monkeypatch, lambda: create_table(storage, small_properties()))
    numbers = count()
    outcomes = set()
    for done, state in crash_states(events):
        place = tmp_path / f"state{next(numbers)}"
        materialise(state, {}, root, place)
        found = open_storage(place)
        try:
            outcomes.add(open_snapshot(found).version)
        except InvalidInputError as error:
            outcomes.add(error.code)
            assert done < len(events), "an acknowledged table was lost"
            create_table(found, small_properties())
    assert outcomes == {0, "PROJSEG_NOT_A_TABLE"}


def test_create_with_a_segment(tmp_path, monkeypatch):
    """Whatever is left, the table is there with its segment, or may be created anew."""
    root = tmp_path / "t"
    root.mkdir()
    storage, write_id = open_storage(root), new_write_id()
    entry = put_segment(storage, write_id)
    before = image(root)
    events, _ = record(
        monkeypatch,
        lambda: create_table(storage, small_properties(), entries=[entry], write_id=write_id),
    )
    outcomes, numbers = set(), count()
    for done, state in crash_states(events):
        place = tmp_path / f"state{next(numbers)}"
        materialise(state, before, root, place)
        KEPT.clear()
        found = open_storage(place)
        try:
            snapshot = open_snapshot(found)
        except InvalidInputError as error:
            outcomes.add(error.code)
            assert done < len(events), "an acknowledged table was lost"
            again = new_write_id()
            snapshot = create_table(
                found, small_properties(), entries=[put_segment(found, again)], write_id=again
            )
        else:
            outcomes.add(snapshot.version)
            assert files_of(snapshot) == [entry.file]
        check_segments(found, snapshot)
        assert append_one(found, snapshot).version == 1
    assert outcomes == {0, "PROJSEG_NOT_A_TABLE"}


@pytest.mark.parametrize("skipped", ["fsync", "sync_folder"])
def test_the_enumeration_finds_a_missing_sync(tmp_path, monkeypatch, skipped):
    """Planted bug: without one kind of sync, some state must break the promise."""
    root = tmp_path / "t"
    storage, base = new_table(root)
    before = image(root)
    events, _ = record(monkeypatch, lambda: append_one(storage, base))
    events = [event for event in events if event[0] != skipped]
    broken = 0
    # Only the last moments: without syncs the combinations of all of them are many.
    states = list(crash_states_of_end(events))
    for number, state in enumerate(states):
        place = tmp_path / f"state{number}"
        materialise(state, before, root, place)
        KEPT.clear()
        found = open_storage(place)
        try:
            snapshot = open_snapshot(found)
            check_segments(found, snapshot)
            broken += snapshot.version != 1
        except (ProjsegError, OSError, AssertionError):
            broken += 1
    assert broken > 0


def crash_states_of_end(events):
    disk = Disk()
    for event in events:
        disk.apply(event)
    return islice(disk.after_power_cut(), 200)

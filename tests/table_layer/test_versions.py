"""Which version is the newest, when listings lag behind and hints are old."""

import pytest
from fault_storage import FaultStorage
from small_tables import new_table

from projseg.errors import CorruptTableError
from projseg.table_layer.commits import publish
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata.change import SetProperties
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.metadata.versions_and_tags import latest_version, list_versions
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.paths import new_write_id, snapshot_name


def grow(storage, snapshot, count):
    for _ in range(count):
        snapshot = commit(
            storage, snapshot, SetProperties(), write_id=new_write_id(), operation="test"
        )
    return snapshot


class LateListing(FaultStorage):
    """Lists as if some names had not been met, as a folder read during writes may."""

    def __init__(self, inner, hidden):
        super().__init__(inner)
        self.hidden = {snapshot_name(version) for version in hidden}

    def list_names(self, prefix, after=""):
        return (f for f in super().list_names(prefix, after) if f.name not in self.hidden)


@pytest.mark.folder
@pytest.mark.parametrize("hidden", [{4}, {5}, {2, 3}, {1, 4, 5}, set()])
def test_a_listing_that_misses_names_is_completed(tmp_path, hidden):
    storage, snapshot = new_table(tmp_path)
    grow(storage, snapshot, 5)
    assert latest_version(LateListing(storage, hidden)) == 5
    assert list_versions(LateListing(storage, hidden - {5}))[-1] >= 3


def test_a_true_gap_is_still_found(tmp_path):
    storage, snapshot = new_table(tmp_path)
    grow(storage, snapshot, 5)
    storage.delete(snapshot_name(3))
    with pytest.raises(CorruptTableError, match=r"0003\.json is missing"):
        latest_version(LateListing(storage, {2, 3}))


@pytest.mark.folder
def test_an_old_hint_is_only_a_hint(tmp_path):
    storage, snapshot = new_table(tmp_path)
    reader = FaultStorage(storage)
    assert latest_version(reader) == 0
    snapshot = grow(storage, snapshot, 3)
    reader.log.clear()
    assert latest_version(reader) == 3
    assert not [line for line in reader.log if line.startswith("list")]
    snapshot = grow(storage, snapshot, 70)
    assert latest_version(reader) == 73
    reader.log.clear()
    assert latest_version(reader) == 73
    assert len(reader.log) == 2


def test_a_table_created_anew_is_not_the_old_one(tmp_path):
    storage, snapshot = new_table(tmp_path / "t")
    grow(storage, snapshot, 3)
    assert latest_version(storage) == 3
    (tmp_path / "t").rename(tmp_path / "old")
    _, created = new_table(tmp_path / "t")
    assert latest_version(storage) == 0
    assert open_snapshot(storage).properties.table_id == created.properties.table_id
    assert latest_version(open_storage(tmp_path / "old")) == 3


def test_clocks_give_times_and_never_order(tmp_path, monkeypatch):
    storage, snapshot = new_table(tmp_path)
    first = snapshot.timestamp_us
    for clock in (first + 10, first - 10**12, first + 5, first + 20):
        monkeypatch.setattr(publish, "now_us", lambda clock=clock: clock)
        snapshot = grow(storage, snapshot, 1)
    times = [open_snapshot(storage, version).timestamp_us for version in range(5)]
    assert times == [first, first + 10, first + 10, first + 10, first + 20]

"""Commits one after the other: every kind, every refusal."""

import numpy as np
import pytest
from msgspec import structs
from small_tables import (
    HOUR_US,
    HOURLY,
    describe_segment,
    files_of,
    hourly_of,
    new_table,
    new_write_id,
    put_segment,
    small_properties,
)

from projseg.errors import (
    CommitConflictError,
    CommitError,
    CorruptSegmentError,
    CorruptTableError,
    InvalidInputError,
)
from projseg.maintenance.findings import later_manifests
from projseg.memory.cache import ENTRY_BYTES, Cache
from projseg.table_layer.column_changes import ColumnChanges
from projseg.table_layer.commits.commit import commit, create_table
from projseg.table_layer.commits.verify_entries import listed_ending
from projseg.table_layer.metadata.change import (
    Append,
    ChangeColumns,
    Overwrite,
    Replace,
    SetProperties,
)
from projseg.table_layer.metadata.manifest import ManifestCache, write_manifests
from projseg.table_layer.metadata.metadata_limits import MANIFEST_SEGMENTS_MAX, SMALL_MANIFESTS_MAX
from projseg.table_layer.metadata.segment_entry import ColumnZone
from projseg.table_layer.metadata.snapshot import kept_versions, open_snapshot
from projseg.table_layer.metadata.stored_columns import ColumnDeclaration
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration
from projseg.table_layer.metadata.versions_and_tags import holds_table, latest_version
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.paths import MANIFEST_PREFIX, new_probe_name, snapshot_name


def add(storage, base, *, write_id=None, txn=None, **facts):
    write_id = write_id or new_write_id()
    entry = put_segment(storage, write_id, **facts)
    snapshot = commit(
        storage, base, Append((entry,)), write_id=write_id, operation="append", txn=txn
    )
    return snapshot, entry


def do(storage, base, change, write_id=None):
    return commit(storage, base, change, write_id=write_id or new_write_id(), operation="test")


def test_a_new_table_is_empty_version_zero(tmp_path):
    storage, created = new_table(tmp_path / "t")
    opened = open_snapshot(storage)
    assert opened.version == created.version == 0
    assert len(opened.segments) == 0
    assert list(opened.segments) == []
    assert opened.properties == created.properties
    assert opened.properties.schema.names == ["time", "channel", "added"]
    assert holds_table(tmp_path / "t")


def test_create_refuses_a_table_that_exists(tmp_path):
    new_table(tmp_path)
    with pytest.raises(InvalidInputError, match="PROJSEG_TABLE_EXISTS"):
        new_table(tmp_path)


def test_append_adds_and_old_versions_stay(tmp_path):
    storage, version0 = new_table(tmp_path)
    version1, first = add(storage, version0, hour=1)
    version2, second = add(storage, version1, hour=0, rows=7)
    assert [version1.version, version2.version] == [1, 2]
    assert files_of(open_snapshot(storage)) == sorted([first.file, second.file])
    assert files_of(open_snapshot(storage, 1)) == [first.file]
    assert open_snapshot(storage, 0).row_count == 0
    assert open_snapshot(storage).row_count == 17
    assert list(open_snapshot(storage, 1).segments) == [first]
    assert [s.version for s in kept_versions(storage)] == [2, 1, 0]
    assert [s.operation for s in kept_versions(storage)] == ["append", "append", "create"]


def test_append_from_an_old_base_keeps_both(tmp_path):
    storage, version0 = new_table(tmp_path)
    add(storage, version0, hour=1)
    later, _ = add(storage, version0, hour=2)
    assert later.version == 2
    assert len(later.segments) == 2


def test_segments_is_a_sequence_over_manifests(tmp_path):
    storage, snapshot = new_table(tmp_path)
    entries = []
    for hour in range(5):
        snapshot, entry = add(storage, snapshot, hour=hour)
        entries.append(entry)
    segments = snapshot.segments
    assert [segments[i] for i in range(5)] == entries
    assert segments[-1] == entries[-1]
    assert segments[1:3] == entries[1:3]
    assert segments.index(entries[3]) == 3
    with pytest.raises(IndexError):
        segments[5]


def test_segments_between_prunes_by_time(tmp_path):
    storage, snapshot = new_table(tmp_path)
    for hour in range(4):
        snapshot, _ = add(storage, snapshot, hour=hour)
    timeless = {"interval": None, "min_time_us": None, "max_time_us": None}
    snapshot, _ = add(storage, snapshot, **timeless)
    found = snapshot.segments_between(HOUR_US, 2 * HOUR_US + 1)
    assert [entry.interval[0] // HOUR_US for entry in found] == [1, 2]
    assert snapshot.segments_between(-HOUR_US, 0) == []
    assert len(snapshot.segments_between(-(2**63), 2**63 - 1)) == 4


def test_many_small_manifests_are_merged(tmp_path):
    storage, snapshot = new_table(tmp_path)
    entries = []
    for hour in range(2 * SMALL_MANIFESTS_MAX + 5):
        snapshot, entry = add(storage, snapshot, hour=hour)
        entries.append(entry)
        assert len(snapshot.file.manifests) <= SMALL_MANIFESTS_MAX
    assert list(open_snapshot(storage).segments) == entries
    assert files_of(open_snapshot(storage, 40)) == sorted(entry.file for entry in entries[:40])


def test_large_appends_are_cut_into_manifests(tmp_path):
    storage, _ = new_table(tmp_path)
    write_id = new_write_id()
    count = MANIFEST_SEGMENTS_MAX + 1
    entries = [describe_segment(write_id, number=i, hour=i)[0] for i in range(count)]
    references = write_manifests(storage, entries, [])
    assert [reference.segment_count for reference in references] == [MANIFEST_SEGMENTS_MAX, 1]


def test_overwrite_of_the_whole_table(tmp_path):
    storage, snapshot = new_table(tmp_path)
    for hour in range(3):
        snapshot, _ = add(storage, snapshot, hour=hour)
    write_id = new_write_id()
    entry = put_segment(storage, write_id, hour=9)
    after = do(storage, snapshot, Overwrite((entry,)), write_id)
    assert files_of(after) == [entry.file]
    assert len(open_snapshot(storage, 3).segments) == 3


def test_overwrite_of_an_interval_keeps_the_rest(tmp_path):
    storage, snapshot = new_table(tmp_path)
    kept = []
    for hour in range(3):
        snapshot, entry = add(storage, snapshot, hour=hour)
        kept += [entry.file] if hour != 1 else []
    write_id = new_write_id()
    entry = put_segment(storage, write_id, hour=1)
    after = do(storage, snapshot, Overwrite((entry,), (HOUR_US, 2 * HOUR_US)), write_id)
    assert files_of(after) == sorted([*kept, entry.file])


def test_overwrite_refuses_an_interval_that_cuts_a_segment(tmp_path):
    storage, snapshot = new_table(tmp_path)
    snapshot, _ = add(storage, snapshot, hour=1)
    for interval in [(HOUR_US + 1, 9 * HOUR_US), (0, 2 * HOUR_US - 1)]:
        with pytest.raises(InvalidInputError, match="PROJSEG_INTERVAL_NOT_ALIGNED"):
            do(storage, snapshot, Overwrite((), interval))
    assert latest_version(storage) == 1


def test_overwrite_leaves_what_others_appended_since(tmp_path):
    storage, version0 = new_table(tmp_path)
    version1, first = add(storage, version0, hour=1)
    _, appended = add(storage, version1, hour=1)
    after = do(storage, version1, Overwrite(()))
    assert files_of(after) == [appended.file]
    assert first.file not in files_of(after)


def test_overwrite_finds_its_inputs_in_merged_manifests(tmp_path):
    storage, snapshot = new_table(tmp_path)
    snapshot, _ = add(storage, snapshot, hour=0)
    base = snapshot
    for hour in range(SMALL_MANIFESTS_MAX):
        snapshot, _ = add(storage, snapshot, hour=hour + 1)
    assert len(snapshot.file.manifests) == 1
    after = do(storage, base, Overwrite(()))
    assert len(after.segments) == SMALL_MANIFESTS_MAX


def test_two_overwrites_of_the_same_time_conflict(tmp_path):
    storage, base = new_table(tmp_path)
    base, _ = add(storage, base, hour=0)
    do(storage, base, Overwrite((), (0, HOUR_US)))
    for interval in [None, (0, HOUR_US), (HOUR_US - 1, 3 * HOUR_US)]:
        with pytest.raises(CommitConflictError):
            do(storage, base, Overwrite((), interval))
    assert do(storage, base, Overwrite((), (HOUR_US, 2 * HOUR_US))).version == 3


def test_replace_needs_its_inputs(tmp_path):
    storage, base = new_table(tmp_path)
    base, first = add(storage, base, hour=0)
    base, second = add(storage, base, hour=1)
    write_id = new_write_id()
    merged = put_segment(storage, write_id, hour=0)
    newer, third = add(storage, base, hour=2)
    inputs = frozenset({first.file, second.file})
    after = do(storage, base, Replace(inputs, (merged,)), write_id)
    assert files_of(after) == sorted([merged.file, third.file])
    with pytest.raises(CommitConflictError, match="was replaced or removed"):
        do(storage, newer, Replace(frozenset({first.file})))


def test_set_properties_adds_and_drops(tmp_path):
    storage, base = new_table(tmp_path)
    base = do(storage, base, SetProperties(add_projections=(HOURLY,)))
    assert base.definitions == {HOURLY.definition_hash: HOURLY.definition}
    base, _ = add(storage, base, projections=hourly_of())
    base = do(storage, base, SetProperties(drop_projections=("hourly",)))
    assert base.properties.projections == ()
    assert base.definitions == {HOURLY.definition_hash: HOURLY.definition}
    base = do(storage, base, Overwrite(()))
    assert base.definitions == {}
    column = ColumnDeclaration("deleted", "bigint")
    base = do(storage, base, ChangeColumns(ColumnChanges(add=(column,))))
    base = do(storage, base, SetProperties(properties={"owner": "us"}))
    assert base.properties.schema.names[-1] == "deleted"
    assert base.properties.properties == {"owner": "us"}


def test_set_properties_conflicts_by_name_only(tmp_path):
    storage, base = new_table(tmp_path)
    other = ProjectionDeclaration("hourly", "b" * 32, "{}")
    daily = ProjectionDeclaration("daily", "c" * 32, "{}")
    do(storage, base, SetProperties(add_projections=(HOURLY,)))
    do(storage, base, SetProperties(add_projections=(daily,)))
    same = do(storage, base, SetProperties(add_projections=(HOURLY,)))
    assert {p.name for p in same.properties.projections} == {"hourly", "daily"}
    with pytest.raises(CommitConflictError):
        do(storage, base, SetProperties(add_projections=(other,)))
    with pytest.raises(InvalidInputError, match="PROJSEG_PROJECTION_EXISTS"):
        do(storage, same, SetProperties(add_projections=(other,)))
    with pytest.raises(InvalidInputError, match="did you mean 'daily'"):
        do(storage, same, SetProperties(drop_projections=("dailly",)))
    do(storage, same, SetProperties(drop_projections=("daily",)))
    with pytest.raises(CommitConflictError):
        do(storage, same, SetProperties(drop_projections=("daily",)))
    again = do(storage, same, SetProperties(drop_projections=("hourly",), add_projections=(other,)))
    assert again.properties.projections == (other,)


def test_a_writer_may_embed_a_projection_dropped_meanwhile(tmp_path):
    storage, base = new_table(tmp_path, projections=(HOURLY,))
    do(storage, base, SetProperties(drop_projections=("hourly",)))
    after, _ = add(storage, base, projections=hourly_of())
    assert after.definitions == {HOURLY.definition_hash: HOURLY.definition}


def test_an_unknown_definition_is_refused(tmp_path):
    storage, base = new_table(tmp_path)
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_DEFINITION"):
        add(storage, base, projections=hourly_of())


def test_columns_come_with_an_append(tmp_path):
    storage, base = new_table(tmp_path)
    write_id = new_write_id()
    entry, _ = describe_segment(write_id)
    zone = entry.columns["channel"]
    entry = put_segment(storage, write_id, columns={"channel": zone, "deleted": zone})
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_COLUMN"):
        do(storage, base, Append((entry,)), write_id)
    columns = ColumnChanges(add=(ColumnDeclaration("deleted", "string"),))
    after = do(storage, base, Append((entry,), columns), write_id)
    assert after.properties.schema.names[-1] == "deleted"
    other = ColumnChanges(add=(ColumnDeclaration("deleted", "int"),))
    with pytest.raises(InvalidInputError, match="PROJSEG_COLUMN_EXISTS"):
        do(storage, after, ChangeColumns(other))


def test_the_same_write_id_lands_once(tmp_path):
    storage, base = new_table(tmp_path)
    write_id = new_write_id()
    landed, entry = add(storage, base, write_id=write_id)
    for seen in (base, landed):
        again = do(storage, seen, Append((entry,)), write_id)
        assert again.version == landed.version == latest_version(storage) == 1


def test_a_used_write_id_is_refused_for_other_files(tmp_path):
    storage, base = new_table(tmp_path)
    write_id = new_write_id()
    landed, _ = add(storage, base, write_id=write_id)
    with pytest.raises(InvalidInputError, match="PROJSEG_WRITE_ID_REUSED"):
        add(storage, landed, write_id=write_id, number=1)


def test_a_write_id_may_create_and_fill_a_table(tmp_path):
    storage, write_id = open_storage(tmp_path), new_write_id()
    base = create_table(storage, small_properties(), write_id=write_id)
    after, _ = add(storage, base, write_id=write_id)
    assert len(after.segments) == 1


def test_a_repeated_transaction_is_a_no_op(tmp_path):
    storage, base = new_table(tmp_path)
    first, _ = add(storage, base, txn=("stream", 5))
    second, _ = add(storage, first, txn=("stream", 6))
    for seen, version in [(base, 5), (first, 5), (second, 5), (second, 4)]:
        again, _ = add(storage, seen, txn=("stream", version))
        assert again.version == second.version
    assert add(storage, first, txn=("stream", 6))[0].version == second.version
    assert add(storage, second, txn=("other", 1))[0].version == 3
    assert open_snapshot(storage).row_count == 30


def test_a_missing_or_different_file_is_refused(tmp_path):
    storage, base = new_table(tmp_path)
    write_id = new_write_id()
    absent, _ = describe_segment(write_id)
    with pytest.raises(CommitError, match="PROJSEG_SEGMENT_MISSING"):
        do(storage, base, Append((absent,)), write_id)
    longer = put_segment(storage, write_id, number=1, byte_count=999)
    with pytest.raises(CommitError, match="PROJSEG_SEGMENT_DIFFERS"):
        do(storage, base, Append((longer,)), write_id)
    other = put_segment(storage, write_id, number=2, footer_checksum=1)
    with pytest.raises(CommitError, match="PROJSEG_SEGMENT_DIFFERS"):
        do(storage, base, Append((other,)), write_id)
    opaque, _ = describe_segment(write_id, number=3, byte_count=64)
    storage.put_if_absent(opaque.file, b"x" * 64)
    with pytest.raises(CorruptSegmentError):
        do(storage, base, Append((opaque,)), write_id)
    assert latest_version(storage) == 0


def test_forged_entries_are_refused(tmp_path):
    storage, base = new_table(tmp_path)
    write_id, other = new_write_id(), new_write_id()
    good = put_segment(storage, write_id)
    foreign = put_segment(storage, other)
    second_attempt = put_segment(storage, write_id, attempt=1)
    lying = put_segment(storage, other, number=7)
    lying = structs.replace(lying, write_id=write_id)
    outside = put_segment(storage, write_id, number=5, min_time_us=-1)
    for entries in [
        (good, good),
        (foreign,),
        (good, second_attempt),
        (lying,),
        (outside,),
        (describe_segment(write_id, file="data/../../etc/passwd")[0],),
    ]:
        with pytest.raises(InvalidInputError, match="PROJSEG_BAD_COMMIT_ENTRY"):
            do(storage, base, Append(entries), write_id)
    assert latest_version(storage) == 0


def test_not_a_table_is_told_from_a_damaged_one(tmp_path):
    assert not holds_table(tmp_path)
    assert not holds_table(tmp_path / "missing")
    (tmp_path / "plain").write_text("x")
    assert not holds_table(tmp_path / "plain")
    with pytest.raises(InvalidInputError, match="PROJSEG_NOT_A_TABLE"):
        open_snapshot(open_storage(tmp_path))
    storage, base = new_table(tmp_path / "t")
    add(storage, base)
    for snapshot in (tmp_path / "t" / "_projseg").glob("0*.json"):
        snapshot.unlink()
    assert any(storage.list_names(MANIFEST_PREFIX))
    for look in (holds_table, lambda place: new_table(place)):
        with pytest.raises(CorruptTableError):
            look(tmp_path / "t")


def test_manifests_without_a_snapshot_are_a_lost_log_or_a_creation(tmp_path):
    storage, base = new_table(tmp_path / "t")
    add(storage, base)
    for version in (0, 1):
        (tmp_path / "t" / snapshot_name(version)).unlink()
    with pytest.raises(CorruptTableError, match="its log was lost"):
        open_snapshot(storage)
    storage.put_if_absent(new_probe_name(), b"")
    assert not holds_table(tmp_path / "t")
    write_id = new_write_id()
    entry = put_segment(storage, write_id)
    created = create_table(storage, small_properties(), entries=[entry], write_id=write_id)
    assert files_of(created) == files_of(open_snapshot(storage)) == [entry.file]


@pytest.mark.folder
def test_what_a_lost_newest_version_leaves_is_found_as_a_hint(tmp_path):
    storage, base = new_table(tmp_path / "t")
    snapshot, _ = add(storage, base)
    later, _ = add(storage, snapshot)
    assert later_manifests(later) == []
    (tmp_path / "t" / snapshot_name(2)).unlink()
    older = open_snapshot(storage)
    assert older.version == 1
    assert later_manifests(older) == [later.file.manifests[-1].name]


def test_an_unknown_version_is_named(tmp_path):
    storage, _ = new_table(tmp_path)
    for version in (1, -1):
        with pytest.raises(InvalidInputError, match="the newest is 0"):
            open_snapshot(storage, version)


@pytest.mark.parametrize(
    "metrics", [{"rows": 2**63}, {"rows": np.int64(1)}, {"rows": 1.5}, {"rows\ud800": 1}]
)
def test_what_cannot_be_stored_is_refused_before_it_is_published(tmp_path, metrics):
    storage, base = new_table(tmp_path)
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_ARGUMENT"):
        commit(
            storage,
            base,
            SetProperties(),
            write_id=new_write_id(),
            operation="x",
            metrics=metrics,
        )
    assert latest_version(storage) == 0


@pytest.mark.parametrize(
    "zone",
    [
        ColumnZone(float("nan"), 1.0, 0, False, True, 0),
        ColumnZone(0.0, float("inf"), 0, False, True, 0),
        ColumnZone(0, 1, -1, False, True, 0),
        ColumnZone(0, 1, 2**63, False, True, 0),
        ColumnZone(0, "\ud800", 0, False, True, 0),
        ColumnZone(0, np.int64(1), 0, False, True, 0),
        ColumnZone(True, False, 0, False, True, 0),
    ],
)
def test_an_entry_that_would_come_back_different_is_refused(tmp_path, zone):
    storage, base = new_table(tmp_path)
    write_id = new_write_id()
    entry = put_segment(storage, write_id, columns={"added": zone})
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_COMMIT_ENTRY"):
        do(storage, base, Append((entry,)), write_id)


def test_the_cache_keeps_within_its_budget(tmp_path):
    storage, snapshot = new_table(tmp_path)
    for hour in range(6):
        snapshot, _ = add(storage, snapshot, hour=hour)
    references = snapshot.file.manifests
    cache = ManifestCache(Cache(3 * references[0].byte_count + ENTRY_BYTES))
    first = cache.load(storage, references[0])
    assert cache.load(storage, references[0]) is first
    first.entry(0)
    cache.load(storage, references[0])
    assert cache.load(storage, references[0]) is not first, "grown past the budget, it was kept"
    for reference in references:
        cache.load(storage, reference)
    storage.delete(references[0].name)
    with pytest.raises(CorruptTableError):
        cache.load(storage, references[0])
    assert cache.load(storage, references[5]) is cache.load(storage, references[5])


def test_a_listed_file_that_was_exchanged_is_found(tmp_path):
    storage, snapshot = new_table(tmp_path)
    snapshot, first = add(storage, snapshot)
    snapshot, second = add(storage, snapshot)
    listed_ending(storage, first)
    (tmp_path / first.file).write_bytes((tmp_path / second.file).read_bytes())
    with pytest.raises(CorruptTableError, match="PROJSEG_SEGMENT_DIFFERS"):
        listed_ending(storage, first)
    (tmp_path / first.file).write_bytes(b"short")
    with pytest.raises(CorruptTableError, match="PROJSEG_SEGMENT_DIFFERS"):
        listed_ending(storage, first)
    storage.delete(first.file)
    with pytest.raises(CorruptTableError, match="PROJSEG_SEGMENT_MISSING"):
        listed_ending(storage, first)


def test_reading_past_the_end_is_corruption(tmp_path):
    storage, snapshot = new_table(tmp_path)
    _, entry = add(storage, snapshot)
    assert len(storage.read_range(entry.file, 0, entry.byte_count)) == entry.byte_count
    assert storage.read_range(entry.file, entry.byte_count, 0) == b""
    for offset, size in [(0, entry.byte_count + 1), (2**62, 1), (0, 2**62), (-1, 1), (5, -1)]:
        with pytest.raises(CorruptTableError, match="PROJSEG_FILE_CUT_SHORT"):
            storage.read_range(entry.file, offset, size)


def test_time_pruning_is_exact_at_both_ends(tmp_path):
    storage, snapshot = new_table(tmp_path)
    write_id = new_write_id()
    entries = tuple(put_segment(storage, write_id, number=n, hour=2 * n) for n in (0, 1))
    snapshot = do(storage, snapshot, Append(entries), write_id)
    hour0, hour2 = entries
    last = HOUR_US - 1
    assert snapshot.segments_between(last, last + 1) == [hour0]
    assert snapshot.segments_between(last + 1, 2 * HOUR_US) == []
    assert snapshot.segments_between(3 * HOUR_US - 1, 9 * HOUR_US) == [hour2]
    manifest = snapshot.load(snapshot.file.manifests[0])
    assert manifest.overlapping(last, 2 * HOUR_US).tolist() == [0]
    assert manifest.overlapping(last + 1, 2 * HOUR_US + 1).tolist() == [1]


def test_a_base_of_another_table_conflicts(tmp_path):
    for appended in (0, 1):
        storage, old = new_table(tmp_path / "t")
        old, _ = add(storage, old)
        (tmp_path / "t").rename(tmp_path / f"old{appended}")
        _, new = new_table(tmp_path / "t")
        for _ in range(2 * appended):
            new, _ = add(storage, new)
        with pytest.raises(CommitConflictError):
            add(storage, old)
        (tmp_path / "t").rename(tmp_path / f"new{appended}")


def test_rows_without_a_time_are_not_overwritten(tmp_path):
    storage, base = new_table(tmp_path)
    base, _ = add(storage, base, columns={"time": ColumnZone(0, 1, 5, False, True, 8)})
    with pytest.raises(InvalidInputError, match="PROJSEG_INTERVAL_NOT_ALIGNED"):
        do(storage, base, Overwrite((), (0, HOUR_US)))


def test_a_property_set_by_two_conflicts(tmp_path):
    storage, base = new_table(tmp_path)
    do(storage, base, SetProperties(properties={"owner": "us"}))
    with pytest.raises(CommitConflictError, match="'owner'"):
        do(storage, base, SetProperties(properties={"owner": "them"}))

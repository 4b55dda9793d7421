"""Indexes over a table's life: verbs that write segments keep them covered, none goes stale."""

import datetime
import json

import msgspec
import pyarrow as pa
import pytest

import projseg
from projseg.errors import (
    CommitConflictError,
    CorruptTableError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from projseg.maintenance import gather_blooms
from projseg.segment_format.footer import parse_tail
from projseg.segment_format.indexes import index_kinds
from projseg.segment_format.indexes.bloom_file import BLOOM_TAIL_MAGIC, BloomFile
from projseg.table.table_version import state_of
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata import checksummed_json
from projseg.table_layer.metadata.change import ListBloomFiles
from projseg.table_layer.metadata.checksummed_json import seal
from projseg.table_layer.metadata.snapshot import SnapshotFile, encode_snapshot, open_snapshot
from projseg.table_layer.storage.paths import new_write_id, parse_bloom_name

START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
SCHEMA = {"time": "timestamp", "visit": "string", "user": "int", "price": "decimal(10,2)"}
VISITS = projseg.Index("Visits", ["visit", "user"])


def rows(first, count=200):
    numbers = range(first, first + count)
    return pa.table(
        {
            "time": [START + datetime.timedelta(minutes=n) for n in numbers],
            "visit": [None if n % 50 == 7 else f"visit {n:07}" for n in numbers],
            "user": pa.array([n % 61 for n in numbers], pa.int32()),
            "price": pa.array(list(numbers), pa.decimal128(10, 2)),
        }
    )


def made(tmp_path, indexes=(VISITS,), count=400, **options):
    return projseg.Table.create(
        tmp_path / "t",
        SCHEMA,
        time_column="time",
        target_segment_rows=50,
        indexes=indexes,
        data=rows(0, count),
        **options,
    )


def state(table):
    """(segments, covered) of each column of each index, the table opened anew."""
    found = projseg.Table(table.location).indexes().to_pylist()
    return {(row["segments"], row["covered"]) for row in found}


def assert_covered(table):
    ((segments, covered),) = state(table)
    assert segments == covered > 0
    assert table.verify(deep=True) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["bloom", "token", "ngram"])
def test_every_verb_leaves_all_segments_covered(tmp_path, kind):
    table = made(tmp_path, [VISITS if kind == "bloom" else projseg.Index("v", "visit", kind=kind)])
    spec = {"name": "p", "groupBy": ["user"], "aggregators": ["count(*) AS n"]}
    verbs = [
        lambda: table.append(rows(400)),
        lambda: table.delete("user = 3"),
        lambda: table.delete(interval="2024-05-01T01:00:00Z/2024-05-01T02:10:00Z"),
        lambda: table.update({"visit": "concat(visit, '!')"}, "user < 20"),
        lambda: table.merge(rows(590, 30), on=["visit"]),
        lambda: table.add_projection(spec, materialize=True),
        lambda: table.rename_column("visit", "call"),
        lambda: table.widen_column("user", "bigint"),
        lambda: table.append(rows(700).rename_columns(["time", "call", "user", "price"])),
        lambda: table.overwrite(
            rows(100, 20).rename_columns(["time", "call", "user", "price"]),
            interval="2024-05-01T01:40:00Z/2024-05-01T02:00:00Z",
        ),
        lambda: table.overwrite(
            rows(0, 3).rename_columns(["time", "call", "user", "price"]), filter="user < 3"
        ),
        lambda: table.compact(),
        lambda: table.restore(version=3),
        lambda: table.erase("user = 30"),
        lambda: table.overwrite(rows(50)),
    ]
    for verb in verbs:
        verb()
        table.refresh()
        assert_covered(table)
    assert table.indexes()["column"].to_pylist()[0] == "visit"
    table.truncate()
    assert table.snapshot.bloom_files == ()


@pytest.mark.parametrize("type_", ["bigint", "decimal(12,0)"])
def test_a_wider_integer_is_served_by_the_filters_of_the_narrow_one(tmp_path, type_):
    table = made(tmp_path, [projseg.Index("u", "user")])
    table.append(rows(1000, 1).set_column(2, "user", pa.array([977], pa.int32())))
    table.widen_column("user", type_)
    explained = table.explain(columns=["visit"], filter="user = 977")
    assert explained.figures.opened_segments == 1
    assert explained.indexes["used"].to_pylist() == [True]
    table.append(rows(2000, 60))
    assert_covered(table)


def test_a_type_of_other_hashes_is_not_asked_until_the_index_is_built_anew(tmp_path):
    table = made(tmp_path, [projseg.Index("u", "user")])
    table.widen_column("user", "double")
    table.append(rows(2000, 60))
    assert table.indexes()["status"].to_pylist() == ["DISABLED"]
    explained = table.explain(columns=["visit"], filter="user = 7")
    assert explained.indexes["reason"].to_pylist() == ["TYPE_CHANGED"]
    table.drop_index("U")
    table.add_index(projseg.Index("u", "user"), materialize=True)
    assert_covered(table)
    expected = [n for n in (*range(400), *range(2000, 2060)) if n % 61 == 7 and n % 50 != 7]
    found = table.query(columns=["visit"], filter="user = 7 AND visit IS NOT NULL")
    assert sorted(found["visit"].to_pylist()) == [f"visit {n:07}" for n in expected]


def test_an_indexed_column_cannot_be_dropped(tmp_path):
    table = made(tmp_path)
    with pytest.raises(InvalidInputError, match="'Visits'") as refused:
        table.drop_column("visit")
    assert refused.value.code == "PROJSEG_COLUMN_IN_USE"
    table.drop_index("visits")
    table.drop_column("visit")
    assert table.indexes().num_rows == 0
    assert "indexes" not in table.snapshot.file.required_features


def test_old_segments_are_built_from_hashes_alone(tmp_path, monkeypatch):
    table = made(tmp_path, [])
    before = table.snapshot
    table.add_index(VISITS)
    assert state(table) == {(8, 0)}
    progress = []
    table.materialize_index("VISITS", on_progress=lambda *done: progress.append(done))
    assert_covered(table)
    assert [entry.file for entry in table.snapshot.segments] == [
        entry.file for entry in before.segments
    ]
    assert progress[-1] == (16, 16)
    version = table.version
    assert table.materialize_index().version == version


def test_a_part_of_the_time_and_deferred_builds(tmp_path):
    table = made(tmp_path, [])
    table.add_index(VISITS, build="deferred", interval="2024-05-01T01:40:00Z/2024-05-02")
    table.append(rows(400, 100))
    assert state(table) == {(10, 0)}
    table.materialize_index(interval="2024-05-01T03:20:00Z/2024-05-01T04:10:00Z")
    assert state(table) == {(10, 1)}
    table.materialize_index()
    assert state(table) == {(10, 8)}
    table.delete("minute(time) = 3")  # rewrites no segment, or builds what a rewritten one had
    table.compact(target_segment_rows=250)
    assert len({covered for _, covered in state(table)}) == 1


def test_a_filter_too_large_beside_its_columns_is_skipped(tmp_path):
    table = made(tmp_path, [])
    table.add_index(VISITS, materialize=True, max_bytes_ratio=0.001)
    found = table.indexes().to_pylist()
    assert {(row["covered"], row["skipped"], row["status"]) for row in found} == {(0, 8, "PARTIAL")}
    version = table.version
    assert table.materialize_index().version == version
    assert len(table.query(columns=["user"], filter="visit = 'visit 0000001'")) == 1


def test_small_files_are_gathered_after_commits_and_gone_segments_by_compact(tmp_path):
    table = made(tmp_path, [projseg.Index("v", "visit")], properties={"compactMinSegments": "1000"})
    for number in range(40):
        table.append(rows(1000 + 10 * number, 10))
    assert len(table.snapshot.bloom_files) < 12
    assert_covered(table)
    expected = table.query(columns=["user"], filter="visit = 'visit 0001234'").to_pylist()
    assert len(expected) == 1
    table.delete("user < 40")
    table.compact()
    (only,) = table.snapshot.bloom_files
    assert only.segment_count == len(table.snapshot.segments)
    assert_covered(table)


def test_gathering_gives_way_to_whoever_changed_the_list(tmp_path):
    table = made(tmp_path)
    table.append(rows(400))
    old = open_snapshot(table.snapshot.storage)
    gathered = gather_blooms.gather_all(old)
    assert len(gathered.bloom_files) == 2
    assert gather_blooms.gather_all(old) is old  # it lost, and removed what it wrote
    names = {name for name in data_files(table) if parse_bloom_name(name)}
    assert names == {one.name for one in (*old.bloom_files, *gathered.bloom_files)}
    with pytest.raises(CommitConflictError):
        commit(
            old.storage,
            old,
            ListBloomFiles((), frozenset({"data/none.pblm"})),
            write_id=new_write_id(),
            operation="gather indexes",
        )


def test_an_append_beside_gathering_loses_nothing(tmp_path):
    table = made(tmp_path)
    other = projseg.Table(table.location)
    table.append(rows(400))
    gather_blooms.gather_all(open_snapshot(table.snapshot.storage))
    other.append(rows(700))
    assert_covered(other)


def data_files(table):
    return {file.name for file in table.snapshot.storage.list_names("data/")}


def content_of(table, name):
    storage = table.snapshot.storage
    return storage.read_range(name, 0, storage.size(name))


def test_vacuum_keeps_what_kept_versions_list_and_removes_the_rest(tmp_path):
    table = made(tmp_path)
    table.tag("first")
    table.append(rows(400))
    table.compact()
    table.drop_index("Visits")
    table.vacuum(0, dry_run=False, force=True)
    listed = {one.name for one in projseg.Table(table.location, tag="first").snapshot.bloom_files}
    assert {name for name in data_files(table) if parse_bloom_name(name)} == listed != set()
    table.drop_tag("first")
    table.vacuum(0, dry_run=False, force=True)
    assert not {name for name in data_files(table) if parse_bloom_name(name)}


def test_a_failed_write_leaves_no_bloom_file(tmp_path, monkeypatch):
    table = made(tmp_path)
    before = data_files(table)
    table.rename_column("user", "person")  # others
    with pytest.raises(InvalidInputError):
        table.append(rows(400))
    first, second = projseg.Table(table.location), projseg.Table(table.location)
    named = rows(400).rename_columns(["time", "visit", "person", "price"])
    first.delete("person = 1")
    monkeypatch.setattr(state_of(second), "refresh", lambda: None)
    with pytest.raises(CommitConflictError):
        second.overwrite(named, interval="2024-05-01/2024-05-02")
    assert data_files(first) - before <= {
        file for entry in first.snapshot.segments for file in entry.files
    } | {one.name for one in first.snapshot.bloom_files}


@pytest.mark.parametrize(
    ("index", "code"),
    [
        (projseg.Index("a", "nothing"), "PROJSEG_UNKNOWN_COLUMN"),
        (projseg.Index("a", "visit", kind="brin"), "PROJSEG_BAD_INDEX"),
        (projseg.Index("a", "visit", fpp=0.5), "PROJSEG_BAD_INDEX"),
        (projseg.Index("a", "visit", fpp="x"), "PROJSEG_BAD_INDEX"),
        (projseg.Index("a", "ok"), "PROJSEG_BAD_INDEX"),
        (projseg.Index("a", "tags"), "PROJSEG_BAD_INDEX"),
        (projseg.Index("a", []), "PROJSEG_BAD_INDEX"),
        (projseg.Index("a", ["visit", "VISIT"]), "PROJSEG_BAD_INDEX"),
        (projseg.Index("a", "lower(visits)"), "PROJSEG_UNKNOWN_COLUMN"),
        (projseg.Index("", "visit"), "PROJSEG_BAD_NAME"),
        (projseg.Index("VISITS", "user"), "PROJSEG_INDEX_EXISTS"),
        ('{"name": "a"}', "PROJSEG_BAD_INDEX"),
        ('{"name": "a", "columns": "visit", "size": 1}', "PROJSEG_BAD_INDEX"),
        ("{", "PROJSEG_BAD_INDEX"),
    ],
)
def test_what_cannot_be_an_index_is_refused_before_a_file_exists(tmp_path, index, code):
    schema = {**SCHEMA, "ok": "boolean", "tags": "array<string>"}
    table = projseg.Table.create(tmp_path / "t", schema, indexes=[VISITS])
    with pytest.raises(InvalidInputError) as refused:
        table.add_index(index)
    assert refused.value.code == code
    assert table.version == projseg.Table(table.location).version == 0


def test_unknown_indexes_are_refused_with_the_nearest_name(tmp_path):
    table = made(tmp_path)
    for call in (table.drop_index, table.materialize_index):
        with pytest.raises(InvalidInputError, match="Visits") as refused:
            call("visit")
        assert refused.value.code == "PROJSEG_UNKNOWN_INDEX"
    many = [projseg.Index(f"i{n}", "visit") for n in range(65)]
    with pytest.raises(InvalidInputError) as refused:
        made(tmp_path / "other", many)
    assert refused.value.code == "PROJSEG_LIMIT_EXCEEDED"


def test_tables_without_indexes_keep_their_bytes(tmp_path):
    table = made(tmp_path, [])
    assert b"indexes" not in content_of(table, f"_projseg/{0:020}.json")
    table.add_index(VISITS)
    table.drop_index("visits")
    assert b'"indexes"' not in content_of(table, f"_projseg/{2:020}.json")


def test_an_older_release_refuses_the_table_and_names_the_feature(tmp_path, monkeypatch):
    table = made(tmp_path)
    known = checksummed_json.SUPPORTED_FEATURES - {"indexes"}
    monkeypatch.setattr(checksummed_json, "SUPPORTED_FEATURES", known)
    with pytest.raises(UnsupportedFeatureError, match="indexes"):
        projseg.Table(table.location)


def forged(table, change):
    """The newest snapshot with other indexes, its checksum repaired."""
    file = table.snapshot.file
    indexes = json.loads(msgspec.json.encode(file.indexes))
    change(indexes)
    fields = {name: getattr(file, name) for name in file.__struct_fields__}
    fields["indexes"] = msgspec.convert(indexes, type(file.indexes))
    storage, name = table.snapshot.storage, f"_projseg/{table.version:020}.json"
    storage.delete(name)
    storage.put_if_absent(name, seal(SnapshotFile(**fields)))


def first_hash(indexes):
    return indexes["declared"][0]["columns"][0][1]


@pytest.mark.parametrize(
    "change",
    [
        lambda indexes: indexes.update(declared=[]),
        lambda indexes: indexes["declared"].append(indexes["declared"][0]),
        lambda indexes: indexes["declared"][0].update(kind="brin"),
        lambda indexes: indexes["declared"][0].update(name="a\nb"),
        lambda indexes: indexes["declared"][0]["columns"].pop(),
        lambda indexes: indexes["declared"][0]["columns"][0].__setitem__(0, "user"),
        lambda indexes: indexes["definitions"].update({"0" * 32: "{}"}),
        lambda indexes: indexes["definitions"].update(
            {first_hash(indexes): indexes["definitions"][first_hash(indexes)].replace("17", "18")}
        ),
        lambda indexes: indexes["files"].append(indexes["files"][0]),
        lambda indexes: indexes["files"][0].__setitem__(1, "data/../../x.pblm"),
        lambda indexes: indexes["files"][0].__setitem__(0, "0" * 32),
        lambda indexes: indexes["files"][0].__setitem__(3, 2**40),
    ],
)
def test_forged_lists_are_refused(tmp_path, change):
    table = made(tmp_path)
    forged(table, lambda indexes: None)
    projseg.Table(table.location)
    forged(table, change)
    with pytest.raises(CorruptTableError):
        projseg.Table(table.location)


def test_a_snapshot_states_what_the_specification_says(tmp_path):
    table = made(tmp_path, [projseg.Index("Visits", "visit", fpp=0.01)])
    stated = json.loads(encode_snapshot(table.snapshot.file))
    assert stated["required_features"][-2:] == ["indexes", "optional"]
    (index,) = stated["indexes"]["declared"]
    ((text, digest),) = index["columns"]
    assert (index["name"], index["kind"], text) == ("Visits", "bloom", "visit")
    assert index["properties"] == {"fpp": "0.01"}
    assert json.loads(stated["indexes"]["definitions"][digest]) == {
        "kind": "bloom",
        "column": "visit",
        "type": "string",
        "bits": 11,
        "postings": False,
        "unicode": None,
    }
    (file,) = stated["indexes"]["files"]
    assert file[0] == digest
    assert file[5] == 8


@pytest.mark.parametrize("kind", ["bloom", "token", "ngram"])
def test_erased_values_are_in_no_filter(tmp_path, kind):
    """A filter of a segment that is gone would still answer for its keys."""
    table = made(tmp_path, [projseg.Index("v", "visit", kind=kind)])
    gather_blooms.gather_all(table.snapshot)
    table.refresh()
    table.erase("user = 30")
    table.refresh()
    listed = {entry.file for entry in table.snapshot.segments}
    files = [name for name in data_files(table) if parse_bloom_name(name)]
    assert files
    for name in files:
        content = content_of(table, name)
        tail = parse_tail(content[-40:], len(content), name, BLOOM_TAIL_MAGIC)[0]
        file = BloomFile.open(content[tail.footer_offset :], len(content), name)
        assert {one.file for one in file.footer.segments} <= listed


def test_words_of_another_unicode_are_not_asked_and_not_written(tmp_path, monkeypatch):
    table = made(tmp_path, [projseg.Index("v", "visit", kind="token")])
    later = index_kinds.TOKEN._replace(unicode="99.0.0")
    asked = {"columns": ["user"], "filter": "text_match(visit, '0000077')"}
    with monkeypatch.context() as patch:
        patch.setitem(index_kinds.KINDS, "token", later)
        table.append(rows(400))
        assert table.explain(**asked).indexes["reason"].to_pylist() == ["TYPE_CHANGED"]
        assert table.query(**asked)["user"].to_pylist() == [77 % 61]
        assert table.indexes()["status"].to_pylist() == ["DISABLED"]
        assert table.materialize_index().version == table.version
        assert table.verify(deep=True) == []
    assert table.query(**asked)["user"].to_pylist() == [77 % 61]
    ((segments, covered),) = state(table)
    assert segments > covered > 0
    table.materialize_index()
    assert_covered(table)

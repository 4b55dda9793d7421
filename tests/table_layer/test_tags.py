"""Tags: what they may be, what they open, and what two writers make of them."""

import msgspec
import pytest
from small_tables import new_table, new_write_id

import projseg
from projseg.errors import CommitConflictError, CorruptTableError, InvalidInputError
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata import checksummed_json
from projseg.table_layer.metadata.change import Expire, SetTags
from projseg.table_layer.metadata.metadata_limits import TAGS_MAX
from projseg.table_layer.metadata.snapshot import SnapshotFile, open_snapshot


@pytest.fixture
def table(tmp_path):
    made = projseg.Table.create(tmp_path / "t", {"n": "int"})
    made.append([{"n": 1}])
    made.append([{"n": 2}])
    return made


def rows_of(table):
    return sorted(table.query(columns="n")["n"].to_pylist())


def change(storage, base, what):
    return commit(storage, base, what, write_id=new_write_id(), operation="test")


def test_a_tag_opens_and_restores_its_version(table):
    assert table.tag("before-import", 1) == 3
    assert table.tag("v2.0_final") == 4
    assert table.tags().to_pylist() == [
        {"tag": "before-import", "version": 1},
        {"tag": "v2.0_final", "version": 3},
    ]
    tagged = projseg.Table(table.location, tag="before-import")
    assert (tagged.version, rows_of(tagged)) == (1, [1])
    with pytest.raises(InvalidInputError, match="PROJSEG_PINNED_VERSION"):
        tagged.append([{"n": 3}])
    assert tagged.tags().num_rows == 2
    table.restore(tag="before-import")
    assert rows_of(table) == [1]
    assert table.tags().num_rows == 2
    assert table.history().to_pylist()[0]["operationParameters"] == [
        ("version", "1"),
        ("tag", "before-import"),
    ]
    assert table.drop_tag("before-import") == 6
    with pytest.raises(InvalidInputError, match=r"PROJSEG_UNKNOWN_TAG.*'before-import'"):
        projseg.Table(table.location, tag="before-import")


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "name", ["", "7", "2024", "a b", "../x", ".x", "-x", "a/b", "ä", "a\n", "x" * 129]
)
def test_a_tag_that_could_be_something_else_is_refused(table, name):
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_NAME"):
        table.tag(name)
    assert table.version == 2


@pytest.mark.parametrize("name", ["a", "_", "2024-05-01", "1x", "x" * 128])
def test_other_names_are_tags(table, name):
    table.tag(name, 0)
    assert projseg.Table(table.location, tag=name).version == 0


def test_a_tag_is_not_moved_in_silence(table):
    table.tag("a", 1)
    with pytest.raises(InvalidInputError, match=r"PROJSEG_TAG_EXISTS.*version 1"):
        table.tag("a", 2)
    table.tag("a", 1)
    table.drop_tag("a")
    table.tag("a", 2)
    assert projseg.Table(table.location, tag="a").version == 2


def test_what_is_not_there_is_refused(table):
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_VERSION"):
        table.tag("a", 17)
    table.tag("release")
    with pytest.raises(InvalidInputError, match=r"PROJSEG_UNKNOWN_TAG.*did you mean 'release'"):
        table.drop_tag("relase")
    with pytest.raises(InvalidInputError, match=r"PROJSEG_BAD_ARGUMENT.*each name a version"):
        projseg.Table(table.location, version=1, tag="release")


def test_two_writers_of_one_tag_conflict_and_of_two_do_not(tmp_path):
    storage, base = new_table(tmp_path / "t")
    base = change(storage, base, Expire(0))
    change(storage, base, SetTags({"a": 0}))
    with pytest.raises(CommitConflictError, match="tag 'a'"):
        change(storage, base, SetTags({"a": 1}))
    change(storage, base, SetTags({"b": 1}))
    assert open_snapshot(storage).tags == {"a": 0, "b": 1}


def test_a_version_that_a_vacuum_takes_cannot_be_tagged(tmp_path):
    storage, base = new_table(tmp_path / "t")
    base = change(storage, base, Expire(0))
    change(storage, base, Expire(1))
    with pytest.raises(CommitConflictError, match="no longer kept"):
        change(storage, base, SetTags({"a": 0}))


def test_tags_are_bounded(tmp_path):
    storage, base = new_table(tmp_path / "t")
    full = change(storage, base, SetTags({f"t{number}": 0 for number in range(TAGS_MAX)}))
    with pytest.raises(InvalidInputError, match="PROJSEG_TOO_MANY_NAMES"):
        change(storage, full, SetTags({"more": 0}))


@pytest.mark.folder
@pytest.mark.parametrize(
    ("tags", "told"),
    [
        ({"a": 3}, "names version 3"),
        ({"../a": 0}, "letters"),
        ({"b": 0, "a": 0}, "not in order"),
        ({f"t{number:05}": 0 for number in range(TAGS_MAX + 1)}, "at most"),
    ],
)
def test_tags_that_nobody_could_have_set_are_corruption(table, tmp_path, tags, told):
    table.tag("a", 0)
    newest = max((tmp_path / "t" / "_projseg").glob("*.json"))
    file = msgspec.json.decode(newest.read_bytes(), type=SnapshotFile)
    newest.write_bytes(checksummed_json.seal(msgspec.structs.replace(file, tags=tags)))
    with pytest.raises(CorruptTableError, match=told):
        projseg.Table(table.location)

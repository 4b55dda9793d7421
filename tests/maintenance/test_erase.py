"""An erasure removes rows from every file that no tag keeps, and tells what still holds them."""

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

import projseg
from projseg.errors import InvalidInputError
from projseg.memory.cache import KEPT
from projseg.table_layer.storage.paths import kept_name, new_write_id, segment_name

SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
        ("city", pa.string()),
        ("code", pa.int64()),
        ("notes", pa.list_(pa.string())),
    ]
)
BY_NAME = {"name": "by_name", "sql": "SELECT name, max(city) AS c, count(*) AS n GROUP BY ALL"}
DAY = 86_400_000_000
ALICE = "name = 'alice smith'"


def people(*names, day=0):
    return pa.table(
        {
            "time": [day * DAY + n for n in range(len(names))],
            "name": names,
            "city": [f"{name} city" for name in names],
            "code": [len(name) for name in names],
            "notes": [[f"of {name}"] for name in names],
        },
        schema=SCHEMA,
    )


@pytest.fixture
def table(tmp_path):
    """Two days of persons, alice on both, with a projection."""
    made = projseg.Table.create(
        tmp_path / "t",
        SCHEMA,
        time_column="time",
        segment_granularity="day",
        projections=[BY_NAME],
        properties={"maxDeletedRatio": "0.9"},
    )
    made.append(people("alice smith", "bob", "carol"))
    made.append(people("dave", "alice smith", day=1))
    return made


def files_with(table, text):
    """The files with a text among their bytes; `tests/independent` looks into every page."""
    paths = Path(table.location).rglob("*.*")
    return [path.name for path in paths if text.encode() in path.read_bytes()]


def names_of(table):
    return sorted(table.query(columns="name")["name"].to_pylist())


def test_nothing_is_found_where_no_tag_keeps_anything(table):
    done = table.erase(ALICE)
    assert (done.deleted_rows, done.rewritten_segments) == (2, 2)
    assert done.found.to_pylist() == []
    assert done.searched_texts == 1
    assert done.searched_values > 5
    assert done.removed_files >= 4
    assert names_of(table) == ["bob", "carol", "dave"]
    assert files_with(table, "alice") == []
    assert table.verify(deep=True, all_versions=True) == []
    assert table.erase(ALICE).deleted_rows == 0


def test_a_tag_is_told_with_its_rows_files_and_metadata(table):
    table.tag("before")
    done = table.erase(ALICE)
    told = done.found.to_pylist()
    assert {tag for one in told for tag in one["tags"]} == {"before"}
    assert all(one["versions"] == [2] for one in told)
    assert {"rows", "texts"} <= {one["what"] for one in told}
    (rows,) = [one for one in told if one["what"] == "rows"]
    assert rows["count"] == 2
    assert "before" in rows["advice"]
    segments = {one["file"] for one in told if one["file"].endswith(".pseg")}
    tagged = projseg.Table(table.location, tag="before").snapshot
    assert segments == {entry.file for entry in tagged.segments}
    table.drop_tag("before")
    assert table.erase(ALICE).found.to_pylist() == []
    assert files_with(table, "alice") == []


def test_rows_that_were_only_hidden_before_go_too(table):
    table.delete(ALICE)
    assert files_with(table, "alice") != []
    done = table.erase(ALICE)
    assert done.deleted_rows == 0
    assert done.rewritten_segments == 2
    assert done.found.to_pylist() == []
    assert files_with(table, "alice") == []


def test_hidden_rows_of_a_tag_are_told(table):
    table.delete(ALICE)
    table.tag("hidden")
    told = table.erase(ALICE).found.to_pylist()
    assert [one["count"] for one in told if one["what"] == "hidden rows"] == [2]
    assert len([one for one in told if one["file"].endswith(".pseg")]) == 2


def test_a_number_is_asked_of_what_a_tag_keeps(table):
    table.tag("before")
    told = table.erase("code = 11").found.to_pylist()
    assert [(one["what"], one["count"], one["tags"]) for one in told] == [("rows", 2, ["before"])]


def test_texts_that_other_rows_have_are_not_looked_for(table):
    table.tag("before")
    done = table.erase("name = 'bob' OR city = 'dave city' AND name <> 'carol'")
    assert (done.deleted_rows, done.searched_texts) == (2, 4)
    assert projseg.Table(table.location, tag="before").snapshot.version == 2
    assert "carol" in names_of(table)


def test_what_describes_commits_and_declares_is_searched(table):
    noted = projseg.Table(table.location)
    noted.commit_as(user_metadata="asked for by alice smith, by mail").delete("name = 'carol'")
    table.refresh().tag("told")
    table.add_projection(
        {
            "name": "hers",
            "groupBy": ["city"],
            "aggregators": ["count(*) AS n"],
            "filter": ALICE,
        }
    )
    told = projseg.Table(table.location).erase(ALICE).found.to_pylist()
    history = [one for one in told if one["what"] == "history"]
    assert [one["file"] for one in history] == [kept_name(3)]
    declared = [one for one in told if "declare it otherwise" in one["advice"]]
    assert {one["what"] for one in declared} == {"texts"}
    table.refresh().drop_projection("hers")
    table.drop_tag("told")
    assert table.erase(ALICE).found.to_pylist() == []


def test_a_version_that_retention_keeps_is_told(table):
    told = table.erase(ALICE, retention_hours=24).found.to_pylist()
    assert {tuple(one["tags"]) for one in told} == {()}
    assert any("vacuum later" in one["advice"] for one in told)


def test_a_file_that_no_version_lists_is_told(table):
    (entry, *_) = table.snapshot.segments
    stray = segment_name(new_write_id(), 0, 0, 0)
    content = Path(table.location, entry.file).read_bytes()
    path = Path(table.location, stray)
    path.write_bytes(content)
    later = time.time() + 3600
    os.utime(path, (later, later))
    told = table.erase(ALICE, retention_hours=1).found.to_pylist()
    assert (stray, [], "texts") in [(one["file"], one["versions"], one["what"]) for one in told]
    assert table.erase(ALICE).found.to_pylist() == []
    assert not path.exists()


def test_an_erasure_without_a_filter_is_refused(table):
    for filter in (None, "", "  "):
        with pytest.raises(InvalidInputError, match="PROJSEG_BAD_QUERY"):
            table.erase(filter)
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_COLUMN"):
        table.erase("nosuch = 1")
    assert table.version == projseg.Table(table.location).version


@pytest.mark.parametrize(
    ("filter", "args"),
    [
        ("name = :who", {"who": "alice smith"}),
        ("name IN (?)", [["alice smith", "zoe"]]),
        ("contains(name, ?) AND code > ?", ["alice", 3]),
    ],
)
def test_values_come_as_parameters(table, filter, args):
    table.tag("before")
    done = table.erase(filter, args=args)
    assert done.deleted_rows == 2
    assert {"rows", "texts"} == set(done.found["what"].to_pylist())
    table.drop_tag("before")
    assert table.erase(filter, args=args).found.to_pylist() == []
    assert files_with(table, "alice") == []


def test_a_part_of_a_word_is_not_a_text(table):
    """Names of files are hexadecimal, and hold `cafe` or `beef` now and then."""
    table.append(people("cafe", "dead", "0000", "beef", day=3))
    for name in ("cafe", "dead", "0000", "beef"):
        assert table.erase(f"name = '{name}'").found.to_pylist() == []


def test_filters_of_segments_that_were_gone_when_a_tag_was_made_are_told(table):
    """They still answer for the values that those segments had."""
    table.add_index(projseg.Index("names", "name"), materialize=True)
    table.overwrite(people("bob", "carol"), interval="1970-01-01/1970-01-02")  # without alice
    table.delete("name = 'dave'")
    table.tag("later")
    (names,) = {one.name for one in table.snapshot.bloom_files if one.segment_count == 2}
    told = table.erase(ALICE).found.to_pylist()
    (filters,) = [one for one in told if one["what"] == "filters"]
    assert (filters["file"], filters["tags"], filters["count"]) == (names, ["later"], 1)
    assert filters["advice"] == "drop the tags later and erase again"
    table.drop_tag("later")
    assert table.erase(ALICE).found.to_pylist() == []
    assert not Path(table.location, names).exists()
    assert table.verify(deep=True) == []


def test_a_damaged_bloom_file_of_a_tag_could_not_be_searched(table):
    table.add_index(projseg.Index("names", "name"), materialize=True)
    table.tag("first")
    (listed,) = table.snapshot.bloom_files
    path = Path(table.location, listed.name)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1])
    KEPT.clear()
    told = table.erase(ALICE).found.to_pylist()
    assert listed.name in [one["file"] for one in told if one["what"] == "unreadable"]

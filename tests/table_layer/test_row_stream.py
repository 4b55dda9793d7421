"""The rows of a table as they come: each once, in pieces of any size, whatever else happens."""

from __future__ import annotations

import datetime
import tempfile
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tables import describe_segment, new_table, new_write_id, put_segment

import projseg
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.request import Query
from projseg.errors import InvalidInputError
from projseg.reader import row_scan
from projseg.reader.plan.query_plan import plan_query
from projseg.table_layer.change_feed import Position, RowStream, effect_of
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.metadata.change import Append, Replace
from projseg.table_layer.metadata.metadata_limits import SMALL_MANIFESTS_MAX
from projseg.table_layer.metadata.snapshot import open_snapshot
from projseg.table_layer.storage.locate_storage import open_storage

START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)
SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("n", pa.int64())])
SUMS = {"name": "sums", "sql": "SELECT n % 3 AS third, sum(n) AS n, count(*) AS many GROUP BY 1"}


def rows(numbers):
    """Rows of two days, by turns, so that an append makes a segment or two."""
    times = [START + datetime.timedelta(days=n % 2, seconds=n) for n in numbers]
    return pa.table({"time": times, "n": list(numbers)}, schema=SCHEMA)


def make(location, **options):
    return projseg.Table.create(
        location, SCHEMA, time_column="time", segment_granularity="day", **options
    )


def numbers_between(stream, start, end):
    """Return the values of column n that lie between two positions, in order."""
    found = []
    for snapshot, entries in stream.between(start, end):
        query = bind_query(snapshot.properties.schema, "time", Query(columns=("n",)))
        plan = plan_query(snapshot, query, list(entries))
        for batch in row_scan.scan(snapshot.storage, plan, plan.segments):
            found += batch["n"].to_pylist()
    return found


def read_on(stream, start, segments_max=None, end=None):
    """Read to the end in pieces; return the values and the last position."""
    found = []
    while (behind := stream.advance(start, segments_max, end)) != start:
        found += numbers_between(stream, start, behind)
        start = behind
    return found, start


def stream_of(table, **options):
    return RowStream(open_storage(table.location), **options)


def refusal(stream, start):
    with pytest.raises(InvalidInputError) as told:
        stream.advance(start)
    return str(told.value)


@pytest.fixture
def table(tmp_path):
    return make(tmp_path / "t")


@pytest.mark.parametrize("segments_max", [None, 1, 2, 3])
def test_all_rows_are_read_and_then_those_that_are_added(table, segments_max):
    table.append(rows(range(10)))
    table.append(rows(range(10, 14)))
    stream = stream_of(table)
    found, position = read_on(stream, stream.beginning(), segments_max)
    assert sorted(found) == list(range(14))
    assert position == stream.newest()
    table.append(rows(range(14, 17)))
    table.append(rows([17]))
    assert sorted(read_on(stream, position, segments_max)[0]) == [14, 15, 16, 17]


def test_a_piece_has_as_many_segments_as_were_asked_for(table):
    for number in range(5):
        table.append(rows([number]))
    stream = stream_of(table)
    start = stream.at_version(0)
    piece = stream.advance(start, 2)
    assert numbers_between(stream, start, piece) == [0, 1]
    table.append(rows([5, 6]))
    whole = stream.beginning()
    piece = stream.advance(whole, 3)
    assert sum(len(entries) for _, entries in stream.between(whole, piece)) == 3


def test_what_writes_the_same_rows_anew_is_not_seen(table):
    table.append(rows(range(4)))
    table.append(rows(range(4, 8)))
    stream = stream_of(table)
    start = stream.at_version(1)
    table.compact(target_segment_rows=100)
    table.add_projection(SUMS)
    table.materialize_projection()
    table.tag("here")
    table.drop_projection("sums")
    table.append(rows(range(8, 12)))
    table.compact(target_segment_rows=100)
    table.restore(table.version)
    assert table.version > 8
    assert sorted(read_on(stream, start, 1)[0]) == list(range(12))
    assert sorted(read_on(stream, stream.beginning())[0]) == list(range(12))


def test_a_stream_that_is_in_the_midst_of_a_version_goes_on_after_a_compaction(table):
    table.append(rows(range(6)))
    table.append(rows(range(6, 10)))
    stream = stream_of(table)
    for start in (stream.beginning(), stream.at_version(1)):
        piece = stream.advance(start, 1)
        first = numbers_between(stream, start, piece)
        table.compact(target_segment_rows=100)
        assert sorted(first + read_on(stream, piece, 1)[0]) == list(range(10))


def delete(table):
    table.delete("n = 3")


def delete_whole_segments(table):
    table.delete(interval="2024-05-01/P1D")


def truncate(table):
    table.truncate()


def overwrite_with_nothing(table):
    table.overwrite(rows([]))


@pytest.mark.parametrize("take", [delete, delete_whole_segments, truncate, overwrite_with_nothing])
def test_rows_taken_away_are_refused_unless_passed_over(table, take):
    table.append(rows(range(10)))
    start = stream_of(table).newest()
    table.append(rows([10]))
    take(table)
    table.append(rows([11]))
    stream = stream_of(table)
    found, position = read_on_until_refused(stream, start)
    assert found == [10]
    told = refusal(stream, position)
    assert "PROJSEG_ROWS_CHANGED" in told
    assert "ignoreDeletes" in told
    for options in ({"passes_deletes": True}, {"rereads_changes": True}):
        assert read_on(stream_of(table, **options), start)[0] == [10, 11]


def read_on_until_refused(stream, start):
    behind = stream.advance(start)
    return numbers_between(stream, start, behind), behind


def update(table):
    table.update({"n": "n + 100"}, filter="n = 2")
    return {0, 102, 4}  # the day's segment is written anew


def merge(table):
    table.merge(rows([2, 7]), on=["n"])
    return {0, 2, 4, 7}


def overwrite(table):
    table.overwrite(rows([2, 9]))
    return {2, 9}


def restore_older_rows(table):
    table.truncate()
    table.restore(table.version - 1)
    return set(range(6))


@pytest.mark.parametrize("change", [update, merge, overwrite, restore_older_rows])
def test_rows_replaced_are_refused_unless_they_may_be_read_again(table, change):
    table.append(rows(range(6)))
    start = stream_of(table).newest()
    written = change(table)
    for options in ({}, {"passes_deletes": True}):
        stream = stream_of(table, **options)
        if change is restore_older_rows:
            stream, start = stream_of(table, **options), stream.at_version(table.version)
        told = refusal(stream, start)
        assert "PROJSEG_ROWS_CHANGED" in told
        assert "ignoreChanges" in told
    assert set(read_on(stream_of(table, rereads_changes=True), start)[0]) == written


def test_rows_hidden_in_segments_that_stay_are_rows_taken_away(table):
    table.append(rows(range(40)))
    start = stream_of(table).newest()
    before = set(table.segments()["segment"].to_pylist())
    table.delete("n = 3")
    table.update({"n": "n + 100"}, filter="n = 4")
    assert before <= set(table.segments()["segment"].to_pylist())  # no segment was written anew
    assert "took rows away" in refusal(stream_of(table), start)
    stream = stream_of(table, passes_deletes=True)
    assert "replaced rows" in refusal(stream, stream.advance(start))
    assert read_on(stream_of(table, rereads_changes=True), start)[0] == [104]
    there = sorted(set(range(40)) - {3, 4} | {104})
    assert sorted(read_on(stream, stream.beginning(), 1)[0]) == there
    table.compact(target_segment_rows=100)
    assert read_on(stream, stream.at_version(table.version)) == ([], stream.newest())


def test_a_merge_that_only_adds_rows_adds_rows(table):
    table.append(rows(range(6)))
    start = stream_of(table).newest()
    table.merge(rows([100, 101]), on=["n"])
    assert sorted(read_on(stream_of(table), start)[0]) == [100, 101]


def test_rows_that_a_restore_brings_back_into_a_segment_are_not_passed_over(table):
    table.append(rows(range(0, 40, 2)))  # one segment
    table.delete("n = 4")
    assert len(table.segments()) == 1
    start = stream_of(table).newest()
    table.restore(1)
    assert "replaced rows" in refusal(stream_of(table, passes_deletes=True), start)
    found, _ = read_on(stream_of(table, rereads_changes=True), start)
    assert sorted(found) == list(range(0, 40, 2))


def test_a_restore_that_undoes_a_compaction_changes_no_row(table):
    table.append(rows(range(4)))
    table.append(rows(range(4, 8)))
    before = table.version
    start = stream_of(table).newest()
    table.compact(target_segment_rows=100)
    table.restore(before)
    found, behind = read_on(stream_of(table), start)
    assert (found, behind) == ([], stream_of(table).newest())
    table.compact(target_segment_rows=100)
    table.restore(before)  # it is not followed past another restore
    assert "replaced rows" in refusal(stream_of(table), stream_of(table).at_version(table.version))
    behind = stream_of(table).newest()
    table.restore(0)
    assert "PROJSEG_ROWS_CHANGED" in refusal(stream_of(table), behind)


def test_an_entry_that_says_something_else_of_the_same_file_is_another_one(tmp_path):
    storage, base = new_table(tmp_path / "t")
    write_id = new_write_id()
    entry = put_segment(storage, write_id)
    base = commit(storage, base, Append((entry,)), write_id=write_id, operation="append")
    new_id = new_write_id()
    other = put_segment(storage, new_id)
    version = commit(
        storage, base, Replace(frozenset(), (other,)), write_id=new_id, operation="delete"
    )
    assert effect_of(version).effect == "append"
    shorter, _ = describe_segment(write_id, rows=entry.row_count - 1)
    assert shorter.file == entry.file
    assert effect_of(relisted(version, entry, shorter)).effect == "delete"


def relisted(version, entry, other):
    """Return a version after this one that lists `other` in the place of `entry`."""
    from msgspec.structs import replace

    from projseg.table_layer.commits.publish import publish
    from projseg.table_layer.metadata.manifest import write_manifests

    entries = [other if listed == entry else listed for listed in version.segments]
    manifests = tuple(write_manifests(version.storage, entries, []))
    number = version.version + 1
    file = replace(
        version.file, version=number, manifests=manifests, write_id=new_write_id(),
        change="replace", operation="delete",
    )  # fmt: skip
    return publish(version.storage, file)


def test_segments_that_move_to_another_manifest_are_not_new(tmp_path):
    storage, base = new_table(tmp_path / "t")
    stream, files = RowStream(storage), []
    start = stream.newest()
    for number in range(SMALL_MANIFESTS_MAX + 3):
        write_id = new_write_id()
        entry = put_segment(storage, write_id, hour=-number)
        files.append(entry.file)
        base = commit(storage, base, Append((entry,)), write_id=write_id, operation="append")
    assert len(base.file.manifests) < SMALL_MANIFESTS_MAX
    found = [
        (snapshot.version, entry.file)
        for snapshot, entries in stream.between(start, stream.advance(start))
        for entry in entries
    ]
    assert found == list(enumerate(files, 1))


def test_a_stream_starts_at_a_version_a_time_or_the_end(table):
    for number in range(3):
        table.append(rows([number]))
    stream = stream_of(table)
    assert read_on(stream, stream.at_version(2))[0] == [1, 2]
    assert stream.at_version(4) == stream.newest()
    instant = open_snapshot(open_storage(table.location), 2).timestamp_us
    assert read_on(stream, stream.since(instant))[0] == [1, 2]
    assert stream.since(instant + 10**12) == stream.newest()
    assert stream.since(0) == stream.at_version(0)
    with pytest.raises(InvalidInputError, match=r"PROJSEG_UNKNOWN_VERSION.*newest is 3"):
        stream.at_version(5)


def test_versions_that_a_vacuum_removed_are_an_error(table):
    for number in range(4):
        table.append(rows([number]))
    stream = stream_of(table)
    start, whole = stream.at_version(1), stream.beginning()
    table.append(rows([4]))
    table.compact(target_segment_rows=100)
    table.vacuum(0, dry_run=False, force=True)
    for position in (start, whole):
        told = refusal(stream, position)
        assert "PROJSEG_UNKNOWN_VERSION" in told
        assert "no longer kept" in told
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_VERSION"):
        stream.at_version(1)
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_VERSION"):
        stream.since(0)
    assert sorted(read_on(stream, stream.beginning())[0]) == list(range(5))


def test_an_append_is_read_though_the_version_before_it_is_gone(table):
    table.append(rows([0]))
    table.append(rows([1, 2]))
    kept = table.version
    table.vacuum(0, dry_run=False, force=True)
    assert min(version["version"] for version in table.history().to_pylist()) == kept
    assert sorted(read_on(stream_of(table), stream_of(table).at_version(kept))[0]) == [1, 2]


def test_a_position_of_another_table_is_refused(table, tmp_path):
    table.append(rows([0]))
    start = stream_of(table).beginning()
    other = make(tmp_path / "other")
    other.append(rows([0]))
    assert "PROJSEG_BAD_OFFSET" in refusal(stream_of(other), start)
    later = Position(start.table, 9)
    assert "an older copy" in refusal(stream_of(table), later)
    assert "PROJSEG_BAD_OFFSET" in refusal(stream_of(table), Position(start.table, 1, 7))


def test_the_end_may_be_settled_before(table):
    table.append(rows([0]))
    stream = stream_of(table)
    start, end = stream.beginning(), stream.newest()
    table.append(rows([1]))
    assert read_on(stream, start, 1, end) == ([0], end)


LIFE = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.just("delete"), st.integers(0, 30)),
        *(st.tuples(st.just(what), st.just(0)) for what in ("compact", "materialize", "restore")),
        st.tuples(st.just("read"), st.integers(1, 3)),
    ),
    max_size=14,
)


@settings(deadline=None, max_examples=25)
@given(life=LIFE, starts_whole=st.booleans(), many=st.sampled_from([1, 2, None]))
def test_each_row_is_read_once_whatever_happens_meanwhile(life, starts_whole, many):
    with tempfile.TemporaryDirectory() as folder:
        table = make(f"{folder}/t", projections=[SUMS])
        table.append(rows(range(3)))
        stream = stream_of(table, passes_deletes=True)
        position = stream.beginning() if starts_whole else stream.newest()
        appended, found = 3, Counter()
        for what, number in life:
            match what:
                case "append":
                    table.append(rows(range(appended, appended + number)))
                    appended += number
                case "delete":
                    table.delete(f"n = {number}")
                case "compact":
                    table.compact(target_segment_rows=100)
                case "materialize":
                    table.drop_projection("sums")
                    table.add_projection(SUMS)
                    table.materialize_projection()
                case "restore":
                    table.restore(table.version)
                case "read":
                    behind = stream.advance(position, number)
                    found.update(numbers_between(stream, position, behind))
                    position = behind
        found.update(read_on(stream, position, many)[0])
        first = 0 if starts_whole else 3
        assert found == Counter(range(first, appended))

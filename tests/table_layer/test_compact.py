"""Small segments become large ones: rows and answers stay, whatever happens meanwhile."""

import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from life_tables import (
    BY_CHANNEL,
    HOURLY,
    answers,
    expected,
    new_table,
    opened_segments,
    rows,
    sources,
    stored_rows,
)
from race import run_processes
from scale import tries
from small_tables import describe_segment, new_write_id

import projseg
from projseg.algebra.time.zoned_buckets import Granularity
from projseg.errors import CorruptSegmentError, InvalidInputError
from projseg.maintenance.compact import Compaction, plan_groups
from projseg.maintenance.compact import compact as replace_small
from projseg.maintenance.rewrite_tasks import ThreadRunner
from projseg.segment_format.format_limits import SEGMENT_BYTES_MAX
from projseg.segment_format.vectors import Ids, Opaque

HOURS = Granularity.parse("hour")
COARSE = {"name": "coarse", "sql": "SELECT robot, min(page) AS p, count(*) AS n GROUP BY ALL"}


def batches(count, size=7):
    """Micro-batches over three days, in no order of time."""
    return [rows(n % 3, count=size, first=n * size) for n in range(count)]


@pytest.fixture
def table(tmp_path):
    """A table of 24 small segments with two projections, each built in a part of them."""
    table = new_table(tmp_path / "t", projections=[HOURLY])
    for number, batch in enumerate(batches(24)):
        if number == 9:
            table.add_projection(BY_CHANNEL)
        table.append(batch)
    return table


WANTED = pa.concat_tables(batches(24))


@pytest.mark.slow
def test_many_micro_batches_become_one_segment_a_day(tmp_path):
    table = new_table(tmp_path / "t", projections=[HOURLY, BY_CHANNEL])
    written = batches(500, size=2)
    for batch in written:
        table.append(batch)
    wanted, before = expected(pa.concat_tables(written)), stored_rows(table)
    old = table.version
    made = table.compact()
    assert (made.segments, made.rows, made.version) == (3, 1000, old + 1)
    assert stored_rows(table) == before
    assert answers(table) == answers(table, noProjections=True) == wanted
    assert sources(table)["channel"] == {"by_channel": 3}
    assert table.verify(deep=True) == []
    assert stored_rows(projseg.Table(table.location, version=old)) == before


def test_projections_come_from_states_and_from_rows(table):
    """Some inputs store a projection and others do not; one is declared and nowhere built."""
    table.add_projection(COARSE, build="deferred")
    assert table.compact().segments == 3
    assert sources(table)["hour"] == {"hourly": 3}
    assert sources(table)["channel"] == {"by_channel": 3}
    stats = {row["projection"]: row["built"] for row in table.projection_stats().to_pylist()}
    assert stats == {"hourly": 3, "by_channel": 3, "coarse": 3}
    assert answers(table) == expected(WANTED)
    assert table.verify(deep=True) == []


def test_a_dropped_projection_goes(table):
    table.drop_projection("hourly")
    table.compact()
    assert table.segments()["projections"].to_pylist() == [["by_channel"]] * 3
    assert answers(table) == expected(WANTED)


def test_a_projection_that_was_declared_anew_under_another_name(table):
    table.drop_projection("hourly")
    table.add_projection({**HOURLY, "name": "hours"})
    table.compact()
    assert sources(table)["hour"] == {"hours": 3}
    assert table.verify(deep=True) == []


def test_dictionaries_are_merged_and_shared(table):
    table.compact()
    for segment in opened_segments(table):
        columns = [
            segment.column_entry("__base", "base", "channel"),
            segment.column_entry("hourly", "grouping", "channel"),
            segment.column_entry("by_channel", "grouping", "channel"),
        ]
        assert len({column.dictionary for column in columns}) == 1
        assert segment.column_dictionary("__base", "base", "channel").values.to_pylist() == [
            None, "#0", "#1", "#2", "#3", "#4",
        ]  # fmt: skip


def test_rows_stand_in_cluster_order(table):
    table.compact()
    for segment in opened_segments(table):
        assert segment.table("__base").sort_order == ("channel", "time")
    assert table.verify(deep=True) == [], "verification proves the order"


def test_segments_as_written_at_once(table, tmp_path):
    """A compacted table is stored as one that got the same rows in one append."""
    at_once = new_table(tmp_path / "at once", projections=[HOURLY, BY_CHANNEL])
    at_once.append(WANTED)
    table.compact()
    for left, right in zip(opened_segments(table), opened_segments(at_once), strict=True):
        assert [t.name for t in left.tables] == [t.name for t in right.tables]
        for ours, theirs in zip(left.tables, right.tables, strict=True):
            assert [(c.role, c.name, c.kind) for c in ours.columns] == [
                (c.role, c.name, c.kind) for c in theirs.columns
            ]
            for column in ours.columns:
                place = (ours.name, column.role, column.name)
                found, wanted = (one.column(*place).to_arrow().to_pylist() for one in (left, right))
                if column.name in ("page", "price", "added", "robot", "tags"):
                    found, wanted = sorted(map(repr, found)), sorted(map(repr, wanted))
                if not column.name.startswith("sum(price)"):
                    assert found == wanted, place
    columns = [row | {"bytes": 0} for row in table.columns().to_pylist()]
    assert columns == [row | {"bytes": 0} for row in at_once.columns().to_pylist()]


def test_texts_gain_and_lose_their_dictionary(tmp_path):
    """Small segments have dictionaries of every text; a large one of texts that repeat only."""
    schema = {"unique": "string", "repeated": "string", "code": "bigint"}
    table = projseg.Table.create(tmp_path / "t", schema, cluster_by=["code"])
    written = [
        pa.table(
            {
                "unique": [f"{n:07}" for n in range(start, start + 1500)],
                "repeated": [f"{n % 9}" for n in range(start, start + 1500)],
                "code": pa.array([n * 40 for n in range(start, start + 1500)]),
            }
        )
        for start in range(0, 6000, 1500)
    ]
    for batch in written:
        table.append(batch)
    kinds = {name: opened_segments(table)[0].column("__base", "base", name) for name in schema}
    assert isinstance(kinds["unique"], Ids)
    before = stored_rows_of(table)
    table.compact()
    (segment,) = opened_segments(table)
    assert isinstance(segment.column("__base", "base", "unique"), Opaque)
    assert isinstance(segment.column("__base", "base", "repeated"), Ids)
    assert stored_rows_of(table) == before
    assert table.verify(deep=True) == []


def stored_rows_of(table):
    return sorted(map(repr, table.query(columns=", ".join(table.schema.names)).to_pylist()))


def test_a_second_compaction_finds_nothing(table):
    table.compact()
    version = table.version
    made = table.compact()
    assert (made.version, made.segments, made.rows) == (version, 0, 0)
    assert table.compact(dry_run=True).num_rows == 0


def test_a_dry_run_tells_and_does_nothing(table):
    plan = table.compact(dry_run=True)
    assert plan["segments"].to_pylist() == [8, 8, 8]
    assert plan["rows"].to_pylist() == [56, 56, 56]
    listed = {entry.file: entry.byte_count for entry in table.snapshot.segments}
    assert {file for files in plan["files"].to_pylist() for file in files} == set(listed)
    assert sum(plan["bytes"].to_pylist()) == sum(listed.values())
    assert len(table.snapshot.segments) == 24
    assert projseg.Table(table.location).version == table.version


def test_segments_are_listed_in_the_order_of_time(table):
    starts = table.segments()["interval_start"].to_pylist()
    assert starts == sorted(starts) != [starts[0]] * len(starts)


def test_the_target_bounds_new_segments(table):
    table.compact(target_segment_rows=21)
    assert {e.row_count for e in table.snapshot.segments} == {14, 21}
    assert answers(table) == expected(WANTED)


def test_only_an_interval(table):
    assert table.compact(interval="2024-05-02/P1D").segments == 1
    assert len(table.snapshot.segments) == 17


def test_too_few_segments_are_left(tmp_path):
    table = new_table(tmp_path / "t", properties={"compactMinSegments": "5"})
    for batch in batches(12):
        table.append(batch)
    assert table.compact().segments == 0
    for batch in batches(12)[:3]:
        table.append(batch)
    assert table.compact().segments == 3


def test_what_is_no_number_is_refused(table):
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_ARGUMENT"):
        table.compact(target_segment_rows=0)


def test_a_column_that_older_segments_lack_is_null(table):
    table.add_column("country", "string")
    table.add_column("l", "array<int>")
    country = pa.array(["at", None, "at", "be"])
    table.append(rows(0, count=4).append_column("country", country))
    before = table.query("country", "count(*) AS n, count(l) AS l").to_pylist()
    assert table.compact().segments == 3
    found = table.query("country", "count(*) AS n, count(l) AS l").to_pylist()
    assert sorted(map(repr, found)) == sorted(map(repr, before))
    assert table.verify(deep=True) == []


@pytest.mark.folder
def test_a_damaged_segment_is_reported_and_not_merged(table):
    entry, segment = table.snapshot.segments[4], opened_segments(table)[4]
    record = segment.directory("__base", "base", "price").records[0]
    path = Path(table.location, entry.file)
    content = bytearray(path.read_bytes())
    content[int(record["file_offset"])] ^= 1
    path.write_bytes(content)
    before = sorted(path.name for path in Path(table.location).rglob("*"))
    with pytest.raises(CorruptSegmentError, match=entry.file):
        table.compact()
    assert sorted(path.name for path in Path(table.location).rglob("*")) == before


def test_progress_is_told_of_all_segments(table):
    told = []
    table.materialize_projection(on_progress=lambda *numbers: told.append(numbers))
    assert told == [(done, 9) for done in range(10)], "nine segments are without by_channel"
    told.clear()
    table.compact(on_progress=lambda *numbers: told.append(numbers))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    told.clear()
    table.compact(on_progress=lambda *numbers: told.append(numbers))
    assert told == []


def test_a_segment_of_other_rows_than_it_replaces_is_refused(table):
    """A runner may be another process, of another release."""

    class Wrong(ThreadRunner):
        def run(self, order):
            found = list(super().run(order))
            entries = [entry for _, entry in found]
            return ((task, entry) for (task, _), entry in zip(found, entries[1:], strict=False))

    table.append(rows(0, count=1, first=800))
    before = sorted(path.name for path in Path(table.location).rglob("*"))
    with pytest.raises(InvalidInputError, match="56 rows in place of 57"):
        replace_small(table.snapshot, Compaction(), runner=Wrong())
    assert sorted(path.name for path in Path(table.location).rglob("*")) == before


def test_an_interruption_leaves_no_file(table):
    before = sorted(path.name for path in Path(table.location).rglob("*"))

    def interrupt(entry):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.compact(on_segment=interrupt)
    assert sorted(path.name for path in Path(table.location).rglob("*")) == before


def test_an_append_that_arrives_meanwhile_stays(table):
    late = rows(1, count=3, first=900)
    seen = []

    def append_once(entry):
        if not seen:
            projseg.Table(table.location).append(late)
        seen.append(entry)

    assert table.compact(on_segment=append_once).segments == 3
    assert len(table.snapshot.segments) == 4
    assert answers(table) == expected(pa.concat_tables([WANTED, late]))


@pytest.mark.folder
def test_a_materialisation_that_arrives_meanwhile_stays(table):
    seen = []

    def materialise_once(entry):
        if not seen:
            other = projseg.Table(table.location)
            other.add_projection(COARSE)
            other.materialize_projection()
        seen.append(entry)

    table.compact(on_segment=materialise_once)
    assert len(seen) == 6, "every group was written again, for the segments that are listed now"
    stats = {row["projection"]: row["built"] for row in table.projection_stats().to_pylist()}
    assert stats == {"hourly": 3, "by_channel": 3, "coarse": 3}
    assert answers(table) == expected(WANTED)
    listed = {Path(entry.file).name for entry in table.snapshot.segments}
    written = {Path(entry.file).name for entry in seen}
    on_disk = {path.name for path in Path(table.location, "data").iterdir()}
    assert written & on_disk == listed, "files that no version lists are removed"


@pytest.mark.folder
def test_of_two_compactions_one_wins_and_one_finds_nothing_to_do(table):
    seen, others = [], []

    def compact_too(entry):
        if not seen:
            others.append(projseg.Table(table.location).compact())
        seen.append(entry)

    made = table.compact(on_segment=compact_too)
    (other,) = others
    assert (other.segments, other.rows) == (3, 168)
    assert (made.version, made.segments, made.rows) == (other.version, 0, 0)
    on_disk = {path.name for path in Path(table.location, "data").iterdir()}
    assert not {Path(entry.file).name for entry in seen} & on_disk
    assert answers(table) == expected(WANTED)


def compact(location):
    return projseg.Table(location).compact().segments


def append_some(location):
    table = projseg.Table(location)
    for number in range(6):
        table.append(rows(number % 3, count=5, first=1000 + 5 * number))
    return 0


@pytest.mark.folder
def test_two_processes_and_a_writer_at_once(table):
    made = run_processes(run, [(compact, table.location), (compact, table.location),
                               (append_some, table.location)])  # fmt: skip
    table.refresh()
    late = [rows(n % 3, count=5, first=1000 + 5 * n) for n in range(6)]
    wanted = pa.concat_tables([WANTED, *late])
    assert answers(table) == answers(table, noProjections=True) == expected(wanted)
    assert sum(made) >= 3
    compact(table.location)
    table.refresh()
    assert len(table.snapshot.segments) == 3
    assert table.verify(deep=True) == []


def run(action, location):
    return action(location)


def test_a_group_stays_far_from_the_largest_file():
    large = {"byte_count": SEGMENT_BYTES_MAX // 5}
    entries = [describe_segment(new_write_id(), rows=10, **large)[0] for _ in range(8)]
    groups = plan_groups(entries, target_rows=1000, min_segments=2, granularity=HOURS)
    assert [len(group.inputs) for group in groups] == [2, 2, 2, 2]


def entries_of(sizes, days):
    return [
        describe_segment(new_write_id(), hour=day, rows=size)[0]
        for size, day in zip(sizes, days, strict=True)
    ]


@settings(max_examples=tries(150))
@given(
    st.lists(st.tuples(st.integers(1, 120), st.integers(0, 3)), max_size=40),
    st.integers(1, 150),
    st.integers(2, 5),
)
def test_plans_keep_their_bounds_and_end(segments, target, least):
    entries = entries_of([size for size, _ in segments], [day for _, day in segments])
    random.Random(0).shuffle(entries)
    groups = plan_groups(entries, target_rows=target, min_segments=least, granularity=HOURS)
    grouped = [entry.file for group in groups for entry in group.inputs]
    assert len(set(grouped)) == len(grouped)
    assert set(grouped) <= {entry.file for entry in entries}
    for group in groups:
        assert len(group.inputs) >= least
        assert len({entry.interval for entry in group.inputs}) == 1
        assert group.row_count == sum(entry.row_count for entry in group.inputs) <= target
    hours = [group.inputs[0].interval[0] // 3_600_000_000 for group in groups]
    assert hours == sorted(hours), "the oldest chunk first"
    rest = [entry for entry in entries if entry.file not in set(grouped)]
    merged = entries_of([group.row_count for group in groups], hours)
    again = plan_groups([*rest, *merged], target_rows=target, min_segments=2, granularity=HOURS)
    assert again == [] or least > 2


def test_a_table_that_asks_for_it_is_compacted_by_commits(tmp_path):
    table = new_table(
        tmp_path / "t", projections=[HOURLY, BY_CHANNEL], properties={"autoCompact": "true"}
    )
    most, written = 0, [rows(0, count=7, first=7 * n) for n in range(200)]
    for batch in written:
        table.append(batch)
        most = max(most, len(table.snapshot.segments))
    assert most < 30, "segments gather until their sizes double"
    history = table.history().to_pylist()
    rewritten = sum(
        dict(row["metrics"])["rows"] for row in history if row["operation"] == "compact"
    )
    assert 0 < rewritten <= 1400 * 6, "a row is written again once for each doubling"
    assert answers(table) == expected(pa.concat_tables(written))
    assert table.verify(deep=True) == []


def test_what_fails_after_a_commit_is_told_and_the_commit_stands(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("projseg.table_layer.metadata.table_properties.check_set", lambda _: None)
    table = new_table(tmp_path / "t", properties={"autoCompact": "perhaps"})
    assert table.append(rows(0)).rows == 40
    assert "PROJSEG_BAD_OPTION" in caplog.text
    assert table.query(aggregators="count(*) AS n").to_pylist() == [{"n": 40}]


def test_small_segments_are_told_of_once(tmp_path, caplog):
    table = new_table(tmp_path / "t")
    for batch in batches(27):
        table.append(batch)
    assert caplog.text == "", "nine segments a day are few"
    for batch in batches(27):
        table.append(batch)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "run compact" in caplog.text


def test_segments_that_nothing_could_merge_are_not_told_of(tmp_path, caplog):
    table = new_table(tmp_path / "t")
    for day in range(30):
        table.append(rows(day))
    full = new_table(tmp_path / "full", target_segment_rows=100)
    for _ in range(30):
        full.append(rows(0))
    assert caplog.text == ""

"""Projections for segments that lack them: answers stay, base bytes are copied, nothing is lost."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from life_tables import (
    BY_CHANNEL,
    HOURLY,
    SCHEMA,
    START,
    answers,
    base_parts,
    expected,
    new_table,
    opened_segments,
    rows,
    sources,
    stored_rows,
)
from race import run_processes

import projseg
from projseg.errors import CommitError, CorruptSegmentError, InvalidInputError

DAYS = 60


@pytest.fixture
def table(tmp_path):
    """A table of six segments, one a day, without projections."""
    table = new_table(tmp_path / "t")
    table.append(days(6))
    return table


def days(count):
    return pa.concat_tables([rows(day) for day in range(count)])


def parts_by_day(table):
    return {
        entry.min_time_us: base_parts(segment)
        for entry, segment in zip(table.snapshot.segments, opened_segments(table), strict=True)
    }


@pytest.mark.slow
def test_sixty_segments_one_day_then_all(tmp_path):
    table = new_table(tmp_path / "t")
    table.append(days(DAYS))
    wanted, before = expected(days(DAYS)), parts_by_day(table)
    assert answers(table) == wanted
    table.add_projection(HOURLY)
    table.add_projection(BY_CHANNEL)
    assert table.materialize_projection(interval="2024-05-03/P1D").segments == 1
    assert sources(table)["channel"] == {"by_channel": 1, "base": DAYS - 1}
    assert answers(table) == wanted
    made = table.materialize_projection()
    assert (made.segments, made.rows) == (DAYS - 1, (DAYS - 1) * 40)
    assert sources(table)["channel"] == {"by_channel": DAYS}
    assert sources(table)["hour"] == {"hourly": DAYS}
    assert answers(table) == answers(table, noProjections=True) == wanted
    assert parts_by_day(table) == before
    assert table.verify(deep=True) == []
    for version in range(table.version):
        assert projseg.Table(table.location, version=version).verify() == []


def test_nothing_is_left_to_do(table):
    table.add_projection(HOURLY, materialize=True)
    version = table.version
    made = table.materialize_projection()
    assert (made.version, made.segments, made.rows) == (version, 0, 0)


def test_one_projection_of_two(table):
    table.add_projection(HOURLY)
    table.add_projection(BY_CHANNEL)
    table.materialize_projection("hourly")
    assert set(map(tuple, table.segments()["projections"].to_pylist())) == {("hourly",)}
    table.materialize_projection("by_channel")
    assert set(map(tuple, table.segments()["projections"].to_pylist())) == {
        ("hourly", "by_channel")
    }
    assert table.verify(deep=True) == []


def test_an_unknown_projection_and_a_table_without_time_are_refused(table, tmp_path):
    with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_PROJECTION"):
        table.materialize_projection("hourli")
    timeless = projseg.Table.create(tmp_path / "u", {"a": "bigint"}, data={"a": [1]})
    with pytest.raises(InvalidInputError, match="PROJSEG_NO_TIME_COLUMN"):
        timeless.materialize_projection(interval="2024-05-03/P1D")
    pinned = projseg.Table(table.location, version=0)
    with pytest.raises(InvalidInputError, match="PROJSEG_PINNED_VERSION"):
        pinned.materialize_projection()


def test_an_old_version_reads_as_before(table):
    old = projseg.Table(table.location, version=table.version)
    before = stored_rows(old)
    table.add_projection(HOURLY, materialize=True)
    assert stored_rows(projseg.Table(table.location, version=old.version)) == before
    assert sources(projseg.Table(table.location, version=old.version))["hour"] == {"base": 6}


def test_a_redefinition_is_built_and_the_old_table_is_left_out(table):
    table.add_projection(HOURLY, materialize=True)
    table.add_projection(BY_CHANNEL, materialize=True)
    table.drop_projection("hourly")
    table.drop_projection("by_channel")
    # One comes back under another name, and its old name stands for something else.
    table.add_projection({**BY_CHANNEL, "name": "channels"})
    table.add_projection(
        {"name": "by_channel", "sql": "SELECT page, min(added), count(*) GROUP BY ALL"}
    )
    wanted = expected(days(6))
    assert answers(table) == wanted
    table.materialize_projection()
    assert set(map(tuple, table.segments()["projections"].to_pylist())) == {
        ("channels", "by_channel")
    }
    assert sources(table)["channel"] == {"channels": 6}
    assert answers(table) == wanted
    assert table.verify(deep=True) == []


def test_two_names_of_one_definition(table):
    """Each segment stores it once, and so does what is made of it."""
    table.add_projection(BY_CHANNEL, materialize=True)
    table.add_projection({**BY_CHANNEL, "name": "again"})
    table.append(rows(7))
    assert table.segments()["projections"].to_pylist()[-1] == ["by_channel"]
    table.add_projection(HOURLY, materialize=True)
    assert table.segments()["projections"].to_pylist() == [["by_channel", "hourly"]] * 7
    assert answers(table) == expected(pa.concat_tables([days(6), rows(7)]))
    assert table.verify(deep=True) == []
    table.append(rows(7, first=40))
    table.compact()
    assert table.segments()["projections"].to_pylist() == [["by_channel", "hourly"]] * 7
    assert table.verify(deep=True) == []


def test_a_failed_build_is_recorded_and_tried_again(table):
    """One day holds a zero: only its segment lacks the projection, and only once."""
    zero = rows(9).set_column(4, SCHEMA.field("added"), pa.array([0] * 40))
    table.append(zero)
    failing = {"name": "f", "sql": "SELECT 100 / (added + 1000) AS r, count(*) GROUP BY ALL"}
    table.add_projection(failing, materialize=True)
    assert table.segments()["projections"].to_pylist() == [["f"]] * 7
    table.add_projection(
        {"name": "g", "sql": "SELECT 100 / added AS r, count(*) AS n GROUP BY ALL"},
        materialize=True,
    )
    found = {
        len(row["projections"]): [reason for _, reason in row["not_built"]]
        for row in table.segments().to_pylist()
    }
    assert found[2] == []
    assert "divides by zero" in found[1][0]
    version = table.version
    assert table.materialize_projection().version == version, "it fails as before: no commit"
    table.overwrite(
        rows(9).set_column(4, SCHEMA.field("added"), pa.array([7] * 40)), interval="2024-05-10/P1D"
    )
    built = [row["projections"] for row in table.segments().to_pylist()]
    assert built.count(["f", "g"]) == 7
    assert table.verify(deep=True) == []


def test_a_column_that_older_segments_lack_is_null_in_them(tmp_path):
    table = new_table(tmp_path / "t")
    table.append(days(2))
    table.add_column("country", "string")
    table.append(rows(3).append_column("country", pa.array(["at"] * 40)))
    table.add_projection(
        {"name": "c", "sql": "SELECT country, count(*) AS n GROUP BY ALL"}, materialize=True
    )
    forced = {"forceProjections": True}
    found = table.query("country", "count(*) AS n", context=forced).to_pylist()
    assert {row["country"]: row["n"] for row in found} == {None: 80, "at": 40}
    # Copied under another name, into a file whose own columns it does not mention.
    table.drop_projection("c")
    table.add_projection({"name": "d", "sql": "SELECT country, count(*) AS n GROUP BY ALL"})
    table.add_projection(BY_CHANNEL, materialize=True)
    assert table.segments()["projections"].to_pylist() == [["d", "by_channel"]] * 3
    assert table.verify(deep=True) == []


def damage(table, part):
    """Change a byte of a base part of the first segment's file."""
    entry, segment = table.snapshot.segments[0], opened_segments(table)[0]
    if part == "pages":
        record = segment.directory("__base", "base", "price").records[0]
        offset = int(record["file_offset"])
    else:
        position = segment.column_entry("__base", "base", "page").dictionary
        dictionary = segment.footer.dictionaries[position]
        offset = int(segment.dictionary_directory(dictionary).records[0]["file_offset"])
    path = Path(table.location, entry.file)
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    return entry.file


@pytest.mark.folder
@pytest.mark.parametrize("part", ["pages", "dictionary"])
def test_a_damaged_segment_is_reported_and_not_copied_on(table, part):
    table.add_projection({"name": "n", "sql": "SELECT robot, count(*) AS n GROUP BY ALL"})
    broken = damage(table, part)
    before = sorted(path.name for path in Path(table.location).rglob("*"))
    version = table.version
    with pytest.raises(CorruptSegmentError, match=broken):
        table.materialize_projection()
    assert projseg.Table(table.location).version == version
    assert sorted(path.name for path in Path(table.location).rglob("*")) == before
    # The days beside it can be served.
    assert table.materialize_projection(interval="2024-05-02/P9D").segments == 5


def test_a_deferred_projection_waits(table):
    table.add_projection(HOURLY, build="deferred")
    table.append(rows(7))
    assert table.segments()["projections"].to_pylist() == [[]] * 7
    assert table.materialize_projection().segments == 7
    table.append(rows(8))
    assert sources(table)["hour"] == {"hourly": 7, "base": 1}
    table.drop_projection("hourly")
    table.add_projection(HOURLY)
    table.append(rows(9))
    assert sources(table)["hour"] == {"hourly": 8, "base": 1}, "the scope went with the declaration"


def test_an_interval_keeps_other_segments_out(table):
    table.add_projection(HOURLY, interval="2024-05-03/2024-05-05")
    table.append(rows(7))
    assert [r["not_built"] for r in table.segments().to_pylist()][-1] == [
        ("hourly", "skipped: no row lies in the interval 2024-05-03T00:00:00Z/2024-05-05T00:00:00Z")
    ]
    assert table.materialize_projection().segments == 2
    assert sources(table)["hour"] == {"hourly": 2, "base": 5}
    assert table.materialize_projection().segments == 0
    assert table.verify(deep=True) == []


def test_rows_that_are_too_old_go_without(table):
    table.add_projection(HOURLY, retain="90 days")
    assert table.materialize_projection().segments == 0
    table.drop_projection("hourly")
    table.add_projection(HOURLY, retain="P36500D")
    assert table.materialize_projection().segments == 6


@pytest.mark.parametrize("guard", ["max_row_ratio", "max_bytes_ratio"])
def test_a_projection_that_is_too_large_is_left_out_with_the_reason(table, guard):
    table.add_projection(HOURLY, **{guard: 0.01})
    table.append(rows(7))
    assert table.materialize_projection().segments == 6
    reasons = [dict(row["not_built"])["hourly"] for row in table.segments().to_pylist()]
    assert len(reasons) == 7
    name = {"max_row_ratio": "maxRowRatio", "max_bytes_ratio": "maxBytesRatio"}[guard]
    assert all(reason.startswith(f"skipped: {name} is 0.01 and") for reason in reasons)
    assert table.materialize_projection().segments == 0, "it would be as large again"
    assert answers(table) == expected(pa.concat_tables([days(6), rows(7)]))
    assert table.verify(deep=True) == []
    table.drop_projection("hourly")
    table.add_projection(HOURLY, **{guard: 50.0})
    assert table.materialize_projection().segments == 7
    assert table.verify(deep=True) == []


@pytest.mark.parametrize(
    "options",
    [
        {"build": "later"},
        {"retain": "3 months"},
        {"retain": "P1M"},
        {"max_row_ratio": 0},
        {"max_bytes_ratio": float("nan")},
    ],
)
def test_a_scope_that_is_none_is_refused(table, options):
    version = table.version
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_OPTION"):
        table.add_projection(HOURLY, **options)
    assert projseg.Table(table.location).version == version


def test_an_append_that_arrives_meanwhile_stays(table):
    """The other writer commits while this one has written its first file."""
    table.add_projection(HOURLY)
    seen = []

    def append_once(entry):
        if not seen:
            projseg.Table(table.location).append(rows(7))
        seen.append(entry.file)

    made = table.materialize_projection(on_segment=append_once)
    assert (made.segments, len(seen)) == (6, 6)
    assert answers(table) == expected(pa.concat_tables([days(6), rows(7)]))
    assert sources(table)["hour"] == {"hourly": 7}


def test_an_overwrite_that_arrives_meanwhile_wins(table):
    table.add_projection(HOURLY)
    seen = []

    def overwrite_once(entry):
        if not seen:
            projseg.Table(table.location).overwrite(rows(2, count=9), interval="2024-05-03/P1D")
        seen.append(entry.file)

    made = table.materialize_projection(on_segment=overwrite_once)
    assert made.segments == 5
    assert len(seen) == 6, "what was written for the other days is used"
    wanted = pa.concat_tables([rows(0), rows(1), rows(2, count=9), rows(3), rows(4), rows(5)])
    assert answers(table) == expected(wanted)
    listed = {entry.file for entry in table.snapshot.segments}
    unlisted = [file for file in seen if file not in listed]
    assert len(unlisted) == 1
    assert not Path(table.location, unlisted[0]).exists(), "the file that nobody lists is removed"


def materialize(location):
    return projseg.Table(location).materialize_projection().segments


@pytest.mark.folder
def test_two_processes_at_once(table):
    """Each segment is rebuilt once in the table, whoever wins, and no file is left over."""
    table.add_projection(HOURLY)
    table.add_projection(BY_CHANNEL)
    made = run_processes(materialize, [(table.location,)] * 2)
    assert sum(made) >= 6
    table.refresh()
    assert sources(table)["channel"] == {"by_channel": 6}
    assert answers(table) == expected(days(6))
    assert table.verify(deep=True) == []
    assert table.materialize_projection().segments == 0


@pytest.mark.folder
def test_a_table_made_anew_is_not_touched(table):
    table.add_projection(HOURLY)
    seen = []

    def replace_table(entry):
        seen.append(entry)
        if len(seen) == 6:
            shutil.rmtree(table.location)
            other = new_table(table.location)
            for _ in range(3):
                other.append(rows(1))

    with pytest.raises(CommitError):
        table.materialize_projection(on_segment=replace_table)
    assert projseg.Table(table.location).version == 3


def stats_of(table, name):
    return next(row for row in table.projection_stats().to_pylist() if row["projection"] == name)


def days_of(coverage):
    return [((c["start"] - START).days, (c["end"] - START).days) for c in coverage]


def test_stats_tell_how_far_a_projection_is_built(table):
    table.add_projection(HOURLY, interval="2024-05-01/2024-05-06")
    table.add_projection(BY_CHANNEL, build="deferred")
    table.materialize_projection(interval="2024-05-02/P2D")
    table.materialize_projection("hourly", interval="2024-05-05/P1D")
    found = stats_of(table, "hourly")
    assert [found[k] for k in ("built", "missing", "skipped", "failed")] == [3, 2, 1, 0]
    assert days_of(found["coverage"]) == [(1, 3), (4, 5)]
    assert (found["base_rows"], found["base_share"]) == (120, 0.5)
    assert found["reasons"][0].startswith("skipped: no row lies in the interval")
    stored = [p for e in table.snapshot.segments for p in e.projections if p.name == "hourly"]
    assert found["rows"] == sum(p.row_count for p in stored)
    assert found["bytes"] == sum(p.byte_count for p in stored)
    assert found["build"] == "immediate"
    channels = stats_of(table, "by_channel")
    assert [channels[k] for k in ("build", "built", "missing")] == ["deferred", 2, 4]
    # A chunk of which one segment lacks the projection is not covered.
    table.append(rows(1, first=400))
    assert days_of(stats_of(table, "by_channel")["coverage"]) == [(2, 3)]


def test_stats_count_failures(table):
    table.add_projection(
        {"name": "f", "sql": "SELECT 1 / (added - added) AS r, count(*) GROUP BY ALL"},
        materialize=True,
    )
    found = stats_of(table, "f")
    assert [found[k] for k in ("built", "missing", "skipped", "failed")] == [0, 0, 0, 6]
    assert found["coverage"] == []
    assert ["divides by zero" in reason for reason in found["reasons"]] == [True]


def test_progress_is_told_segment_by_segment(table):
    table.add_projection(HOURLY)
    told = []
    table.materialize_projection(on_segment=told.append)
    assert [entry.min_time_us for entry in told] == sorted(entry.min_time_us for entry in told)
    assert len(told) == 6
    assert START.timestamp() * 1e6 == told[0].min_time_us

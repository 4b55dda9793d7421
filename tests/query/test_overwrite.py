import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

import projseg
from projseg.errors import CommitConflictError, InvalidInputError
from projseg.table.writes import overwrite
from projseg.table_layer.metadata.change import CommitNote

SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("n", pa.float64())])
DAY = 86_400_000_000


def rows(*days):
    return pa.table({"time": [int(day * DAY) for day in days], "n": list(days)}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path):
    made = projseg.Table.create(
        tmp_path / "t", SCHEMA, time_column="time", segment_granularity="day"
    )
    made.append(rows(0, 1, 2))
    return made


def days_of(table):
    return sorted(table.query(columns="n")["n"].to_pylist())


def test_overwrite_replaces_everything(table):
    table.overwrite(rows(7))
    assert days_of(table) == [7]


def test_overwrite_replaces_exactly_an_interval(table):
    table.overwrite(rows(1, 1), interval="1970-01-02/P1D")
    assert days_of(table) == [0, 1, 1, 2]


def test_overwrite_replaces_what_others_appended_before_it(table):
    projseg.Table(table.location).append(rows(9))
    table.overwrite(rows(7))
    assert days_of(projseg.Table(table.location)) == [7]


def test_an_interval_that_cuts_segments_replaces_exactly_its_rows(table):
    table.append(rows(5, 5.5))
    made = table.overwrite(rows(5.75, 6), interval=("1970-01-06T12:00", "1970-01-08"))
    assert made.rows == 2
    assert days_of(table) == [0, 1, 2, 5, 5.75, 6]
    assert len(table.history()) == 4


def test_few_replaced_rows_are_hidden_and_their_segment_stays(table):
    table.append(rows(*(5 + n / 100 for n in range(100))))
    before = {entry.file for entry in table.snapshot.segments}
    table.overwrite(rows(5.985), interval=("1970-01-06T23:30", "1970-01-07"))
    now = {entry.file: entry.deleted_row_count for entry in table.snapshot.segments}
    assert sorted(now.values()) == [0, 0, 0, 0, 2]
    assert before < now.keys()


MADE = st.lists(st.integers(0, 96), max_size=12)


@settings(max_examples=tries(80))
@given(
    st.lists(MADE, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 96), st.integers(1, 40), MADE), min_size=1, max_size=3),
    st.sampled_from([0, 0.3, 1]),
    st.sampled_from(["day", "all"]),
)
def test_any_interval_is_replaced_exactly(appended, overwrites, ratio, granularity):
    """Hours of four days, in segments of a day or of all time."""
    with tempfile.TemporaryDirectory() as folder:
        table = projseg.Table.create(
            f"{folder}/t",
            SCHEMA,
            time_column="time",
            segment_granularity=granularity,
            projections=[{"name": "p", "sql": "SELECT n, count(*) AS c GROUP BY ALL"}],
            properties={"maxDeletedRatio": str(ratio)},
        )
        wanted = []
        for number, hours in enumerate(appended):
            wanted += [(hour, float(number)) for hour in hours]
            table.append(hourly(hours, number))
        for number, (start, length, hours) in enumerate(overwrites, len(appended)):
            inside = [h for h in hours if start <= h < start + length]
            moments = [datetime.fromtimestamp(3600 * h, UTC) for h in (start, start + length)]
            made = table.overwrite(hourly(inside, number), interval=moments)
            assert made.rows == len(inside)
            wanted = [(h, n) for h, n in wanted if not start <= h < start + length]
            wanted += [(hour, float(number)) for hour in inside]
            found = table.query(columns=["time", "n"]).to_pylist()
            assert sorted((row["time"], row["n"]) for row in found) == sorted(
                (datetime.fromtimestamp(3600 * hour, UTC), n) for hour, n in wanted
            )
            counted = table.query(group_by="n", aggregators="count(*) AS c").to_pylist()
            assert {row["n"]: row["c"] for row in counted} == Counter(n for _, n in wanted)
        assert table.verify(deep=True) == []


def hourly(hours, number):
    times = [3_600_000_000 * hour for hour in hours]
    return pa.table({"time": times, "n": [float(number)] * len(hours)}, schema=SCHEMA)


def test_two_overwrites_of_one_interval_that_cuts_meet(table):
    """The second is refused, as of intervals that cut nothing; rows appended meanwhile stay."""
    table.append(rows(5, 5.5))
    interval = (int(5.25 * DAY), 6 * DAY)
    base = table.snapshot
    projseg.Table(table.location).append(rows(5.75))
    _, made = overwrite(base, rows(5.3), interval, on_segment=None, note=CommitNote())
    assert days_of(table.refresh()) == [0, 1, 2, 5, 5.3, 5.75]
    files = {path.name for path in Path(table.location, "data").iterdir()}
    with pytest.raises(CommitConflictError):
        overwrite(base, rows(5.4), interval, on_segment=None, note=CommitNote())
    assert days_of(table.refresh()) == [0, 1, 2, 5, 5.3, 5.75]
    assert {path.name for path in Path(table.location, "data").iterdir()} == files
    assert made.version == table.version


def test_rows_outside_the_interval_are_refused(table):
    with pytest.raises(InvalidInputError):
        table.overwrite(rows(1, 5), interval="1970-01-02/P1D")
    assert days_of(table) == [0, 1, 2]


def test_an_older_version_still_reads_as_it_was(table):
    table.overwrite(rows(7))
    assert days_of(projseg.Table(table.location, version=1)) == [0, 1, 2]

import pyarrow as pa
import pytest

import projseg
from projseg.errors import InvalidInputError

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


def test_an_interval_that_cuts_segments_is_refused(table):
    table.append(rows(5, 5.5))
    with pytest.raises(InvalidInputError, match="PROJSEG_INTERVAL_NOT_ALIGNED"):
        table.overwrite(rows(6), interval=("1970-01-06T12:00", "1970-01-08"))
    assert days_of(table) == [0, 1, 2, 5, 5.5]


def test_rows_outside_the_interval_are_refused(table):
    with pytest.raises(InvalidInputError):
        table.overwrite(rows(1, 5), interval="1970-01-02/P1D")
    assert days_of(table) == [0, 1, 2]


def test_an_older_version_still_reads_as_it_was(table):
    table.overwrite(rows(7))
    assert days_of(projseg.Table(table.location, version=1)) == [0, 1, 2]

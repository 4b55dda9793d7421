"""A version is found by the time of its commit, however the writers' clocks ran."""

import tempfile
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import projseg
from projseg.errors import InvalidInputError
from projseg.table_layer.commits import commit, publish

NOON = datetime(2020, 2, 1, 12, tzinfo=UTC)


def table_of(monkeypatch, location, moments):
    """Make a table whose version i was committed when its writer's clock said `moments[i]`."""
    micros = [(moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
              for moment in moments]  # fmt: skip
    for number, now in enumerate(micros):
        monkeypatch.setattr(publish, "now_us", lambda now=now: now)
        monkeypatch.setattr(commit, "now_us", lambda now=now: now)
        if number == 0:
            table = projseg.Table.create(location, {"n": "int"})
        else:
            table.append([{"n": number}])
    return table


def test_the_newest_version_at_or_before_an_instant(monkeypatch, tmp_path):
    table_of(monkeypatch, tmp_path / "t", [NOON, NOON + timedelta(hours=1)])
    opened = [
        projseg.Table(tmp_path / "t", timestamp=moment).version
        for moment in (
            NOON,
            "2020-02-01T12:59:59.999999Z",
            "2020-02-01 13:00",
            datetime(2020, 2, 1, 13),
            datetime(2020, 2, 1, 14, tzinfo=timezone(timedelta(hours=2))),
            "2020-02-01T15:00:00+02:00",
            date(2020, 2, 2),
        )
    ]
    assert opened == [0, 0, 1, 1, 0, 1, 1]


def test_a_time_before_the_table_names_the_oldest_version(monkeypatch, tmp_path):
    table_of(monkeypatch, tmp_path / "t", [NOON])
    with pytest.raises(InvalidInputError) as told:
        projseg.Table(tmp_path / "t", timestamp=NOON - timedelta(microseconds=1))
    assert told.value.code == "PROJSEG_UNKNOWN_VERSION"
    assert "at or before 2020-02-01T11:59:59.999999Z" in told.value.message
    assert "version 0 of 2020-02-01T12:00:00Z" in told.value.message


@pytest.mark.parametrize("timestamp", ["yesterday", "P1D", "", 5, "2020-02-01/2020-02-02"])
def test_what_is_no_time_is_refused(tmp_path, timestamp):
    projseg.Table.create(tmp_path / "t", {"n": "int"})
    with pytest.raises(InvalidInputError, match=r"PROJSEG_BAD_ARGUMENT.*ISO 8601"):
        projseg.Table(tmp_path / "t", timestamp=timestamp)


def test_a_version_is_named_once(tmp_path):
    projseg.Table.create(tmp_path / "t", {"n": "int"})
    with pytest.raises(InvalidInputError, match=r"PROJSEG_BAD_ARGUMENT.*each name a version"):
        projseg.Table(tmp_path / "t", version=0, timestamp="2100-01-01")


def test_no_table_is_no_table_at_any_time(tmp_path):
    with pytest.raises(InvalidInputError, match="PROJSEG_NOT_A_TABLE"):
        projseg.Table(tmp_path / "t", timestamp=NOON)


def test_a_table_opened_at_an_instant_is_for_reading(tmp_path):
    projseg.Table.create(tmp_path / "t", {"n": "int"})
    opened = projseg.Table(tmp_path / "t", timestamp="9999-01-01")
    with pytest.raises(InvalidInputError, match="PROJSEG_PINNED_VERSION"):
        opened.append([{"n": 1}])
    assert opened.refresh().append([{"n": 1}]).version == 1


SECONDS = st.lists(st.integers(0, 9), min_size=1, max_size=7)


@given(clocks=SECONDS, asked=st.integers(0, 10), removed=st.integers(0, 6))
def test_as_the_history_says(clocks, asked, removed):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        location = Path(folder) / "t"
        table = table_of(patch, location, [NOON + timedelta(seconds=s) for s in clocks])
        for version in range(min(removed, len(clocks) - 1)):
            (location / f"_projseg/{version:020d}.json").unlink()
        moment = NOON + timedelta(seconds=asked)
        known = [
            row["version"] for row in table.history().to_pylist() if row["timestamp"] <= moment
        ]
        if known:
            assert projseg.Table(location, timestamp=moment).version == max(known)
        else:
            with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_VERSION"):
                projseg.Table(location, timestamp=moment)

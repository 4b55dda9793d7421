"""Clocks that jump, stand still or differ: a vacuum keeps what was current within its retention."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

import projseg
from projseg.errors import InvalidInputError
from projseg.table_layer import vacuum
from projseg.table_layer.commits import commit, publish

HOUR_US = 3_600_000_000
START_US = 1_700_000_000_000_000
WRONG_HOURS = st.sampled_from([0, -1000, -25, 25, 1000])
# Hours since the commit before, and by how many a clock is wrong at this one.
COMMITS = st.lists(st.tuples(st.sampled_from([0, 1, 12, 30]), WRONG_HOURS), min_size=2, max_size=6)


def set_clock(patch, now_us):
    for module in (publish, commit, vacuum):
        patch.setattr(module, "now_us", lambda: now_us)


def date_new_files(location, known, moment_us):
    """Let the disk's clock have shown a moment when the files were written that are not known."""
    for path in location.rglob("*"):
        if path.is_file() and path not in known:
            os.utime(path, ns=(moment_us * 1000, moment_us * 1000))
            known.add(path)


@st.composite
def histories(draw):
    """Commits whose clock is wrong now and then, or always by as much."""
    commits = draw(COMMITS)
    return [(hours, commits[0][1]) for hours, _ in commits] if draw(st.booleans()) else commits


def lived(patch, location, commits, *, is_disk_wrong):
    """Make a table whose version n holds 0 to n; return (true times of its commits, now)."""
    now, times, known = START_US, [], set()
    for number, (hours, wrong) in enumerate(commits):
        now += hours * HOUR_US
        shown = now + wrong * HOUR_US
        set_clock(patch, now if is_disk_wrong else shown)
        if number == 0:
            table = projseg.Table.create(location, {"n": "int"}, data={"n": [0]})
        else:
            table.append({"n": [number]})
        date_new_files(location, known, shown if is_disk_wrong else now)
        times.append(now)
    return times, now


@settings(max_examples=tries(1_000, 20))
@given(
    commits=histories(),
    waited=st.sampled_from([0, 12, 24, 60]),
    retention=st.sampled_from([24, 48]),
    is_disk_wrong=st.booleans(),
)
def test_a_vacuum_keeps_what_was_current_within_its_retention(
    commits, waited, retention, is_disk_wrong
):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        location = Path(folder) / "t"
        times, now = lived(patch, location, commits, is_disk_wrong=is_disk_wrong)
        now += waited * HOUR_US
        set_clock(patch, now)
        projseg.Table(location).vacuum(retention_hours=retention, dry_run=False)
        replaced = [*times[1:], now]
        for version, moment in enumerate(replaced):
            if moment >= now - retention * HOUR_US:
                kept = projseg.Table(location, version)
                found = kept.query(columns="n", order_by="n")["n"].to_pylist()
                assert found == list(range(version + 1))
            elif not any(wrong for _, wrong in commits):
                with pytest.raises(InvalidInputError, match="PROJSEG_UNKNOWN_VERSION"):
                    projseg.Table(location, version)
        assert projseg.Table(location).verify(deep=True) == []


@pytest.mark.folder
@pytest.mark.parametrize("tick_us", [1_000, 4_000, 10_000])
def test_a_version_replaced_within_a_tick_of_the_disks_clock_was_replaced_before(
    tmp_path, monkeypatch, tick_us
):
    set_clock(monkeypatch, START_US + 2 * tick_us - 2)
    table = projseg.Table.create(str(tmp_path / "t"), {"n": "int"}, data={"n": [0]})
    table.tag("one")
    table.drop_tag("one")
    set_clock(monkeypatch, START_US + 2 * tick_us - 1)
    write = vacuum.create_unique

    def dated_by_the_last_tick(storage, name, content):
        write(storage, name, content)
        os.utime(tmp_path / "t" / name, ns=((START_US + tick_us) * 1000,) * 2)

    monkeypatch.setattr(vacuum, "create_unique", dated_by_the_last_tick)
    date_new_files(tmp_path, set(), START_US + tick_us)
    done = table.vacuum(0, dry_run=False, force=True)
    assert done.versions == 2

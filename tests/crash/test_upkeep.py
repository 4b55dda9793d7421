"""Materialising and compacting, killed, cut off and refused at every step: answers stay."""

import errno
import shutil
from itertools import count, cycle, islice
from pathlib import Path

import pyarrow as pa
import pytest
from crash_states import crash_states, image, materialise
from life_tables import BY_CHANNEL, HOURLY, answers, expected, new_table, rows, sources
from race import run_and_die
from recorded_os import DyingOs, FailingOs, RecordedOs
from scale import IS_NIGHTLY

import projseg
from projseg.errors import ProjsegError
from projseg.memory.cache import KEPT
from projseg.table_layer.storage import local_storage

STEP = 1 if IS_NIGHTLY else 5  # of the calls that are killed or refused, one after the other
GROWING = ("create", "write", "fsync", "link", "mkdir")
WRITTEN = [rows(0, count=9), rows(0, count=8, first=9), rows(1, count=7)]
WANTED = expected(pa.concat_tables(WRITTEN))
VERBS = {
    "materialise": lambda table: table.materialize_projection(),
    "compact": lambda table: table.compact(),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A table of three segments, of which one embeds a projection and none the other."""
    location = tmp_path_factory.mktemp("upkeep") / "template"
    table = new_table(location)
    for number, batch in enumerate(WRITTEN):
        if number == 2:
            table.add_projection(HOURLY)
        table.append(batch)
    table.add_projection(BY_CHANNEL)
    assert answers(table, threads=1) == WANTED
    for verb in VERBS.values():  # compiles before anything forks
        copy = location.parent / "warm"
        shutil.copytree(location, copy)
        verb(projseg.Table(copy))
        shutil.rmtree(copy)
    return location


@pytest.fixture
def again(template, tmp_path):
    """Return the table as new, in the same place."""
    location = tmp_path / "t"

    def fresh():
        shutil.rmtree(location, ignore_errors=True)
        shutil.copytree(template, location)
        KEPT.clear()
        return projseg.Table(location)

    return fresh


def files_under(location):
    return sorted(str(p.relative_to(location)) for p in Path(location).rglob("*") if p.is_file())


def check(location, before):
    """The table is as before the commit or as after it; return whether it is as after it."""
    KEPT.clear()
    table = projseg.Table(location)
    assert answers(table, threads=1) == answers(table, threads=1, noProjections=True) == WANTED
    assert table.version in (before, before + 1)
    assert table.verify() == []
    return table.version > before


def check_next(location, verb):
    """Whatever was left behind, the verb works now."""
    table = projseg.Table(location)
    VERBS[verb](table)
    assert sources(table).keys() == WANTED.keys()
    assert VERBS[verb](table).segments == 0
    assert answers(table, threads=1) == WANTED


@pytest.mark.sampled(1)
@pytest.mark.parametrize("verb", VERBS)
def test_killed_at_every_changing_call(again, monkeypatch, verb):
    outcomes = set()

    def kill(at):
        table = again()
        before = table.version

        def die():
            monkeypatch.setattr(local_storage, "os", DyingOs(at))
            VERBS[verb](table)

        was_killed = run_and_die(die)
        has_landed = check(table.location, before)
        assert was_killed or has_landed
        outcomes.add((was_killed, has_landed))
        if at % 5 == 1:
            check_next(table.location, verb)
        return was_killed

    ended = next(at for at in count(1, STEP) if not kill(at))
    assert ended > 20
    for at in range(ended - STEP + 1, ended):  # calls that follow the commit are the last
        kill(at)
    # There are fewer calls where bytes of several segments wait and are written together.
    for at in islice(cycle(range(ended + 4, ended - 5, -1)), 90):
        if (True, True) in outcomes:
            break
        kill(at)
    assert (True, True) in outcomes


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "forever",
    [pytest.param(False, id="once"), pytest.param(True, id="forever", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("verb", VERBS)
def test_refused_at_every_changing_call(again, monkeypatch, verb, forever):
    told = set()
    for at in count(1, STEP):
        table = again()
        before, files = table.version, files_under(table.location)
        failing = FailingOs(at, errno.ENOSPC, forever=forever, only=GROWING)
        outcome = ""
        with monkeypatch.context() as patch:
            patch.setattr(local_storage, "os", failing)
            try:
                VERBS[verb](table)
            except ProjsegError as error:
                outcome = error.code
                if "nothing was committed" in error.message:
                    assert files_under(table.location) == files
        told.add(outcome)
        has_landed = check(table.location, before)
        assert has_landed or outcome
        if not failing.was_reached:
            break
    assert at > 12
    assert (
        {"", "PROJSEG_STORAGE_FULL"}
        <= told
        <= {
            "",
            "PROJSEG_STORAGE_FULL",
            "PROJSEG_COMMIT_STATE_UNKNOWN",
        }
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("verb", VERBS)
def test_a_power_cut_at_any_moment(again, tmp_path, monkeypatch, verb):
    """Of one new segment, whose file, manifest and snapshot are three changes of names."""
    table = again()
    interval = "2024-05-01/P1D"
    if verb == "materialise":
        table.compact(interval=interval)
        table.drop_projection("by_channel")
        table.add_projection({**BY_CHANNEL, "name": "b", "sql": "SELECT page, count(*) GROUP BY 1"})
    root, before, start = Path(table.location), image(table.location), table.version
    recorded = RecordedOs()
    with monkeypatch.context() as patch:
        patch.setattr(local_storage, "os", recorded)
        if verb == "compact":
            table.compact(interval=interval)
        else:
            table.materialize_projection(interval=interval)
    seen = set()
    for number, (done, state) in enumerate(crash_states(recorded.events)):
        place = tmp_path / f"state{number}"
        materialise(state, before, root, place)
        KEPT.clear()
        found = projseg.Table(place)
        for entry in found.snapshot.segments:
            assert found.snapshot.storage.size(entry.file) == entry.byte_count
        assert found.snapshot.row_count == 24
        seen.add(found.version)
        if done == len(recorded.events):
            assert found.version == start + 1, "an acknowledged commit was lost"
        shutil.rmtree(place)
    assert seen == {start, start + 1}

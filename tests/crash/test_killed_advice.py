"""Applying advice: killed at every changing call, twice at once, and in a read-only folder."""

import os
import pickle
import shutil
import sys
from itertools import count

import pytest
from advised_tables import rows_of
from race import run_and_die, run_processes
from recorded_os import DyingOs
from restricted_user import require_permissions, run_restricted
from scale import IS_NIGHTLY

import projseg
from projseg.advisor.advice import Advice
from projseg.advisor.advice_items import AdviceItem
from projseg.advisor.candidates import candidate_of, need_of
from projseg.advisor.other_candidates import (
    IndexNeed,
    RowsNeed,
    index_candidate,
    rows_candidate,
    view_candidate,
)
from projseg.algebra.query.request import Query
from projseg.benchmarks.bench import same_answer
from projseg.errors import CommitConflictError
from projseg.memory.cache import KEPT
from projseg.table.table_version import reader_of
from projseg.table_layer.storage import local_storage

STEP = 1 if IS_NIGHTLY else 9
QUESTIONS = (
    "SELECT channel, sum(added) AS s FROM t GROUP BY channel",
    "SELECT robot, max(price) AS p FROM t GROUP BY robot",
    "SELECT note FROM t WHERE visit = 'v0000007'",
)


def made(folder):
    """Return a table, and advice of each kind for it."""
    table = projseg.Table.create(
        folder, data=rows_of(60, days=2), time_column="time", segment_granularity="day",
        projections=[projseg.Projection("unused", ["page"])],
        indexes=[projseg.Index("old", "page")],
    )  # fmt: skip
    snapshot = table.snapshot
    groups = [
        candidate_of(
            need_of(reader_of(table).bound(Query(group_by=[key], aggregators=[call]))), snapshot, ()
        )
        for key, call in (("channel", "sum(added)"), ("robot", "max(price)"))
    ]
    candidates = [
        groups[0],
        rows_candidate(RowsNeed(frozenset(("visit", "note")), ("visit",)), snapshot, ()),
        index_candidate(IndexNeed("visit", "bloom"), snapshot, ()),
        index_candidate(IndexNeed("note", "token"), snapshot, ()),
        view_candidate(groups[1], ()),
    ]
    items = [AdviceItem(one.kind, one.name, one.sql) for one in candidates]
    drops = (("unused", "projection"), ("old", "index"))
    items += [AdviceItem("drop", name, evidence={"kind": kind}) for name, kind in drops]
    return table, Advice(
        table=table.location, version=0, log={}, budget_bytes=0, bytes_before=0, bytes_after=0,
        base_bytes=0, items=tuple(items), shapes=(),
        candidates={one.name: one for one in candidates},
    )  # fmt: skip


def answers(table):
    return [table.sql(text) for text in QUESTIONS]


def declared(table):
    """Return the names of what a table declares, and whether all of it is built."""
    properties = table.properties
    views = set(table.views()["name"].to_pylist())
    names = {one.name for one in (*properties.projections, *properties.declared_indexes)} | views
    is_built = not any(table.projection_stats()["missing"].to_pylist())
    covered = table.indexes()
    is_built &= all(row["covered"] == row["segments"] for row in covered.to_pylist())
    return names, is_built


def opened(location):
    """Return the table as a new process would see it."""
    KEPT.clear()
    return projseg.Table(location)


def test_a_killed_apply_is_completed_by_another(tmp_path, monkeypatch):
    table, advice = made(tmp_path / "t")
    wanted, expected = {*advice.candidates}, answers(table)
    before, _ = declared(table)
    tried = seen = 0
    for at in count(1, STEP):
        location = tmp_path / f"t{at}"
        shutil.copytree(tmp_path / "t", location)

        def die(at=at, location=location):
            monkeypatch.setattr(local_storage, "os", DyingOs(at))
            advice.apply(projseg.Table(location), drop=True)

        is_dead = run_and_die(die)
        found = opened(location)
        names, _ = declared(found)
        # The declaration is one commit; views have a log of their own.
        views = {one.name for one in advice.items if one.kind == "view"}
        assert names - views in (before, wanted - views)
        seen += names - views == before
        assert found.verify(deep=True) == []
        assert all(map(same_answer, answers(found), expected))
        advice.apply(found, drop=True)
        assert declared(found) == (wanted, True)
        assert advice.apply(opened(location), drop=True) == []
        assert all(map(same_answer, answers(opened(location)), expected))
        assert opened(location).verify(deep=True) == []
        tried += 1
        if not is_dead:
            break
        shutil.rmtree(location)
    assert tried > 5
    assert 0 < seen < tried


def applied(location, advice):
    """Apply advice; one of two at once may lose to the other, and says so."""
    try:
        advice.apply(projseg.Table(location), drop=True)
    except CommitConflictError:
        return "lost"
    return "done"


@pytest.mark.parametrize("turn", range(2))
def test_two_applies_at_once_do_it_once(tmp_path, turn):
    table, advice = made(tmp_path / "t")
    expected = answers(table)
    outcomes = run_processes(applied, [(table.location, advice)] * 3)
    assert "done" in outcomes
    found = opened(table.location)
    advice.apply(found, drop=True)
    assert declared(found) == ({*advice.candidates}, True)
    assert found.verify(deep=True) == []
    assert all(map(same_answer, answers(found), expected))
    commits = [row["operation"] for row in found.history().to_pylist()]
    assert commits.count("APPLY ADVICE") + commits.count("apply advice") == 1


def test_an_apply_leaves_to_another_what_that_did_in_between(tmp_path):
    table, advice = made(tmp_path / "t")
    expected = answers(table)

    def come_between(_done, _of):
        advice.apply(projseg.Table(table.location), drop=True)

    advice.apply(table, drop=True, on_progress=come_between)
    assert declared(opened(table.location)) == ({*advice.candidates}, True)
    assert all(map(same_answer, answers(opened(table.location)), expected))


APPLY = """
import pickle, sys, projseg
advice = pickle.load(open(sys.argv[2], "rb"))
try:
    advice.apply(projseg.Table(sys.argv[1]))
except projseg.ProjsegError as error:
    print(error.code)
"""


def test_a_folder_that_is_read_only_gives_one_error_and_stays(tmp_path):
    table, advice = made(tmp_path / "t")
    place = tmp_path / "advice.pickle"
    place.write_bytes(pickle.dumps(advice))
    folders = [tmp_path / "t", *(p for p in (tmp_path / "t").rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        require_permissions(tmp_path / "probe")
        done = run_restricted(
            [sys.executable, "-c", APPLY, table.location, str(place)],
            {**os.environ, "HOME": str(tmp_path)},
        )
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert done.stdout.strip() == "PROJSEG_NO_PERMISSION", done.stderr
    assert opened(table.location).version == 0
    assert declared(table)[0] == {"unused", "old"}

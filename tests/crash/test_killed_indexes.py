"""Declaring, building and gathering indexes, killed at every call; two writers while gathering."""

import shutil
import threading
from itertools import count

import pytest
from race import run_and_die
from recorded_os import DyingOs
from scale import IS_NIGHTLY

import projseg
from projseg.maintenance import gather_blooms
from projseg.memory.cache import KEPT
from projseg.table_layer.storage import local_storage

STEP = 1 if IS_NIGHTLY else 7  # of the calls that are killed, one after the other
KINDS = ("bloom", "token", "ngram")
ASKED = {
    "key = 'key 13'": ["key 13"],
    "text_match(key, '13 key')": ["key 13"],
    "key LIKE '%y 13'": ["key 13"],
}
VERBS = {
    "add": lambda table: table.add_index(projseg.Index("later", "key", kind="token")),
    "materialize": lambda table: table.materialize_index(),
    "gather": lambda table: gather_blooms.gather_all(table.snapshot),
}
COMMITS = {"add": 1, "materialize": 2, "gather": 1}  # postings, then their filters gathered


def rows(first, count_=10):
    return [{"key": f"key {number}"} for number in range(first, first + count_)]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A table of four segments, of which two lack the filters; each file speaks of one segment."""
    location = tmp_path_factory.mktemp("indexes") / "template"
    table = projseg.Table.create(location, {"key": "string"})
    for number in range(4):
        if number == 2:
            for kind in KINDS:
                table.add_index(projseg.Index(kind, "key", kind=kind))
        table.append(rows(10 * number))
    for verb in VERBS.values():  # compiles before anything forks
        copy = location.parent / "warm"
        shutil.copytree(location, copy)
        verb(projseg.Table(copy))
        shutil.rmtree(copy)
    return location


def check(location):
    KEPT.clear()
    table = projseg.Table(location)
    assert table.verify(deep=True) == []
    for condition, wanted in ASKED.items():
        assert table.query(columns=["key"], filter=condition)["key"].to_pylist() == wanted
    names = [one.name for one in table.snapshot.bloom_files]
    assert len(set(names)) == len(names)
    return table


def is_covered(table):
    return all(row["covered"] == row["segments"] for row in table.indexes().to_pylist())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("verb", VERBS)
def test_killed_at_every_changing_call(template, tmp_path, monkeypatch, verb):
    killed = landed = 0
    for at in count(1, STEP):
        location = tmp_path / f"t{at}"
        shutil.copytree(template, location)
        KEPT.clear()
        table = projseg.Table(location)
        before = table.version

        def die(at=at, table=table):
            monkeypatch.setattr(local_storage, "os", DyingOs(at))
            VERBS[verb](table)

        was_killed = run_and_die(die)
        found = check(location)
        assert before <= found.version <= before + COMMITS[verb]
        assert was_killed or found.version == before + COMMITS[verb]
        killed += was_killed
        landed += was_killed and found.version > before
        if not was_killed:
            break
        if found.version < before + COMMITS[verb]:  # whatever was left behind, the verb works now
            VERBS[verb](found)
            again = check(location)
            assert verb != "materialize" or is_covered(again)
        shutil.rmtree(location)
    assert killed * STEP > 5
    assert landed or STEP > 1


def test_two_writers_while_another_gathers(template, tmp_path):
    location = tmp_path / "t"
    shutil.copytree(template, location)
    failures = []

    def write(first):
        table = projseg.Table(location)
        for number in range(6):
            table.append(rows(first + 10 * number))

    def gather():
        for _ in range(6):
            gather_blooms.gather_all(projseg.Table(location).snapshot)

    def run(work, *given):
        try:
            work(*given)
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            failures.append(error)

    threads = [
        threading.Thread(target=run, args=given)
        for given in [(write, 1000), (write, 2000), (gather,)]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    table = check(location)
    table.materialize_index()
    table = check(location)
    assert table.query(aggregators="count(*) AS n")["n"].to_pylist() == [40 + 2 * 60]
    found = [(row["segments"], row["covered"]) for row in table.indexes().to_pylist()]
    assert found == [(16, 16)] * len(KINDS)
    gather_blooms.gather_all(table.snapshot)
    assert len(check(location).snapshot.bloom_files) == len(KINDS)

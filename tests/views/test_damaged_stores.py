"""Whatever file of the store of views is damaged, verbs that remove or replace views work."""

import random
import shutil
from pathlib import Path

import pytest
from scale import tries

import projseg
from projseg import Table
from projseg.errors import ProjsegError
from projseg.memory.cache import KEPT

BY_K = "SELECT k, sum(n) AS n FROM t GROUP BY k"
BY_N = "SELECT n, count(*) AS c FROM t GROUP BY n"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    table = Table.create(folder / "t", {"k": "string", "n": "bigint"})
    table.append([{"k": "a", "n": 1}, {"k": "zebulon", "n": 2}])
    table.create_view("v", BY_K)
    table.create_view("w", BY_N)
    table.append([{"k": "b", "n": 3}])
    return folder / "t"


def kinds(location):
    """Return the files of the newest version of the store by their kind."""
    store = Path(location) / "views"
    return {
        "version": [max((store / "_projseg").glob("0*.json"))],
        "lists": sorted((store / "_projseg/manifests").iterdir()),
        "covers": sorted((store / "_projseg/covers").iterdir()),
        "parts": sorted((store / "data").iterdir()),
    }


def damage(path, how, drawn):
    content = bytearray(path.read_bytes())
    if how == "flipped":
        content[drawn.randrange(len(content))] ^= 1 << drawn.randrange(8)
    elif how == "cut":
        del content[drawn.randrange(len(content)) :]
    elif how == "empty":
        content.clear()
    path.unlink()
    if how == "folder":
        path.mkdir()
    elif how != "gone":
        path.write_bytes(bytes(content))


def check_whole(location):
    KEPT.clear()
    table = Table(location)
    for sql in (BY_K, BY_N):
        found, wanted = (
            sorted(map(str, table.sql(sql, context=context).to_pylist()))
            for context in ({}, {"noViews": True})
        )
        assert found == wanted
    return table


VERBS = {
    "vacuum": lambda table: table.vacuum(dry_run=False),
    "vacuum 0": lambda table: table.vacuum(0, dry_run=False, force=True),
    "erase": lambda table: table.erase("k = 'zebulon'"),
    "replace": lambda table: table.create_view(
        "v", "SELECT k, max(n) AS m FROM t GROUP BY k", replace=True
    ),
    "drop": lambda table: table.view("v").drop(),
}


@pytest.mark.sampled(100)
@pytest.mark.parametrize("verb", VERBS)
def test_what_removes_views_works_on_any_damage(sound, tmp_path, verb):
    drawn = random.Random(verb)
    for number in range(tries(120)):
        location = tmp_path / "t"
        shutil.rmtree(location, ignore_errors=True)
        shutil.copytree(sound, location)
        kind = drawn.choice(["version", "lists", "lists", "covers", "parts"])
        how = drawn.choice(["flipped", "cut", "empty", "gone"])
        for path in drawn.choices(kinds(location)[kind], k=drawn.randint(1, 2)):
            if path.is_file():
                damage(path, how, drawn)
        what = (number, kind, how)
        KEPT.clear()
        table = Table(location)
        done = VERBS[verb](table)
        table = check_whole(location)
        if verb == "erase":
            assert done.found.to_pylist() == [], what
            left = [p for p in location.rglob("*") if p.is_file() and b"zebulon" in p.read_bytes()]
            assert left == [], what
        names = []
        try:
            names = table.views()["name"].to_pylist()
        except ProjsegError:
            assert verb.startswith("vacuum"), what
            continue
        assert ("v" in names) is (verb == "replace") or verb not in ("replace", "drop"), what
        table.append([{"k": "c", "n": 4}])
        check_whole(location)


def test_a_view_of_a_damaged_store_says_so_until_it_is_dropped(sound, tmp_path, caplog):
    shutil.copytree(sound, tmp_path / "t")
    damage(kinds(tmp_path / "t")["version"][0], "cut", random.Random(1))
    KEPT.clear()
    table = Table(tmp_path / "t")
    with pytest.raises(ProjsegError, match="PROJSEG_CORRUPT_TABLE"):
        table.view("v").refresh()
    with pytest.raises(ProjsegError, match="PROJSEG_CORRUPT_TABLE"):
        table.create_view("x", "SELECT k, min(n) AS m FROM t GROUP BY k")
    table.view("v").drop()
    assert "all views were dropped" in caplog.text
    table.create_view("x", "SELECT k, min(n) AS m FROM t GROUP BY k")
    assert projseg.Table(tmp_path / "t").views()["name"].to_pylist() == ["x"]

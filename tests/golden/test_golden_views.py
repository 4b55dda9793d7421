"""A store of views, written once and never again: every later release reads and uses it."""

import shutil
from pathlib import Path

import pytest

import projseg
from projseg.table_layer.storage.storage_contract import ViewsFolder
from projseg.views.view_store import encode_store, newest_store, read_store

GOLDEN = Path(__file__).with_name("viewed")
STAR = "SELECT d.region, sum(n) AS n, max(price) AS p FROM t JOIN d ON k = d.code GROUP BY 1"


@pytest.fixture
def tables(tmp_path):
    """The fact and its dimension, where whatever reads them may write, too."""
    shutil.copytree(GOLDEN, tmp_path / "moved")
    return {name: projseg.Table(tmp_path / "moved" / name) for name in "td"}


def test_its_parts_answer(tables):
    views = {one["name"]: one for one in tables["t"].views().to_pylist()}
    assert {name: one["status"] for name, one in views.items()} == {
        "by_region": "ENABLED", "sums": "DISABLED",
    }  # fmt: skip
    assert views["by_region"]["state"] == "fresh"
    for context in ({"useView": "by_region", "forceViews": True}, {"noViews": True}):
        found = projseg.sql(STAR, tables, context=context)
        rows = [(one["region"], one["n"], str(one["p"])) for one in found.to_pylist()]
        assert sorted(rows) == [("eu", 62, "40.00"), ("uk", 51, "40.00")]
    assert tables["t"].verify(deep=True) == []


def test_it_is_kept_up(tables):
    tables["t"].delete("k = 'a' AND n = 0")
    tables["t"].view("sums").enable()
    for name in ("by_region", "sums"):
        assert tables["t"].refresh().view(name).detail()["state"] == "fresh"
    asked = "SELECT k, sum(n) AS n FROM t WHERE n > 0 OR n IS NULL GROUP BY k"
    found = tables["t"].sql(asked, context={"forceViews": True}).to_pylist()
    assert sorted((one["k"] or "", one["n"]) for one in found) == [
        ("", 62), ("a", 62), ("b", 51), ("c", None),
    ]  # fmt: skip


def test_its_versions_are_written_as_they_are():
    table = projseg.Table(GOLDEN / "t")
    storage = ViewsFolder(table.snapshot.storage)
    newest = newest_store(storage)
    assert newest is not None
    assert newest.version > 0
    for version in range(newest.version + 1):
        stored = (GOLDEN / "t" / "views" / "_projseg" / f"{version:020}.json").read_bytes()
        assert encode_store(read_store(storage, version).file) == stored

"""Stored results, written once and never again: every later release reads and uses them."""

import shutil
from pathlib import Path

import pytest

import projseg
from projseg.table_layer.storage.paths import result_folder
from projseg.table_layer.storage.storage_contract import ViewsFolder
from projseg.views.view_store import encode_store, newest_store, read_store

GOLDEN = Path(__file__).with_name("resulted")


@pytest.fixture
def table(tmp_path):
    """The table whose folder has the store, where whatever reads it may write, too."""
    shutil.copytree(GOLDEN, tmp_path / "moved")
    return projseg.Table(tmp_path / "moved" / "t")


def test_its_results_are_listed_and_read(table):
    views = {one["name"]: one for one in table.views().to_pylist()}
    assert {name: (one["grade"], one["state"], one["rows"]) for name, one in views.items()} == {
        "top": ("result", "fresh", 2), "unbuilt": ("result", "empty", 0),
    }  # fmt: skip
    assert table.verify(deep=True) == []
    result = newest_store(ViewsFolder(table.snapshot.storage)).view("top").result
    rows = projseg.Table(f"{table.location}/views/{result_folder(result.cover)}")
    found = rows.sql("SELECT c0, c1, c2 FROM r ORDER BY row").to_pylist()
    assert [tuple(one.values()) for one in found] == [("eu", 163, 7), ("uk", 63, 6)]


def test_it_is_followed(table):
    table.delete("n = 100")
    assert table.view("top").detail()["state"] == "behind"
    table.restore(table.version - 1)
    assert table.view("top").detail()["state"] == "fresh"
    table.view("top").drop()
    table.vacuum(0, dry_run=False, force=True)
    assert not list(Path(table.location).glob("views/results/*/data/*"))


def test_its_versions_are_written_as_they_are():
    storage = ViewsFolder(projseg.Table(GOLDEN / "t").snapshot.storage)
    newest = newest_store(storage)
    assert newest is not None
    for version in range(newest.version + 1):
        stored = (GOLDEN / "t" / "views" / "_projseg" / f"{version:020}.json").read_bytes()
        assert encode_store(read_store(storage, version).file) == stored

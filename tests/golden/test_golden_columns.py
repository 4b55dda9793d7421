"""A table whose columns were changed, written once and never again: it reads as ever."""

import json
import shutil
from pathlib import Path

import pytest

from projseg import Table
from projseg.errors import CorruptTableError
from projseg.table_layer.metadata import checksummed_json
from projseg.table_layer.metadata.snapshot import encode_snapshot, open_snapshot
from projseg.table_layer.storage.locate_storage import open_storage

GOLDEN = Path(__file__).with_name("changed_columns")


def test_each_version_reads_with_its_own_columns():
    assert [Table(GOLDEN, version=n).schema.names for n in range(7)] == [
        ["k", "n", "gone"], ["k", "n", "gone"], ["key", "n", "gone"], ["key", "n", "gone"],
        ["key", "n"], ["key", "n", "gone"], ["key", "n", "gone"],
    ]  # fmt: skip
    assert Table(GOLDEN, version=1).query(columns="gone", order_by="gone").to_pylist() == [
        {"gone": "x"}, {"gone": "y"}, {"gone": "z"},
    ]  # fmt: skip
    newest = Table(GOLDEN)
    assert newest.query(order_by="n").to_pylist() == [
        {"key": None, "n": None, "gone": None},
        {"key": "c", "n": -1, "gone": None},
        {"key": "a", "n": 1, "gone": None},
        {"key": "b", "n": 2, "gone": None},
        {"key": "a", "n": 2**40, "gone": 0.5},
    ]
    answer = newest.query(
        "key", ["sum(n) AS n", "count(*) AS c"], context={"useProjection": "by_k"}
    )
    assert answer.to_pylist() == [
        {"key": None, "n": None, "c": 1},
        {"key": "a", "n": 2**40 + 1, "c": 2},
        {"key": "b", "n": 2, "c": 1},
        {"key": "c", "n": -1, "c": 1},
    ]
    assert newest.verify(deep=True) == []


def test_its_snapshots_are_written_as_they_are():
    storage = open_storage(GOLDEN)
    for version in range(7):
        stored = (GOLDEN / "_projseg" / f"{version:020}.json").read_bytes()
        assert encode_snapshot(open_snapshot(storage, version).file) == stored


def forged(folder, change):
    """Return the golden table's newest version with other stored columns, rightly sealed."""
    name = f"{6:020}.json"
    file = json.loads((GOLDEN / "_projseg" / name).read_bytes())
    change(file["properties"]["stored_columns"])
    payload = bytearray(json.dumps(file, separators=(",", ":"), ensure_ascii=False).encode())
    payload[13:45] = checksummed_json._digest(payload)
    shutil.copytree(GOLDEN, folder)
    (folder / "_projseg" / name).write_bytes(payload)
    return folder


def test_a_declared_projection_reads_columns_of_the_table(tmp_path):
    def retire_the_key(stored):
        stored["retired"] += stored["columns"][0]
        stored["columns"][0] = [{"name": "k#2", "type": "string"}]

    table = Table(forged(tmp_path / "t", retire_the_key))
    with pytest.raises(CorruptTableError, match="by_k"):
        table.query("key", "count(*) AS n")


@pytest.mark.parametrize(
    "change",
    [
        lambda stored: stored["columns"].pop(),
        lambda stored: stored["columns"][0].clear(),
        lambda stored: stored["columns"][1].reverse(),
        lambda stored: stored["columns"][1][0].update(type="double"),
        lambda stored: stored["columns"][1][-1].update(type="smallint"),
        lambda stored: stored["retired"][0].update(name="N#2"),
        lambda stored: stored["retired"][0].update(name=""),
        lambda stored: stored["retired"][0].update(type="txt"),
    ],
)
def test_a_snapshot_that_lies_about_stored_names_is_refused(tmp_path, change):
    folder = forged(tmp_path / "t", change)
    with pytest.raises(CorruptTableError):
        open_snapshot(open_storage(folder), 6)

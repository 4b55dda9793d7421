"""Companions of files of others, read by what SPEC.md says alone, beside the files' rows."""

from collections import defaultdict

import numpy as np
import pyarrow.parquet as pq
import pytest
import xxhash
from foreign_source import Folder
from plain_reader import PlainSegment
from plain_table import read_manifest, read_snapshot

import projseg
from projseg import Projection

BY_CITY = Projection("by_city", ["city"], ["sum(added) AS added", "count(*) AS rows"])


def rows_of(foreign, columns):
    """Rows of the row groups that an entry names, by the table's columns; None where it has none.

    Parameters
    ----------
    columns : dict of str to str
        Stored names of columns, by their names here.
    """
    with open(foreign["path"], "rb") as file:
        content = file.read()
    assert len(content) == foreign["byte_count"]
    size = int.from_bytes(content[-8:-4], "little") + 8
    assert xxhash.xxh3_64_intdigest(content[-size:]) == foreign["footer_digest"]
    file = pq.ParquetFile(foreign["path"])
    first, end = foreign["row_groups"]
    held = file.read_row_groups(list(range(first, end)))
    found = {}
    for name, stored in columns.items():
        own = foreign["names"].get(stored) if "names" in foreign else name
        known = own in held.column_names
        found[name] = held.column(own).to_pylist() if known else None
        if stored in foreign["partition"]:
            assert not known
            found[name] = [foreign["partition"][stored]] * len(held)
    return len(held), found


def check(location, columns):
    """Compare each companion with the rows that its entry names; return how many there are."""
    references = read_snapshot(location)["manifests"]
    entries = [entry for one in references for entry in read_manifest(location, one)]
    for entry in entries:
        segment = PlainSegment((location / entry["file"]).read_bytes())
        assert segment.is_companion
        count, rows = rows_of(entry["foreign"], columns)
        assert segment.table("__base")["row_count"] == entry["row_count"] == count
        expected = defaultdict(lambda: [0, 0])
        for city, added in zip(rows["city"], rows["added"], strict=True):
            expected[city][0] += added
            expected[city][1] += 1
        (projection,) = entry["projections"]
        table = segment.read_table(projection["name"])
        keys, *states = [
            table[c["role"], c["name"]] for c in segment.footer["tables"][1]["columns"]
        ]
        sums = {tuple(one) for one in zip(keys, *states, strict=True)}
        assert sums == {(city, *both) for city, both in expected.items()}
        zone = entry["columns"][columns["added"]]
        assert (zone["min"], zone["max"]) == (min(rows["added"]), max(rows["added"]))
        for number in range(len(segment.dictionaries)):
            assert segment.hashes(number) in (None, segment.own_hashes(number))
        segment.check_layout()
    return len(entries)


def test_companions_of_a_folder_follow_from_the_document(tmp_path):
    folder = Folder(tmp_path / "source", np.random.default_rng(4))
    for _ in range(3):
        folder.add()
    projseg.Table.attach(
        tmp_path / "ours",
        f"parquet:{folder.place}",
        time_column="time",
        projections=[BY_CITY],
        target_segment_rows=200,
    )
    columns = {"city": "city", "added": "added"}
    assert check(tmp_path / "ours", columns) > 3


def test_companions_of_an_iceberg_table_follow_from_the_document(tmp_path):
    pytest.importorskip("pyiceberg")
    from iceberg_source import NAME, IcebergLake

    lake = IcebergLake(tmp_path / "lake", np.random.default_rng(4))
    lake.append()
    table = projseg.Table.attach(
        tmp_path / "ours",
        f"iceberg:{NAME}",
        source_options=lake.properties,
        time_column="time",
        projections=[BY_CITY],
    )
    lake.append()
    table.sync()
    assert check(tmp_path / "ours", {"city": "city", "added": "added"}) == 2

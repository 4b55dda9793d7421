"""SPEC.md's tables of the table format are the structs and limits of the code."""

import re
from pathlib import Path

import msgspec
import pytest
from small_tables import new_table, new_write_id, put_segment

from projseg.table_layer.commits.commit import append, commit
from projseg.table_layer.metadata import metadata_limits
from projseg.table_layer.metadata.change import Expire, SetTags
from projseg.table_layer.metadata.checksummed_json import SealedFile
from projseg.table_layer.metadata.index_declaration import StoredIndexes
from projseg.table_layer.metadata.manifest import ManifestReference, _ManifestFile
from projseg.table_layer.metadata.segment_entry import (
    BloomReference,
    ColumnZone,
    DeletionVector,
    ForeignFile,
    SegmentEntry,
    StoredProjection,
)
from projseg.table_layer.metadata.snapshot import SnapshotFile, Transaction
from projseg.table_layer.metadata.stored_columns import StoredColumns
from projseg.table_layer.metadata.table_properties import StoredSource, TableProperties

SPEC = Path(__file__).parents[2] / "SPEC.md"
SEALED = list(SealedFile.__struct_fields__)


def tables_under(heading):
    """Return the first columns of each table between this heading and the next."""
    text = SPEC.read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.M | re.S)
    assert section is not None, f"SPEC.md has no section '{heading}'"
    tables, rows = [], []
    for line in [*section[1].splitlines(), ""]:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
        elif rows:
            tables.append(rows[2:])
            rows = []
    return tables


def fields(table):
    return [row[0] for row in table]


@pytest.mark.parametrize(
    ("heading", "structs"),
    [
        ("Table: sealed JSON", [SEALED]),
        (
            "Table: snapshots",
            [
                list(SnapshotFile.__struct_fields__)[len(SEALED) :],
                list(TableProperties.__struct_fields__)[:-1],  # indexes stand beside it
            ],
        ),
        ("Table: stored columns", [list(StoredColumns.__struct_fields__)]),
        (
            "Table: indexes",
            [list(StoredIndexes.__struct_fields__), list(BloomReference.__struct_fields__)],
        ),
        ("Table: manifest references", [list(ManifestReference.__struct_fields__)]),
        (
            "Table: manifests",
            [
                list(_ManifestFile.__struct_fields__)[len(SEALED) :],
                list(SegmentEntry.__struct_fields__)[:-1],  # Bloom files are the snapshot's
                list(ColumnZone.__struct_fields__),
                list(StoredProjection.__struct_fields__),
                list(DeletionVector.__struct_fields__),
            ],
        ),
        (
            "Table: foreign tables",
            [list(StoredSource.__struct_fields__), list(ForeignFile.__struct_fields__)],
        ),
    ],
)
def test_fields_and_their_order(heading, structs):
    assert [fields(table) for table in tables_under(heading)] == structs


def type_words(field_type):
    """Return how SPEC.md words a field's type, for the plain ones."""
    if isinstance(field_type, msgspec.inspect.IntType):
        return "integer"
    if isinstance(field_type, msgspec.inspect.StrType):
        return "text"
    return "boolean" if isinstance(field_type, msgspec.inspect.BoolType) else None


def test_types_of_plain_fields():
    structs = [SnapshotFile, TableProperties, ManifestReference, SegmentEntry, ColumnZone]
    worded = {
        row[0]: row[1]
        for heading in ("sealed JSON", "snapshots", "manifest references", "manifests")
        for table in tables_under(f"Table: {heading}")
        for row in table
    }
    checked = 0
    for struct in structs:
        for field in msgspec.inspect.type_info(struct).fields:
            word = type_words(field.type)
            if word is not None and field.name not in ("min_time_us", "max_time_us"):
                assert worded[field.name] == word, field.name
                checked += 1
    assert checked > 15


def test_limits():
    (table,) = tables_under("Table: limits")
    assert {row[0]: int(row[1]) for row in table} == {
        name: value for name, value in vars(metadata_limits).items() if name.isupper()
    }


def test_every_field_is_written(tmp_path):
    """SPEC.md says that all fields are present: none may be left out for being a default.

    Those of features are there if they say something.
    """
    storage, base = new_table(tmp_path)
    write_id = new_write_id()
    snapshot = append(storage, base, [put_segment(storage, write_id)], write_id=write_id)
    stored = msgspec.json.decode((tmp_path / "_projseg" / f"{1:020d}.json").read_bytes())
    every_field = [
        name for name in SnapshotFile.__struct_fields__ if name not in ("commit", "indexes")
    ]
    assert list(stored) == [*every_field[: every_field.index("tags")], "optional"]
    for number, change in enumerate([SetTags({"a": 0}), Expire(1)], start=2):
        commit(storage, base, change, write_id=new_write_id(), operation="test")
        name = tmp_path / "_projseg" / f"{number:020d}.json"
        stored = msgspec.json.decode(name.read_bytes())
    assert list(stored) == every_field
    assert stored["required_features"] == ["tags", "vacuum", "optional"]
    declared = list(TableProperties.__struct_fields__)
    assert list(stored["properties"]) == declared[: declared.index("stored_columns")]
    manifest = msgspec.json.decode((tmp_path / snapshot.file.manifests[0].name).read_bytes())
    assert list(manifest) == list(_ManifestFile.__struct_fields__)
    assert SegmentEntry.__struct_fields__[-2] == "deletion_vector"  # of no deleted rows left out
    assert len(manifest["entries"][0]) == len(SegmentEntry.__struct_fields__) - 2
    assert len(Transaction.__struct_fields__) == 2

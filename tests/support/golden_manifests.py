"""Manifests of released versions, and the entries that they list.

A builder specifies its file. Neither of them ever changes: a new case gets a new name.
`python tests/support/golden_manifests.py` writes the files that are missing.
"""

from pathlib import Path

from projseg.table_layer.metadata import manifest
from projseg.table_layer.metadata.segment_entry import (
    ColumnZone,
    DeletionVector,
    ForeignEntry,
    ForeignFile,
    SegmentEntry,
    StoredProjection,
)
from projseg.table_layer.storage.storage_contract import SizedRead

GOLDEN = Path(__file__).parents[1] / "golden"
HOUR = 3_600_000_000
WRITE_ID = "0123456789abcdef" * 2


class OneFile:
    """A storage that keeps what is put into it."""

    location = "golden"

    def put_if_absent(self, name, payload):
        self.name, self.payload = name, payload

    def read_sized(self, name, offset, size):
        return SizedRead(self.payload[offset : offset + size], len(self.payload))


def entry(number, kind=SegmentEntry, **facts):
    """One segment of an hour."""
    start = number * HOUR
    return kind(
        file=f"data/{WRITE_ID}-0-0-{number}.pseg",
        write_id=WRITE_ID,
        row_count=9000,
        byte_count=54_321,
        footer_checksum=2**64 - 1 - number,
        interval=(start, start + HOUR),
        min_time_us=start + 5,
        max_time_us=start + HOUR - 1,
        columns={
            "time": ColumnZone(start + 5, start + HOUR - 1, 0, False, True, 4000),
            "price": ColumnZone(-0.5, "Infinity", 3, True, False, 8000),
            "word": ColumnZone("ähnlich", None, 0, False, False, 700),
        },
        projections=(StoredProjection("hourly", "a" * 64, 12, 300, {"hour": 8, "n.count": 9}),),
        not_built=(("failed", "b" * 64, 'division by "zero"'),),
        **facts,
    )


def build_manifest():
    """Two segments of which no row is deleted."""
    return [entry(0), entry(1)]


def build_manifest_with_deleted_rows():
    """Two segments, the second with a deletion vector."""
    vector = DeletionVector(f"data/{WRITE_ID}-{'c' * 32}.pdel", 4081, 2**63 + 1, 7003)
    return [entry(0), entry(1, deletion_vector=vector)]


def build_manifest_of_foreign_rows():
    """Two companions, of a file on a disk and of one that a log names."""
    one = ForeignFile("/lake/é/a.parquet", 2**40, "1732752000000000001-42", 2**64 - 1, (0, 3))
    other = ForeignFile("s3://b/city=x/c.parquet", 17, "", 0, (3, 4), {"city": "x", "day": None})
    return [entry(n, ForeignEntry, foreign=file) for n, file in enumerate((one, other))]


def build_manifest_of_foreign_ids():
    """Two companions of files whose columns are found by ids, one without any of them."""
    names = {"city": "stadt", "city#2": "city"}
    one = ForeignFile("/lake/a.parquet", 2**40, "", 1, (0, 3), {"day": None}, names)
    other = ForeignFile("/lake/b.parquet", 17, "", 0, (0, 1), {}, {})
    return [entry(n, ForeignEntry, foreign=file) for n, file in enumerate((one, other))]


def build_entries(name):
    """The entries of a golden manifest."""
    return {
        "manifest_of_foreign_ids": build_manifest_of_foreign_ids,
        "manifest_of_foreign_rows": build_manifest_of_foreign_rows,
        "manifest": build_manifest,
        "manifest_with_deleted_rows": build_manifest_with_deleted_rows,
    }[name]()


def written(name):
    """The bytes of a manifest of that golden file's entries, and how a snapshot lists it."""
    storage = OneFile()
    made = manifest.new_manifest_name
    manifest.new_manifest_name = lambda: f"_projseg/manifests/{'d' * 32}.json"
    try:
        (reference,) = manifest.write_manifests(storage, build_entries(name), [])
    finally:
        manifest.new_manifest_name = made
    return storage, reference


if __name__ == "__main__":
    for name in (
        *("manifest", "manifest_with_deleted_rows", "manifest_of_foreign_rows"),
        "manifest_of_foreign_ids",
    ):
        path = GOLDEN / f"{name}.json"
        if not path.exists():
            path.write_bytes(written(name)[0].payload)

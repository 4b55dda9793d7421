"""Tables of tiny files that end like segments, which is all that the table layer checks."""

import pyarrow as pa

from projseg.segment_format.footer import HEAD_LAYOUT, Tail, pack_head
from projseg.table_layer.commits.commit import create_table
from projseg.table_layer.metadata.segment_entry import ColumnZone, SegmentEntry, StoredProjection
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.metadata.table_properties import ProjectionDeclaration, TableProperties
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.paths import new_write_id, segment_name
from projseg.table_layer.storage.storage_contract import Storage

HOUR_US = 3_600_000_000
SCHEMA = pa.schema(
    [("time", pa.timestamp("us", tz="UTC")), ("channel", pa.string()), ("added", pa.int64())]
)
HOURLY = ProjectionDeclaration("hourly", "a" * 32, '{"group_by":["channel"]}')


def small_properties(**options) -> TableProperties:
    options = {"time_column": "time", "segment_granularity": "hour", **options}
    return TableProperties.declare(SCHEMA, **options)


def new_table(location, **options) -> tuple[Storage, Snapshot]:
    storage = open_storage(location)
    return storage, create_table(storage, small_properties(**options))


def segment_bytes(footer: bytes) -> tuple[bytes, int]:
    """Return a file with a valid tail, and the checksum in the tail."""
    tail = Tail(HEAD_LAYOUT.size, len(footer))
    return pack_head(b"i" * 16) + footer + tail.pack(footer), tail.checksum(footer)


def describe_segment(write_id, *, partition=0, attempt=0, number=0, hour=0, rows=10, **facts):
    """Return (entry, content) of a segment whose times lie in the `hour`-th hour of 1970."""
    name = segment_name(write_id, partition, attempt, number)
    content, checksum = segment_bytes(name.encode())
    start = hour * HOUR_US
    defaults = {
        "file": name,
        "write_id": write_id,
        "row_count": rows,
        "byte_count": len(content),
        "footer_checksum": checksum,
        "interval": (start, start + HOUR_US),
        "min_time_us": start,
        "max_time_us": start + HOUR_US - 1,
        "columns": {
            "time": ColumnZone(start, start + HOUR_US - 1, 0, False, True, 80),
            "channel": ColumnZone("a", "z", 1, False, True, 40),
        },
    }
    return SegmentEntry(**{**defaults, **facts}), content


def put_segment(storage, write_id, **facts) -> SegmentEntry:
    entry, content = describe_segment(write_id, **facts)
    with storage.create(entry.file) as sink:
        sink.write(content)
        sink.commit()
    return entry


def hourly_of(entry_rows: int = 3) -> tuple[StoredProjection, ...]:
    return (StoredProjection("hourly", HOURLY.definition_hash, entry_rows, 99, {"channel": 9}),)


def files_of(snapshot) -> list[str]:
    return sorted(entry.file for entry in snapshot.segments)


__all__ = [
    "HOURLY",
    "HOUR_US",
    "SCHEMA",
    "describe_segment",
    "files_of",
    "hourly_of",
    "new_table",
    "new_write_id",
    "put_segment",
    "segment_bytes",
    "small_properties",
]

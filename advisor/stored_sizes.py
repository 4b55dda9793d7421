"""What a table's projections, indexes and views take as they are stored."""

from __future__ import annotations

from typing import NamedTuple

from projseg.table import Table
from projseg.table.table_version import reader_of


class StoredSize(NamedTuple):
    """Rows, of an index keys, and bytes."""

    rows: int
    bytes: int


def stored_bytes(table: Table) -> int:
    """Return the bytes of a table's projections, filters, postings and views."""
    snapshot = table.snapshot
    projections = sum(one.byte_count for entry in snapshot.segments for one in entry.projections)
    filters = sum(one.byte_count for one in snapshot.bloom_files)
    postings = 0
    if any(one.postings for index in snapshot.properties.declared_indexes for one in index.columns):
        postings = sum(table.indexes()["postings_bytes"].to_pylist())
    store = reader_of(table).view_store()
    views = 0 if store is None else sum(view.byte_count for view in store.views.values())
    return projections + filters + postings + views


def stored_size(table: Table, kind: str, name: str) -> StoredSize:
    """Return the size of a projection, an index or a view; zeros if it is not there."""
    if kind == "index":
        listed = [row for row in table.indexes().to_pylist() if row["name"] == name]
        found = [(row["keys"], row["bloom_bytes"] + row["postings_bytes"]) for row in listed]
    elif kind == "view":
        store = reader_of(table).view_store()
        views = () if store is None else store.views.values()
        found = [(one.row_count, one.byte_count) for one in views if one.name == name]
    else:
        found = [
            (one.row_count, one.byte_count)
            for entry in table.snapshot.segments
            for one in entry.projections
            if one.name == name
        ]
    return StoredSize(sum(rows for rows, _ in found), sum(size for _, size in found))

"""What became of the projections of a catalog's tables, as rows.

Commits by name count that once a minute and keep it beside the definition, so that a list of 10,000
tables opens none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from projseg.catalog.catalog_tables import CatalogTables
from projseg.catalog.store.table_metadata import ProjectionStatus, TableMetadata
from projseg.errors import ProjsegError

_STATUS: Final = pa.schema(
    [
        ("name", pa.string()),
        ("projection", pa.string()),
        ("table_version", pa.int64()),
        ("status", pa.string()),
        ("segments", pa.int64()),
        ("missing", pa.int64()),
        ("failed", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


def table_status(
    found: Iterable[TableMetadata], tables: CatalogTables, *, refresh: bool
) -> pa.Table:
    """Return the rows of definitions of tables, which are opened and counted anew for `refresh`."""
    rows = (row for one in found if one.type == "table" for row in _rows_of(one, tables, refresh))
    return pa.Table.from_pylist(list(rows), _STATUS)


def _rows_of(
    definition: TableMetadata, tables: CatalogTables, refresh: bool
) -> Iterator[dict[str, Any]]:
    name, failed = str(definition.full_name), False
    if refresh:
        try:
            definition = tables.counted(definition, "now")
        except ProjsegError:
            failed = True  # what was counted last is all that is known
    found = definition.stored_status
    if found is None:
        yield {"name": name, "status": "FAILED" if failed else None}
        return
    common = {"name": name, "table_version": found.table_version, "at": found.at_us}
    yield {
        **common,
        "status": "FAILED" if failed else "ENABLED",
        "segments": found.segments,
        "missing": 0,
        "failed": 0,
        "rows": found.rows,
        "bytes": found.bytes,
    }
    for one in found.projections:
        counts = {key: getattr(one, key) for key in ProjectionStatus.__struct_fields__[1:]}
        yield {**common, "projection": one.name, **counts}

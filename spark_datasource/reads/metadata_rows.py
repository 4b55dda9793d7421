"""Tables about a table: its segments, projections, columns and history, as Spark rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from projseg.table_layer.contents import metadata_tables
from projseg.table_layer.contents.projection_coverage import projection_stats
from projseg.table_layer.metadata.snapshot import Snapshot

_ROWS: Final[dict[str, Callable[[Snapshot], pa.Table]]] = {
    "segments": metadata_tables.segments,
    "projections": metadata_tables.projections,
    "projectionStats": projection_stats,
    "columns": metadata_tables.columns,
    "history": lambda snapshot: metadata_tables.history(snapshot.storage),
}


def metadata_rows(snapshot: Snapshot, name: str) -> pa.Table:
    """Return the rows of one metadata table.

    Parameters
    ----------
    snapshot : Snapshot
        The version to describe; `history` describes all kept ones.
    name : str
        One of `read_request.METADATA_TABLES`.
    """
    return _ROWS[name](snapshot)

"""Tables about a table: its segments, projections, columns and history, as Spark rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from projseg.spark_datasource.read_request import METADATA_TABLES
from projseg.table import Table

_ROWS: Final[dict[str, Callable[[Table], pa.Table]]] = {
    "segments": Table.segments,
    "projections": Table.projections,
    "projectionStats": Table.projection_stats,
    "columns": Table.columns,
    "history": Table.history,
}
assert tuple(_ROWS) == METADATA_TABLES


def metadata_rows(table: Table, name: str) -> pa.Table:
    """Return the rows of one metadata table of the version that `table` has open.

    Parameters
    ----------
    table : Table
        An open table.
    name : str
        One of `METADATA_TABLES`.
    """
    return _ROWS[name](table)

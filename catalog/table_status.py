"""`StatusVerbs`: what became of the projections of a catalog's tables.

Commits by name count it once a minute and keep it beside the definition, so that a list of 10,000
tables opens none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from projseg.catalog.store.table_metadata import NameLike, ProjectionStatus, TableMetadata
from projseg.catalog.table_verbs import TableVerbs
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


class StatusVerbs(TableVerbs):
    """The status of a catalog's tables."""

    def status(self, name: NameLike | None = None, refresh: bool = False) -> pa.Table:
        """Return what became of the projections of tables.

        Parameters
        ----------
        name : str, pair of str, or None
            The definition; None: all tables.
        refresh : bool
            Open the tables and count anew; else as commits by name last kept it, once a minute.

        Returns
        -------
        pa.Table
            A row for each table, whose projection is null, and one for each projection: name,
            projection, table_version, status, segments (that hold it), missing, failed, rows,
            bytes, at. The status of a projection is ENABLED (in all segments), PARTIAL, DISABLED
            (in none) or FAILED; of a table ENABLED, FAILED if it could not be opened, and null if
            it was never written or counted.

        Raises
        ------
        InvalidInputError, CatalogError
            As of `spec`.
        """
        found: Iterable[TableMetadata]
        found = self.store.listed(type="table") if name is None else [self.metadata(name)]
        rows = (row for one in found if one.type == "table" for row in self._rows_of(one, refresh))
        return pa.Table.from_pylist(list(rows), _STATUS)

    def _rows_of(self, definition: TableMetadata, refresh: bool) -> Iterator[dict[str, Any]]:
        name, failed = str(definition.full_name), False
        if refresh:
            try:
                definition = self._counted(definition, "now")
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

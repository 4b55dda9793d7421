"""What became of applied advice: estimates beside what was measured since."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from projseg.advisor.log_records import LogLike, records_of_log
from projseg.advisor.stored_sizes import stored_size
from projseg.advisor.workload import INDEX_USE, VIEW_USE, gather
from projseg.reader.query_log.read_log import LoggedQuery
from projseg.table import Table
from projseg.table.table_version import reader_of

_QUERIES_MIN: Final = 50
_LEAST_SAVING: Final = 0.5
_PREFIX: Final = "advice."
_USES: Final = {"index": INDEX_USE, "view": VIEW_USE}
REPORT_SCHEMA: Final = pa.schema(
    {
        "name": pa.string(),
        "kind": pa.string(),
        "statement": pa.string(),
        "applied_at": pa.timestamp("us", tz="UTC"),
        "queries": pa.int64(),
        "rows_estimated": pa.int64(),
        "rows": pa.int64(),
        "bytes_estimated": pa.int64(),
        "bytes": pa.int64(),
        "milliseconds_before": pa.float64(),
        "milliseconds_estimated": pa.float64(),
        "milliseconds": pa.float64(),
        "verdict": pa.string(),
    }
)


def advice_report(table: Table, log: LogLike) -> pa.Table:
    """Return what became of the advice that was applied to a table.

    Parameters
    ----------
    table : Table
        The table.
    log : str, path or pa.Table
        As in `advise`; only queries since the advice was applied count.

    Returns
    -------
    pa.Table
        A row for each projection, index and view that was advised and still exists: name, kind,
        statement, applied_at, queries (of the shapes that it was advised for, since then), rows and
        bytes beside their estimates, milliseconds_before, milliseconds_estimated and milliseconds
        (of one query), verdict: `KEPT`; `LESS`, under half of the saving; `WORSE`, slower than
        before; `UNUSED`; `TOO EARLY`, fewer than 50 queries.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_LOG.
    """
    records = list(records_of_log(log))
    rows = [
        _row(table, name, estimate, records)
        for name, estimate in sorted(_kept_estimates(table).items())
    ]
    return pa.Table.from_pylist(rows, REPORT_SCHEMA)


def slower_than_before(table: Table, log: LogLike) -> dict[str, tuple[str, str]]:
    """Return the applied advice that a log shows to be slower: by name its kind, and how much."""
    is_file = isinstance(log, str | os.PathLike) and not os.fspath(log).endswith(".sql")
    if not (is_file or isinstance(log, pa.Table)) or not _kept_estimates(table):
        return {}
    return {
        row["name"]: (
            "projection" if row["kind"] == "rows" else row["kind"],
            f"its queries took {row['milliseconds_before']:.3g} ms before and "
            f"{row['milliseconds']:.3g} ms since",
        )
        for row in advice_report(table, log).to_pylist()
        if row["verdict"] == "WORSE"
    }


def _kept_estimates(table: Table) -> Mapping[str, Mapping[str, Any]]:
    """Return the estimates of what was advised and is there."""
    properties = table.snapshot.properties
    found = {
        key.removeprefix(_PREFIX): json.loads(text)
        for key, text in properties.properties.items()
        if key.startswith(_PREFIX)
    }
    declared = {one.name for one in properties.projections}
    declared |= {one.name for one in properties.declared_indexes}
    store = reader_of(table).view_store() if found else None
    declared |= set() if store is None else {view.name for view in store.views.values()}
    return {name: estimate for name, estimate in found.items() if name in declared}


def _row(
    table: Table, name: str, estimate: Mapping[str, Any], records: Iterable[LoggedQuery]
) -> dict[str, Any]:
    applied = datetime.fromisoformat(estimate["time"])
    later = gather((one for one in records if one.time >= applied), table.properties.table_id)
    shapes = [one for one in later.shapes if one.id in set(estimate["shapes"])]
    queries = sum(shape.count for shape in shapes)
    total = sum(shape.count * (shape.median_ms or 0.0) for shape in shapes)
    measured = total / queries if queries else None
    kind = estimate.get("kind", "projection")
    stored = stored_size(table, kind, name)
    return {
        "name": name,
        "kind": kind,
        "statement": estimate["statement"],
        "applied_at": applied,
        "queries": queries,
        "rows_estimated": estimate["rows"],
        "rows": stored.rows,
        "bytes_estimated": estimate["bytes"],
        "bytes": stored.bytes,
        "milliseconds_before": estimate["milliseconds_before"],
        "milliseconds_estimated": estimate["milliseconds"],
        "milliseconds": measured,
        "verdict": verdict(
            queries,
            estimate["milliseconds_before"],
            estimate["milliseconds"],
            measured,
            is_used=f"{_USES.get(kind, '')}{name}" in later.uses,
        ),
    }


def verdict(
    queries: int,
    before: float | None,
    estimated: float | None,
    measured: float | None,
    *,
    is_used: bool,
) -> str:
    """Return the verdict on applied advice, by milliseconds of one query."""
    if queries < _QUERIES_MIN or before is None or estimated is None or measured is None:
        return "TOO EARLY"
    if not is_used:
        return "UNUSED"
    if measured >= before:
        return "WORSE"
    return "LESS" if before - measured < _LEAST_SAVING * (before - estimated) else "KEPT"

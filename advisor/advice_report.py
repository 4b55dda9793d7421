"""What became of applied advice: estimates beside what was measured since."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from projseg.advisor.advise import LogLike, records_of_log
from projseg.advisor.workload import LoggedWorkload, gather
from projseg.reader.query_log.read_log import LoggedQuery
from projseg.table import Table

_QUERIES_MIN: Final = 50
_LEAST_SAVING: Final = 0.5
_PREFIX: Final = "advice."
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
        As of `advise`; queries since the advice was applied count.

    Returns
    -------
    pa.Table
        A row for each projection that was advised: name, kind, statement, applied_at, queries (of
        the shapes that it was advised for, since then), rows and bytes beside their estimates,
        milliseconds_before, milliseconds_estimated and milliseconds (of one query), verdict:
        `KEPT`; `LESS`, under half of the saving; `WORSE`, slower than before; `UNUSED`;
        `TOO EARLY`, fewer than 50 queries.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_LOG.
    """
    records = list(records_of_log(log))
    rows = [
        _row(table, name, json.loads(text), records)
        for name, text in sorted(_kept_estimates(table).items())
    ]
    return pa.Table.from_pylist(rows, REPORT_SCHEMA)


def _kept_estimates(table: Table) -> Mapping[str, str]:
    properties = table.snapshot.properties
    declared = {one.name for one in properties.projections}
    return {
        key.removeprefix(_PREFIX): text
        for key, text in properties.properties.items()
        if key.startswith(_PREFIX) and key.removeprefix(_PREFIX) in declared
    }


def _row(
    table: Table, name: str, estimate: Mapping[str, Any], records: Iterable[LoggedQuery]
) -> dict[str, Any]:
    applied = datetime.fromisoformat(estimate["time"])
    later = gather((one for one in records if one.time >= applied), table.properties.table_id)
    shapes = [one for one in later.shapes if one.id in set(estimate["shapes"])]
    queries = sum(shape.count for shape in shapes)
    total = sum(shape.count * (shape.median_ms or 0.0) for shape in shapes)
    measured = total / queries if queries else None
    listed = [
        one for entry in table.snapshot.segments for one in entry.projections if one.name == name
    ]
    return {
        "name": name,
        "kind": "projection",
        "statement": estimate["statement"],
        "applied_at": applied,
        "queries": queries,
        "rows_estimated": estimate["rows"],
        "rows": sum(one.row_count for one in listed),
        "bytes_estimated": estimate["bytes"],
        "bytes": sum(one.byte_count for one in listed),
        "milliseconds_before": estimate["milliseconds_before"],
        "milliseconds_estimated": estimate["milliseconds"],
        "milliseconds": measured,
        "verdict": verdict(
            queries,
            estimate["milliseconds_before"],
            estimate["milliseconds"],
            measured,
            is_used=_is_used(later, name),
        ),
    }


def _is_used(work: LoggedWorkload, name: str) -> bool:
    return name in work.uses


def verdict(
    queries: int,
    before: float | None,
    estimated: float | None,
    measured: float | None,
    *,
    is_used: bool,
) -> str:
    """Return what is said of applied advice, by milliseconds of one query."""
    if queries < _QUERIES_MIN or before is None or estimated is None or measured is None:
        return "TOO EARLY"
    if not is_used:
        return "UNUSED"
    if measured >= before:
        return "WORSE"
    return "LESS" if before - measured < _LEAST_SAVING * (before - estimated) else "KEPT"

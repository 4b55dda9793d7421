"""Logs in every form in which they are given, and the workload of a table that they hold."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
import pyarrow as pa

from projseg.advisor.measured_workload import (
    WeightedQuery,
    measured_workload,
    read_statements,
)
from projseg.advisor.workload import LoggedWorkload, gather
from projseg.reader.query_log.read_log import LoggedQuery, LogReader, Since, bad_log
from projseg.table import Table

LogLike: TypeAlias = str | os.PathLike[str] | pa.Table | LoggedWorkload | Sequence[WeightedQuery]


def workload_of(table: Table, log: LogLike, since: Since) -> LoggedWorkload:
    """Return the questions of a log about a table, or run statements to log them.

    Raises InvalidInputError (PROJSEG_BAD_LOG).
    """
    if isinstance(log, LoggedWorkload):
        return log
    if isinstance(log, list):
        return measured_workload(table, log)
    if isinstance(log, str | os.PathLike) and os.fspath(log).endswith(".sql"):
        return measured_workload(table, read_statements(Path(log)))
    records = records_of_log(log, since)
    work = gather(records, table.properties.table_id)
    if isinstance(records, LogReader):
        work.torn_count = records.torn_count
    return work


def records_of_log(log: LogLike, since: Since = None) -> LogReader | Iterator[LoggedQuery]:
    """Return the records of a log: a folder, a file, or rows that `read_log` returned.

    Raises InvalidInputError (PROJSEG_BAD_LOG).
    """
    if isinstance(log, pa.Table):
        return _records_of(log)
    if not isinstance(log, str | os.PathLike):
        raise bad_log(f"a log is a folder, a file or a table of records, found {log!r:.80}")
    return LogReader(log, since)


def _records_of(rows: pa.Table) -> Iterator[LoggedQuery]:
    """Yield the records that a table holds."""
    missing = {"time", "table_id", "query"} - set(rows.column_names)
    if missing:
        raise bad_log(f"the rows have no column {', '.join(sorted(missing))}; give what read_log "
                      "returns")  # fmt: skip
    for row in rows.to_pylist(maps_as_pydicts="lossy"):
        query = row.pop("query")
        found = {name: value for name, value in row.items() if value is not None}
        try:
            asked = json.loads(query) if isinstance(query, str) else query
            yield msgspec.convert({**found, "query": asked}, LoggedQuery)
        except (TypeError, ValueError, RecursionError) as error:
            raise bad_log(f"a row is no record: {str(error)[:200]}") from error

"""Read a query log back: a folder of files, one file, or rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import pyarrow as pa

from projseg.algebra.time.duration import DAY, parse_interval
from projseg.errors import InvalidInputError
from projseg.reader.query_log.log_files import LOG_LINE_BYTES_MAX, flush_query_logs

Since: TypeAlias = str | timedelta | datetime | None

_Small: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Whole: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Scalar: TypeAlias = str | bool | _Whole | float | None
_Scalars: TypeAlias = _Scalar | list[_Scalar]

_MONTH_DAYS: Final = 31
_DAYS_MAX: Final = 365 * 1000
_BATCH_ROWS: Final = 65_536


class LoggedInterval(msgspec.Struct, frozen=True):
    """The interval of a logged query, in its zone.

    `aligned` is the coarsest granularity of Druid's on which both ends lie, or `none`; `length` is
    in seconds, None without a start or an end.
    """

    aligned: str
    length: float | None = None
    zone: str = "UTC"


class LoggedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a query log, in the form of version `projseg_log`.

    `time` is when the answer was there, and `answered` is as in `QueryEvent`. A table keeps its id
    where it is moved. `query` is the question without values, as `Query.to_json` writes it, or None
    if it did not bind. `sources` counts segments by the source that answered for them; `reasons`
    has a code for each source that was not used; `indexes` left out segments. `cached` says that no
    file was read.
    """

    projseg_log: _Small
    time: datetime
    table_id: str
    location: str = ""
    version: _Whole = 0
    door: str = ""
    answered: str = "done"
    code: str | None = None
    query: dict[str, _Scalars | dict[str, _Scalars]] | None = None
    interval: LoggedInterval | None = None
    sources: dict[str, _Whole] = {}
    reasons: dict[str, str] = {}
    indexes: tuple[str, ...] = ()
    pruned: _Whole = 0
    rows: _Whole = 0
    bytes: _Whole = 0
    returned: _Whole | None = None
    planned_ms: float | None = None
    answered_ms: float | None = None
    cached: bool | None = None


_DECODER: Final = msgspec.json.Decoder(LoggedQuery)
_WORDS: Final = pa.map_(pa.string(), pa.string())
_SCHEMA: Final = pa.schema(
    {
        "projseg_log": pa.int32(),
        "time": pa.timestamp("us", tz="UTC"),
        "location": pa.string(),
        "table_id": pa.string(),
        "version": pa.int64(),
        "door": pa.string(),
        "answered": pa.string(),
        "code": pa.string(),
        "query": pa.string(),
        "interval": pa.struct(
            {"aligned": pa.string(), "length": pa.float64(), "zone": pa.string()}
        ),
        "sources": pa.map_(pa.string(), pa.int64()),
        "reasons": _WORDS,
        "indexes": pa.list_(pa.string()),
        "pruned": pa.int64(),
        "rows": pa.int64(),
        "bytes": pa.int64(),
        "returned": pa.int64(),
        "planned_ms": pa.float64(),
        "answered_ms": pa.float64(),
        "cached": pa.bool_(),
    }
)


class LogReader:
    """The records of a log, a folder or one file, in order; lines that are no records are counted.

    Raises InvalidInputError: PROJSEG_BAD_LOG without such a place; PROJSEG_BAD_ARGUMENT or
    PROJSEG_BAD_EXPRESSION unless `since`, the oldest record's, is a length of time or a moment.
    """

    def __init__(self, place: str | os.PathLike[str], since: Since = None) -> None:
        flush_query_logs()
        path = Path(place)
        if not path.exists():
            raise bad_log(f"'{path}' is neither a folder nor a file")
        self._place = path
        self._since = _moment(since)
        self.torn_count = 0
        self.record_count = 0
        self._problem = ""

    def __iter__(self) -> Iterator[LoggedQuery]:
        self.torn_count = self.record_count = 0
        files = [self._place]
        if self._place.is_dir():
            files = sorted(file for file in self._place.glob("*.jsonl") if file.is_file())
        for file in files:
            try:
                lines = file.open("rb")
            except OSError as error:
                raise bad_log(f"'{file}' cannot be read: {error.strerror}") from error
            with lines:
                yield from self._records(lines)
        if self.torn_count and not self.record_count:
            raise bad_log(
                f"no line of '{self._place}' is a record: {self._problem}; give a folder that "
                "PROJSEG_QUERY_LOG named"
            )

    def _records(self, lines: Any) -> Iterator[LoggedQuery]:
        while line := lines.readline(LOG_LINE_BYTES_MAX + 1):
            if not line.endswith(b"\n"):
                self._skip(lines, f"a line of {len(line)} bytes or more has no end")
                continue
            try:
                found = _DECODER.decode(line)
                moment = found.time if found.time.tzinfo else found.time.replace(tzinfo=UTC)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                self._count(str(error))
                continue
            self.record_count += 1
            if self._since is None or moment >= self._since:
                yield found

    def _skip(self, lines: Any, problem: str) -> None:
        self._count(problem)
        while (rest := lines.readline(LOG_LINE_BYTES_MAX)) and not rest.endswith(b"\n"):
            pass

    def _count(self, problem: str) -> None:
        self.torn_count += 1
        self._problem = self._problem or problem[:200]


def bad_log(problem: str) -> InvalidInputError:
    """Return the error of what is no query log."""
    return InvalidInputError("PROJSEG_BAD_LOG", problem)


def _moment(since: Since) -> datetime | None:
    if since is None:
        return None
    if isinstance(since, datetime):
        return since if since.tzinfo else since.replace(tzinfo=UTC)
    if isinstance(since, str):
        span = parse_interval(since)
        micros = span.micros + span.months * _MONTH_DAYS * DAY
        since = timedelta(microseconds=min(micros, _DAYS_MAX * DAY))
    if not isinstance(since, timedelta):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"since is {since!r:.80}; write 30 days, or give a moment"
        )
    return datetime.now(UTC) - since


def read_log(folder: str | os.PathLike[str], since: Since = None) -> pa.Table:
    """Return the records of a query log.

    Parameters
    ----------
    folder : str or path
        The folder of a query log, or one file in it.
    since : str, timedelta, datetime or None
        The oldest record to return: a length of time before now, `30 days`, or a moment; None means
        all records.

    Returns
    -------
    pa.Table
        A row for each query: time, location, table_id, version, door, answered, code, query
        (JSON without values), interval, sources, reasons, indexes, pruned, rows, bytes, returned,
        planned_ms, answered_ms, cached. The schema's metadata has `projseg.torn`, how many lines
        are no records: a process that was killed may leave one.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_LOG if no line is a record, or there is no such place.
    """
    reader = LogReader(folder, since)
    batches: list[pa.RecordBatch] = []
    rows: list[dict[str, Any]] = []
    for one in reader:
        rows.append(_row(one))
        if len(rows) == _BATCH_ROWS:
            batches.append(pa.RecordBatch.from_pylist(rows, _SCHEMA))
            rows = []
    batches.append(pa.RecordBatch.from_pylist(rows, _SCHEMA))
    found = pa.Table.from_batches(batches)
    return found.replace_schema_metadata({"projseg.torn": str(reader.torn_count)})


def _row(one: LoggedQuery) -> dict[str, Any]:
    row = msgspec.structs.asdict(one)
    row["query"] = None if one.query is None else msgspec.json.encode(one.query).decode()
    row["interval"] = None if one.interval is None else msgspec.structs.asdict(one.interval)
    row["indexes"] = list(one.indexes)
    for name in ("sources", "reasons"):
        row[name] = list(row[name].items())
    return row

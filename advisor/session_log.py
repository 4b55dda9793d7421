"""The queries of a Spark session over projseg tables, in its driver's memory, as a workload."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from projseg.advisor.workload import LoggedWorkload, gather
from projseg.algebra.expressions.sql_words import name_parts
from projseg.algebra.query.request import Query
from projseg.errors import InvalidInputError, ProjsegError
from projseg.reader.query_log.query_record import QueryEvent
from projseg.reader.query_log.read_log import LoggedQuery, bad_log
from projseg.table import Table
from projseg.table.table_version import reader_of
from projseg.table_layer.storage.locate_storage import open_storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JVM_LOG = "org.apache.spark.sql.projseg.QueryLog"


def workload_of_requests(table: Table, entries: Sequence[Mapping[str, Any]]) -> LoggedWorkload:
    """Return the workload of a session's queries over one table.

    An entry, of any table, has micros, location, answered, request or content with a query, and
    perhaps answering in milliseconds.
    """
    return gather(_records(table, entries), table.properties.table_id)


def _records(table: Table, entries: Sequence[Mapping[str, Any]]) -> Iterator[LoggedQuery]:
    for entry in entries:
        moment = datetime.fromtimestamp(entry["micros"] / 1e6, UTC)
        if _place(entry["location"]) != table.location:
            yield LoggedQuery(projseg_log=1, time=moment, table_id="", location=entry["location"])
            continue
        asked, content = entry.get("request") or {}, entry.get("content") or {}
        written = content.get("query") or asked.get("query")
        try:
            # Joined tables are asked by another request, whose query names what this one lacks.
            plan = reader_of(table).plan(Query.from_json(json.dumps(written or {})))
        except ProjsegError:
            plan = None
        event = QueryEvent(
            table.snapshot, plan, "spark", entry["answered"], answered_ms=entry.get("answering"),
            at=moment.timestamp(),
        )  # fmt: skip
        yield msgspec.convert(event.record(), LoggedQuery)


@lru_cache(maxsize=1024)
def _place(location: str) -> str:
    """Return a location as tables state it."""
    try:
        return open_storage(location).location
    except ProjsegError:
        return location


def session_table(spark: SparkSession, name: str) -> Table:
    """Return a table by the name that a session has for it, or by its path.

    Raises InvalidInputError (PROJSEG_NOT_A_TABLE).
    """
    parts = name_parts(name)
    if len(parts) == 2 and parts[0].casefold() == "projseg":
        return Table(parts[1])
    if "/" in name:
        return Table(name)
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    found = {row[0]: row[1] for row in rows}
    if str(found.get("Provider")).casefold() != "projseg" or not found.get("Location"):
        raise InvalidInputError(
            "PROJSEG_NOT_A_TABLE", f"'{name}' is no projseg table of the session; name one"
        )
    return Table(found["Location"])


def session_workload(spark: SparkSession, table: Table) -> LoggedWorkload:
    """Return what the driver of a session remembers of a table.

    Raises InvalidInputError (PROJSEG_BAD_LOG) if the session has no driver here, or not the
    extension.
    """
    try:
        driver: Any = getattr(spark._jvm, _JVM_LOG)  # noqa: SLF001 - py4j has no other name for it
        text = driver.requests()
    except (AttributeError, TypeError) as error:
        raise bad_log(
            "the session's driver is not in reach, or it lacks the extension; call "
            "projseg.configure, or give log=FOLDER, as spark.projseg.queryLog.path names it"
        ) from error
    return workload_of_requests(table, json.loads(text))

"""The engine process: answers one request after the other on its standard streams.

Spark's extension starts it (`python -m projseg.engine`) and keeps it warm. A request is a length
(4 bytes, big-endian) and that much JSON. A reply is the same, followed by a length of 8 bytes and
that many bytes of an Arrow stream, which are the rows of an answer. Standard error is the log.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, Final

import pyarrow as pa

from projseg.algebra.aggregates.mergeable import mergeable
from projseg.algebra.expressions.bind import bind
from projseg.algebra.query.request import Query
from projseg.algebra.query.spec import QuerySpec, bind_query
from projseg.engine_statements import STATEMENTS, Reply, arrow_stream
from projseg.errors import InvalidInputError, ProjsegError, UnsupportedFeatureError
from projseg.reader.answer import answer
from projseg.reader.plan import QueryPlan, plan_query
from projseg.reader.source_reads import SourceRead, plan_figures, planned_reads
from projseg.segment_format.types import type_name
from projseg.table_layer.as_of import version_at
from projseg.table_layer.snapshot import Snapshot, open_snapshot
from projseg.table_layer.storage import open_storage

_REQUEST_BYTES_MAX: Final = 64 << 20
_SOURCES_TOLD: Final = 8


def main() -> None:
    """Serve until standard input ends."""
    requests = sys.stdin.buffer
    # Whatever is printed by accident must not stand among the replies.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (request := _read(requests)) is not None:
        content, rows = reply_to(request)
        text = json.dumps(content).encode()
        replies.write(struct.pack(">i", len(text)) + text + struct.pack(">q", len(rows)))
        replies.write(rows)
        replies.flush()


def reply_to(request: bytes) -> Reply:
    """Return the reply to one request; what goes wrong is a reply too.

    Parameters
    ----------
    request : bytes
        JSON: `op` (`version`, `check` or `answer`), `location`, and what the operation takes.
    """
    try:
        content = json.loads(request)
        return _OPERATIONS[content["op"]](content)
    except ProjsegError as error:
        return json.loads(error.to_json()), b""
    except Exception as error:  # noqa: BLE001 - the process outlives a request that it cannot serve
        told = {"error": type(error).__name__, "code": "PROJSEG_INTERNAL", "message": str(error)}
        return told, b""


def _version(request: Mapping[str, Any]) -> Reply:
    """Tell a table's newest version, or the newest committed at or before `timestamp_us`."""
    if (instant := request.get("timestamp_us")) is not None:
        return {"version": version_at(open_storage(request["location"]), instant).version}, b""
    snapshot = _snapshot(request)
    return {"version": snapshot.version}, b""


def _check(request: Mapping[str, Any]) -> Reply:
    """Tell which conditions bind over a table, by their positions, and its columns."""
    snapshot = _snapshot(request)
    schema = snapshot.properties.schema
    zone = request["timezone"]

    def binds(text: str) -> bool:
        try:
            return bool(pa.types.is_boolean(bind(text, schema, timezone=zone).type))
        except ProjsegError:
            return False

    accepted = [index for index, text in enumerate(request["conditions"]) if binds(text)]
    return {"accepted": accepted, "columns": _columns(snapshot)}, b""


def _answer(request: Mapping[str, Any]) -> Reply:
    """Answer a query if it is small enough, and else tell how tasks share it.

    The reply has `plan`, a line about sources, and `columns`, the table's types by names; with
    rows, `types` of their columns; without rows, `merging`: for each aggregate its states and the
    SQL of its value, or null if Spark cannot merge one of them.
    """
    snapshot = _snapshot(request)
    query = Query.from_json(json.dumps(request["query"]))
    if query.query_context.timezone is None:
        raise InvalidInputError("PROJSEG_BAD_QUERY", "a query of the engine must name its timezone")
    bound = _bound(snapshot, query)
    plan = plan_query(snapshot, bound)
    reads = list(planned_reads(plan))
    figures = plan_figures(plan, reads)
    told: dict[str, Any] = {
        "plan": _told_sources(plan, reads),
        "columns": _columns(snapshot),
        "types": [type_name(field.type) for field in bound.output_schema],
    }
    if figures.bytes <= request["max_bytes"]:
        rows = answer(open_storage(request["location"]), plan)
        if len(rows) <= request["max_rows"]:
            return {**told, "answered": True}, arrow_stream(rows)
    return {**told, "answered": False, "merging": _merging(snapshot, query, bound)}, b""


def _merging(snapshot: Snapshot, query: Query, bound: QuerySpec) -> list[dict[str, Any]] | None:
    try:
        found = [mergeable(call) for call in bound.aggregates]
        _bound(snapshot, replace(query, aggregation="partial"))
    except (UnsupportedFeatureError, InvalidInputError):
        return None
    return [{"name": one.name, "value": one.value} for one in found]


def _snapshot(request: Mapping[str, Any]) -> Snapshot:
    return open_snapshot(open_storage(request["location"]), request.get("version"))


def _columns(snapshot: Snapshot) -> dict[str, str]:
    return {field.name: type_name(field.type) for field in snapshot.properties.schema}


def _bound(snapshot: Snapshot, query: Query) -> QuerySpec:
    properties = snapshot.properties
    return bind_query(properties.schema, properties.time_column, query)


def _told_sources(plan: QueryPlan, reads: Sequence[SourceRead]) -> str:
    """Return in a line which sources are read, and why projections are not."""
    counts: dict[str, int] = {}
    reasons: dict[str, str] = {}
    for read in reads:
        name = read.source or "base rows"
        counts[name] = counts.get(name, 0) + 1
        if read.source is None:
            reasons |= {name: str(reason) for name, reason in read.rejected.items()}
    sources = ", ".join(f"{count} x {name}" for name, count in counts.items()) or "no segment"
    refused = [f"not {name}: {reason}" for name, reason in list(reasons.items())[:_SOURCES_TOLD]]
    return "; ".join([sources, f"{plan.pruned_count} pruned", *refused])


def _read(stream: BinaryIO) -> bytes | None:
    head = stream.read(4)
    if len(head) < 4:
        return None
    (size,) = struct.unpack(">i", head)
    if not 0 <= size <= _REQUEST_BYTES_MAX:
        return None
    content = stream.read(size)
    return content if len(content) == size else None


_OPERATIONS: Final[dict[str, Callable[[Mapping[str, Any]], Reply]]] = {
    "version": _version,
    "check": _check,
    "answer": _answer,
    **STATEMENTS,
}

if __name__ == "__main__":
    main()

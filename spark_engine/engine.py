"""The engine process: answers one request after the other on its standard streams.

Spark's extension starts it (`python -m projseg.spark_engine.engine`) and keeps it warm. A request
is a length (4 bytes, big-endian) and that much JSON. A reply is the same, followed by a length of
8 bytes and that many bytes of an Arrow stream, the rows of an answer. Standard error is the log.
A reply with `job` in it is not the last: `rewrite_runner_jvm.py` waits for the answer to it.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from projseg.algebra.time.time_zones import zone_name, zone_rules
from projseg.errors import ProjsegError
from projseg.memory.door import through
from projseg.spark_engine.definition_requests import DEFINITIONS
from projseg.spark_engine.group_replies import (
    answered,
    nominations_of,
    results_of,
    star_answered,
    stored_rows,
)
from projseg.spark_engine.index_requests import INDEX_BUILDS, INDEXES
from projseg.spark_engine.logged_requests import advised, logged
from projseg.spark_engine.replacement_requests import REPLACEMENTS
from projseg.spark_engine.replies import Reply, scanned, snapshot_of, states_to_join, storage_of
from projseg.spark_engine.statement_requests import REWRITES, STATEMENTS
from projseg.spark_engine.view_requests import VIEW_BUILDS, VIEWS
from projseg.spark_engine.warehouse import TABLES
from projseg.table_layer.commits.open_version import version_at

if TYPE_CHECKING:
    from projseg.spark_engine.rewrite_runner_jvm import RunJob

_REQUEST_BYTES_MAX: Final = 1 << 30
_PIPE_BYTES: Final = 1 << 20
_WITH_JOBS: Final = REWRITES | INDEX_BUILDS | VIEW_BUILDS


def main() -> None:
    """Serve until standard input ends."""
    requests = sys.stdin.buffer
    # Whatever is printed by accident must not stand among the replies.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _widen(replies)

    def run_job(asked: Mapping[str, Any]) -> Mapping[str, Any]:
        _write(replies, ({"job": asked}, b""))
        answer = _read(requests)
        if answer is None:
            raise ProjsegError("PROJSEG_JOB_FAILED", "Spark's driver ended during a job")
        found: dict[str, Any] = json.loads(answer)
        return found

    while (request := _read(requests)) is not None:
        _write(replies, reply_to(request, run_job))


def reply_to(request: bytes, run_job: RunJob | None = None) -> Reply:
    """Return the reply to one request as JSON; an error is a reply too.

    `op` is `version`, `zone_rules`, `answer`, `scan` or a statement's; the others are `location`
    and arguments of the operation. Without `run_job`, which is as in `JobRunner`, threads do all
    work.
    """
    try:
        content = json.loads(request)
        operation = content["op"]
        with through("spark"):
            if operation in _WITH_JOBS:
                return _WITH_JOBS[operation](content, run_job)
            return _OPERATIONS[operation](content)
    except ProjsegError as error:
        return json.loads(error.to_json()), b""
    except Exception as error:  # noqa: BLE001 - the process outlives a request that it cannot serve
        failed = {"error": type(error).__name__, "code": "PROJSEG_INTERNAL", "message": str(error)}
        return failed, b""


def _version(request: Mapping[str, Any]) -> Reply:
    """Tell a table's newest version, or the newest committed at or before `timestamp_us`.

    Of the newest it tells the table's id, too, and what stored results its views have.
    """
    if (instant := request.get("timestamp_us")) is not None:
        return {"version": version_at(storage_of(request), instant).version}, b""
    snapshot = snapshot_of(request)
    found = {"version": snapshot.number, "table_id": snapshot.properties.table_id, "results": []}
    if snapshot.properties.has_views:
        found["results"] = nominations_of(snapshot)
    return found, b""


def _zone_rules(request: Mapping[str, Any]) -> Reply:
    """Tell the hash of a time zone's rules."""
    return {"rules": zone_rules(zone_name(request["zone"]))}, b""


def _write(stream: BinaryIO, reply: Reply) -> None:
    content, rows = reply
    text = json.dumps(content).encode()
    stream.write(struct.pack(">i", len(text)) + text + struct.pack(">q", len(rows)))
    stream.write(rows)
    stream.flush()


def _widen(pipe: BinaryIO) -> None:
    """Let a pipe hold an answer of usual size, so that its writer waits less for its reader."""
    if sys.platform == "linux":
        with suppress(OSError):  # it is no pipe, or the system allows no more
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


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
    "zone_rules": _zone_rules,
    "answer": answered,
    "star": star_answered,
    "scan": scanned,
    "states": states_to_join,
    "results": results_of,
    "stored_rows": stored_rows,
    "log": logged,
    "advice": advised,
    **STATEMENTS,
    **INDEXES,
    **VIEWS,
    **TABLES,
    **REPLACEMENTS,
    **DEFINITIONS,
}

if __name__ == "__main__":
    main()

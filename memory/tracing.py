"""Spans and durations of OpenTelemetry, in a process whose application has imported it.

Names are those of its conventions for database clients. A process that never imports OpenTelemetry
has nowhere to send spans, so nothing of it is imported here.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from projseg.errors import ProjsegError

_DURATION = "db.client.operation.duration"
_SCOPE = "projseg"
_histogram: Any = None


def is_traced() -> bool:
    """Whether the application has imported OpenTelemetry."""
    return "opentelemetry.trace" in sys.modules


def trace_operation(
    operation: str, location: str, seconds: float, error: BaseException | None = None
) -> None:
    """Report an operation that just ended, `query` or a commit's; call it only if `is_traced`."""
    from opentelemetry import metrics, trace

    global _histogram
    name = location.rstrip("/").rpartition("/")[2]
    attributes = {
        "db.system.name": "projseg",
        "db.operation.name": operation,
        "db.collection.name": name,
    }
    if error is not None:
        code = error.code if isinstance(error, ProjsegError) else type(error).__name__
        attributes["error.type"] = code
    if _histogram is None:
        _histogram = metrics.get_meter(_SCOPE).create_histogram(
            _DURATION, unit="s", description="Duration of database client operations."
        )
    _histogram.record(seconds, attributes)
    summary = f"{operation} {name}"
    end = time.time_ns()
    span = trace.get_tracer(_SCOPE).start_span(
        summary,
        kind=trace.SpanKind.INTERNAL,
        attributes={**attributes, "db.query.summary": summary},
        start_time=end - int(seconds * 1e9),
    )
    if error is not None:
        span.set_status(trace.StatusCode.ERROR)
    span.end(end)

"""What a catalog's server takes for requests: one client's, and those of several at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from projseg.benchmarks.runner.scenario import Bench, measured

Send = Callable[..., Any]
_EDIT_SHARE: Final = 0.1
_MOST_SECONDS: Final = 10.0


def add_requests(bench: Bench, send: Send, names: list[str], database: str) -> None:
    """Measure clients that read and edit small definitions: at a rate, then as fast as they can.

    At a rate, a request is timed from when it was due, so that one which waits delays no other.
    """
    rate, clients = bench["rate"], bench["clients"]
    with_rate = (f"{rate} requests a second", clients / rate, bench["seconds"])
    without = ("requests at once", 0.0, min(bench["seconds"], _MOST_SECONDS))
    for kind, pause, seconds in (with_rate, without):
        bench.progress(f"{database}: {clients} clients, {kind}")
        start = time.perf_counter() + 0.1

        def asked(client: int, times: Any = (start, start + seconds, pause)) -> Any:
            return _ask(client / clients, send, names, times)

        with measured() as whole, ThreadPoolExecutor(clients) as threads:
            spent = [one for found in threads.map(asked, range(clients)) for one in found]
        case = f"{clients} clients, 1 edit in {1 / _EDIT_SHARE:.0f}, {database}"
        for way in ("read", "edit", "all"):
            times = [took for of, took in spent if way in (of, "all")]
            bench.add(kind, case, way, _rate(times, whole["s"]))


def sender(bench: Bench, port: int, token: str) -> Send:
    """Return what sends a request about a definition, and notes one that fails."""
    import urllib3  # optional: extra [catalog]

    head = {"Authorization": f"Bearer {token}"}
    pool = urllib3.HTTPConnectionPool("127.0.0.1", port, maxsize=bench["clients"], retries=False)

    def send(verb: str, name: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        path = f"/v1/catalog/tables/default/{name}"
        reply = pool.request(verb, path, body=content, headers=head)
        if reply.status != 200:
            bench.problems.append(f"failed: {verb} {name}: {reply.status} {reply.data[:200]!r}")
            return {}
        return json.loads(reply.data)

    return send


def _ask(
    share: float, send: Send, names: list[str], times: tuple[float, float, float]
) -> list[tuple[str, float]]:
    """Send the requests of one client; returns the kind of each, and its milliseconds."""
    start, end, pause = times
    drawn = np.random.default_rng(int(share * 1000))
    spent: list[tuple[str, float]] = []
    while (now := time.perf_counter()) < end:
        due = start + (len(spent) + share) * pause if pause else now
        time.sleep(max(0, due - now))
        name = names[int(drawn.integers(len(names)))]
        if drawn.random() < _EDIT_SHARE:
            description = {"description": f"{share}: {len(spent)}"}
            kind, reply = "edit", send("PUT", name, {"properties": description})
        else:
            kind, reply = "read", send("GET", name)
        spent.append((kind, (time.perf_counter() - due) * 1000))
        if not reply:
            break
    return spent


def _rate(times: list[float], seconds: float) -> dict[str, float]:
    """Return requests a second, and the clock of each; all clients share one processor."""
    spread = {"ms": float(np.median(times)), "p99 ms": float(np.percentile(times, 99))}
    return {"a second": len(times) / seconds, **spread}

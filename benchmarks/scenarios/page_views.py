"""What the page takes: its start, its views of small and large tables, and a query from a click.

Each view is asked for in a process that has shown nothing before, and then again. A browser's own
work is not in it: a view has arrived when its HTML has.
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import numpy as np

import projseg
from projseg.benchmarks.bench import Bench, measured, spread
from projseg.benchmarks.generator import DAY_US, SCHEMA, EditStream
from projseg.benchmarks.scenarios.table_life import table_of_segments
from projseg.benchmarks.store_server import store_server

_SQL: Final = "SELECT channel, sum(added) AS added FROM t GROUP BY channel ORDER BY channel"
_BY_CHANNEL: Final = projseg.Projection("by_channel", ["channel"], ["sum(added) AS added"])
_VIEWS: Final = ("", "/projections", "/columns", "/segments", "/history")
_REFERENCE: Final = re.compile(r'<(?:link|script)[^>]* (?:href|src)="(/assets/[^"]+)"')
_SERVE: Final = """
import json, sys
import projseg
places, options = json.loads(sys.argv[1])
projseg.serve_page(places, port=0, storage_options=options)
"""
_END_SECONDS: Final = 20
_BUCKET: Final = "tables"


class _Reply(NamedTuple):
    status: int
    content: bytes
    sent_bytes: int
    location: str


class _Served:
    """A page in a process of its own, asked by one client with its token."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        parts = urlsplit(address)
        self.process = process
        token = parse_qs(parts.query)["token"][0]
        self._headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"}
        self.connection = http.client.HTTPConnection(parts.netloc, timeout=600)

    def ask(self, path: str, form: Mapping[str, str] | None = None) -> _Reply:
        """Return the reply to a GET, or to a POST of a form."""
        method, body = ("GET", None) if form is None else ("POST", urlencode(form))
        self.connection.request(method, path, body, self._headers)
        reply = self.connection.getresponse()
        sent = reply.read()
        is_zipped = reply.getheader("content-encoding") == "gzip"
        content = gzip.decompress(sent) if is_zipped else sent
        return _Reply(reply.status, content, len(sent), reply.getheader("location") or "")

    def answered(self, path: str, form: Mapping[str, str]) -> _Reply:
        """Return the page of an answer, once it is there."""
        place = self.ask(path, form).location
        reply = self.ask(place)
        while reply.status == 202:
            reply = self.ask(place)
        return reply

    @property
    def resident_bytes(self) -> int:
        """The memory that it holds."""
        words = Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()
        return int(words[1]) * os.sysconf("SC_PAGE_SIZE")

    @property
    def cpu_seconds(self) -> float:
        """The seconds of processors that it used since its start."""
        stated = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2]
        return sum(map(int, stated.split()[11:13])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _served(places: Sequence[str], options: Mapping[str, str] | None = None) -> Iterator[_Served]:
    given = json.dumps([list(places), options])
    process = subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", _SERVE, given], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        page = _Served(process, process.stdout.readline().strip())
        with closing(page.connection):
            yield page
    finally:
        process.terminate()
        process.communicate(timeout=_END_SECONDS)


def run(bench: Bench) -> None:
    """Measure the page's targets."""
    rows = EditStream(bench["rows"], span_us=30 * DAY_US).table()
    small = projseg.Table.create(
        bench.folder / "edits", SCHEMA, time_column="time", segment_granularity="day",
        projections=[_BY_CHANNEL], data=rows,
    )  # fmt: skip
    _starts(bench, small)
    _views(bench, small)
    for count in bench.numbers("segments"):
        bench.progress(f"{count:,} segments")
        location = bench.folder / f"of-{count}"
        with bench.timed("making", f"{count:,} segments"):
            table = table_of_segments(location, count)
        _views(bench, table, ("",))
    _queries(bench, small)
    _lists(bench, rows)


def _starts(bench: Bench, table: projseg.Table) -> None:
    for number in range(bench["rounds"] + 1):
        start = time.perf_counter()
        with _served([table.location]) as page:
            took = time.perf_counter() - start
            if number:
                values = {"s": took, "cpu s": page.cpu_seconds, "idle bytes": page.resident_bytes}
                bench.add("start", f"{number}", "", values)
    with _served([table.location]) as page:
        first = page.ask("/").content
        assets = [
            page.ask(one) for one in ("/assets/page.css", "/assets/page.js", "/assets/icon.svg")
        ]
        values = {
            "requests": 1 + len(set(_REFERENCE.findall(first.decode()))),
            "asset bytes": sum(len(one.content) for one in assets),
        }
        bench.require("assets", [one.status for one in assets], [200] * 3)
        bench.add("first view", "/", "", values)


def _views(bench: Bench, table: projseg.Table, views: Sequence[str] = _VIEWS) -> None:
    """Ask views of a table in new processes, and again."""
    name, count = Path(table.location).name, len(table.snapshot.segments)
    for view in views:
        with _served([table.location]) as page:
            times, used = [], [page.cpu_seconds]
            for _ in range(bench["rounds"] + 1):
                with measured() as spent:
                    reply = page.ask(f"/t/{name}{view}")
                times.append(spent["s"])
                used.append(page.cpu_seconds)
                bench.require(f"status of {view}", reply.status, 200)
            values = {
                "cold s": times[0],
                "cold cpu s": used[1] - used[0],
                "again s": float(np.median(times[1:])),
                "again cpu s": (used[-1] - used[1]) / bench["rounds"],
                "sent bytes": reply.sent_bytes,
                "HTML bytes": len(reply.content),
                "resident bytes": page.resident_bytes,
            }
            bench.add("views", f"/t/NAME{view}", f"{count:,} segments", values)


def _queries(bench: Bench, table: projseg.Table) -> None:
    """Ask a covered query by the box, and by Python in this process."""
    name, wanted = Path(table.location).name, table.sql(_SQL)
    with _served([table.location]) as page:
        times: dict[str, list[dict[str, Any]]] = {"click to rows": [], "engine": []}
        for _ in range(4 * bench["rounds"] + 1):
            with measured() as spent:
                reply = page.answered(f"/t/{name}/query", {"sql": _SQL})
            times["click to rows"].append(spent)
            shown = reply.content.count(b"<tr><td>")
            bench.require("rows shown", shown, min(wanted.num_rows, 1000))
            with measured() as spent:
                table.sql(_SQL)
            times["engine"].append(spent)
        for way, spents in times.items():
            bench.add("covered query", way, "", spread(spents[1:]))
        above = [
            (one["s"] - other["s"]) * 1000
            for one, other in zip(times["click to rows"][1:], times["engine"][1:], strict=True)
        ]
        first = (times["click to rows"][0]["s"] - times["engine"][0]["s"]) * 1000
        values = {"above ms": float(np.median(above)), "first above ms": first}
        bench.add("covered query", "above the engine", "", values)


def _lists(bench: Bench, rows: Any) -> None:
    """List tables of a local disk, and of a store whose answers take long."""
    count, few = bench["tables"], rows.slice(0, 100)
    folder = bench.folder / "tables"
    folder.mkdir()
    for number in range(count):
        _few(folder / f"t{number:03}", few)
    with _served([str(folder)]) as page:
        _listed(bench, page, "local disk")
    with store_server() as server:
        server.make_bucket(_BUCKET)
        places = [f"s3://{_BUCKET}/t{number:03}" for number in range(count)]
        for place in places:
            _few(place, few, server.options())
        server.spoil(delay=bench["delay"])
        start = time.perf_counter()
        with _served(places, server.options(through_proxy=True)) as page:
            took = time.perf_counter() - start
            server.log()
            way = f"store that answers in {1000 * bench['delay']:g} ms"
            _listed(bench, page, way)
            requests = {"start s": took, "requests": len(server.log())}
            bench.add("tables", f"{count} tables", f"{way}, requests", requests)


def _few(location: str | Path, rows: Any, options: Mapping[str, str] | None = None) -> None:
    projseg.Table.create(
        location, SCHEMA, time_column="time", projections=[_BY_CHANNEL], data=rows,
        storage_options=options,
    )  # fmt: skip


def _listed(bench: Bench, page: _Served, way: str) -> None:
    """Ask all parts of the list, cold and again."""
    times, listed = [], 0
    for _ in range(2):
        with measured() as spent:
            first = json.loads(page.ask("/index.json").content)
            others = (f"/index.json?page={part}" for part in range(2, first["pages"] + 1))
            found = [first, *(json.loads(page.ask(one).content) for one in others)]
        times.append(spent["s"])
        listed = sum(one.get("rows") == 100 for part in found for one in part["tables"])
    bench.require(f"tables listed, {way}", listed, bench["tables"])
    bench.add("tables", f"{bench['tables']} tables", way, {"cold s": times[0], "again s": times[1]})

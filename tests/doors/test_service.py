"""A service of several threads beside a writer: each request is answered of one version."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

import projseg

CLIENTS, COMMITS, ROWS = 16, 6, 100


def rows(version):
    hour = pa.array([version * 3_600_000_000] * ROWS).cast(pa.timestamp("us", "UTC"))
    return pa.table({"time": hour, "key": [n % 5 for n in range(ROWS)], "added": [version] * ROWS})


def service(table):
    """Return an application that answers two questions and an explanation of the newest version."""

    def totals(_: Request) -> JSONResponse:
        now = table.newest()
        counted = now.query(aggregators=["count(*) AS n"])
        summed = now.sql("SELECT key, sum(added) AS s FROM t GROUP BY key")
        versions = {one.schema.metadata[b"projseg.version"].decode() for one in (counted, summed)}
        versions.add(str(now.explain("key", "sum(added)").version or now.version))
        return JSONResponse(
            {
                "versions": sorted(versions),
                "rows": counted["n"][0].as_py(),
                "sum": sum(summed["s"].to_pylist()),
            }
        )

    return Starlette(routes=[Route("/totals", totals)])


def test_each_request_sees_one_version_beside_a_writer(tmp_path):
    table = projseg.Table.create(
        tmp_path / "t",
        time_column="time",
        segment_granularity="day",
        data=rows(0),
        projections=[projseg.Projection("by_key", ["key"], ["sum(added)"])],
    )
    writer, app, is_over = projseg.Table(tmp_path / "t"), service(table), threading.Event()

    def write():
        try:
            for version in range(1, COMMITS + 1):
                writer.append(rows(version))
                time.sleep(0.05)
        finally:
            is_over.set()

    def ask(_):
        found = []
        with TestClient(app) as client:
            while not is_over.is_set() or not found:
                found.append(client.get("/totals").json())
            found.append(client.get("/totals").json())
        return found

    with ThreadPoolExecutor(CLIENTS + 1) as threads:
        written = threads.submit(write)
        answers = list(threads.map(ask, range(CLIENTS)))
        written.result()
    for of_client in answers:
        numbers = []
        for one in of_client:
            (version,) = map(int, one["versions"])
            numbers.append(version)
            assert one["rows"] == ROWS * (version + 1)
            assert one["sum"] == ROWS * sum(range(version + 1))
        assert numbers == sorted(numbers)  # nobody goes back
        assert numbers[-1] == COMMITS
    assert len({version for one in answers for got in one for version in got["versions"]}) > 2

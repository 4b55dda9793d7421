"""A folder of tables of all kinds, and a client of the page over it."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from starlette.testclient import TestClient

import projseg
from projseg.catalog.places import Places
from projseg.page.application import PageSettings, application

TOKEN = "a token of thirty-two characters"
HOST = "127.0.0.1:8642"
HOSTILE = '<img src=x onerror="alert(1)">'
TURNED = "left\u202eright"


def hours(first, count):
    return pa.array([h * 3_600_000_000 for h in range(first, first + count)]).cast(
        pa.timestamp("us", "UTC")
    )


def make_edits(path):
    """A table of 40 days with everything that goes half right."""
    drawn = random.Random(3)

    def rows(first, count):
        return pa.table(
            {
                "time": hours(first, count),
                "country": [drawn.choice(["de", "fr", None, "pl"]) for _ in range(count)],
                "added": pa.array([drawn.randrange(1000) for _ in range(count)], pa.int32()),
                TURNED: [drawn.choice(["x", "y"]) for _ in range(count)],
            }
        )

    table = projseg.Table.create(
        path,
        rows(0, 1).schema,
        time_column="time",
        segment_granularity="day",
        projections=[
            projseg.Projection("hourly", ["date_trunc('HOUR', time)", "country"], ["sum(added)"])
        ],
    )
    table.append(rows(0, 480))
    table.add_projection(projseg.Projection("late", ["country"], ["count(*)"]))
    # It divides by zero where a row has fewer than 7.
    risky = projseg.Projection("risky", ["country", "1 / (added - added % 7) AS r"], ["count(*)"])
    table.add_projection(risky)
    table.append(rows(480, 240))
    table.add_index({"name": "by_country", "kind": "bloom", "columns": ["country"]})
    table.append(rows(720, 120))
    table.create_view(
        "daily",
        "SELECT date_trunc('DAY', time) AS d, sum(added) AS s FROM t GROUP BY ALL",
        refresh="deferred",
    )
    table.view("daily").refresh()
    table.tag("before", table.version)
    table.append(rows(840, 120))
    table.delete("added = 5 OR added = 6")
    return table


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Tables of all kinds, and one that cannot be opened."""
    path = tmp_path_factory.mktemp("page") / "tables"
    path.mkdir()
    make_edits(path / "edits")
    projseg.Table.create(path / HOSTILE.replace("/", ""), data={"n": [1, 2], "<b>": ["</td>", "&"]})
    projseg.Table.create(path / "empty", {"n": "bigint"})
    projseg.Table.create(path / "geo" / "places", data={"code": ["de"], "name": ["Germany"]})
    (path / "broken" / "_projseg").mkdir(parents=True)
    (path / "broken" / "_projseg" / "00000000000000000000.json").write_text("{")
    return path


@pytest.fixture(scope="session")
def app(folder):
    return application(Places([folder]), PageSettings(TOKEN, timeout=20, max_rows=2000))


@pytest.fixture(scope="session")
def client(app):
    """A client that came in with the token, as a browser sends its requests."""
    with TestClient(app, base_url=f"http://{HOST}", follow_redirects=True) as found:
        found.headers["Sec-Fetch-Site"] = "same-origin"
        assert found.get(f"/?token={TOKEN}").status_code == 200
        yield found

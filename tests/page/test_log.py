"""Queries of a log on the page, the use of projections, advice, and what another would change."""

from __future__ import annotations

import pytest
from conftest import HOST, TOKEN
from starlette.testclient import TestClient

import projseg
from projseg.catalog.places import Places
from projseg.page.application import PageSettings, application


@pytest.fixture(scope="module")
def logged(folder, tmp_path_factory):
    """A client of a page with a log of ten queries, one of which failed."""
    log = tmp_path_factory.mktemp("log")
    edits, places = projseg.Table(folder / "edits"), projseg.Table(folder / "geo/places")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PROJSEG_QUERY_LOG", str(log))
        for number in range(6):
            where = f"country <> 'x{number}'"
            edits.sql(f"SELECT country, sum(added) AS s FROM t WHERE {where} GROUP BY country")
        edits.query("country", "max(added)", "added < 900", interval="1970-01-01/P5D")
        edits.query(
            "date_trunc('DAY', time)",
            "sum(added)",
            interval="1970-01-01/P20D",
        )
        with pytest.raises(projseg.ProjsegError):
            edits.sql("SELECT 'secret' AS s, nothing FROM t")
        places.sql("SELECT count(*) FROM t WHERE name = 'hidden'")
        records = projseg.read_log(log)
    page = application(Places([folder]), PageSettings(TOKEN, log=str(log)))
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield client, records


def test_shapes_add_up_to_the_log(logged):
    client, records = logged
    found = client.get("/queries.json").json()
    assert (found["records"], found["is_whole"]) == (records.num_rows, True)
    assert sum(one["count"] for one in found["shapes"]) == records.num_rows == 10
    assert sum(one["failed"] for one in found["shapes"]) == 1
    took = sum((row["planned_ms"] or 0) + (row["answered_ms"] or 0) for row in records.to_pylist())
    assert sum(one["seconds"] for one in found["shapes"]) == pytest.approx(took / 1000)
    seconds = [one["seconds"] for one in found["shapes"]]
    assert seconds == sorted(seconds, reverse=True)
    text = client.get("/queries").text
    assert "secret" not in text
    assert "hidden" not in text


def test_queries_of_a_table_are_its_own(logged):
    client, _ = logged
    found = client.get("/t/edits/queries.json?sort=count").json()
    assert found["records"] == 9
    first = found["shapes"][0]
    assert (first["count"], first["doors"]) == (6, {"sql": 6})
    assert first["query"] == "SELECT country, sum(added) WHERE country != ? GROUP BY country"
    assert first["reasons"]["late: AGGREGATOR_NOT_STORED"] == 6
    assert client.get("/t/edits/queries?sort=nothing").status_code == 400
    assert client.get("/t/edits/queries?since=soon").status_code == 400
    assert client.get("/t/geo.places/queries.json").json()["records"] == 1


def test_the_use_of_projections_is_that_of_the_log(logged):
    client, records = logged
    found = client.get("/t/edits/projections.json").json()
    for row in found["projections"]:
        name = row["projection"]
        used = sum(name in dict(one) for one in records["sources"].to_pylist() if one)
        assert row["queries"] == used
    by_name = {row["projection"]: row for row in found["projections"]}
    assert by_name["hourly"]["queries"] >= 6
    assert by_name["hourly"]["last_used"] is not None
    assert found["views"][0]["queries"] == 0  # it is behind


def answered(client, address, form):
    found = client.post(address, data=form)
    while found.status_code == 202:
        found = client.get(str(found.url))
    return found, client.get(f"{found.url}.json").json()


def test_advice_is_that_of_the_log(logged):
    client, _ = logged
    found, content = answered(client, "/t/edits/advice", {"budget": "30%"})
    assert found.status_code == 200, content
    assert content["text"].startswith("8 queries of python and sql")
    _, refused = answered(client, "/t/edits/advice", {"budget": "much"})
    assert refused["error"]["code"] == "PROJSEG_BAD_BUDGET"


def test_without_a_log_it_says_how_to_have_one(client):
    assert "--log" in client.get("/queries").text
    assert client.get("/t/edits/queries.json").json()["error"]["code"] == "PROJSEG_BAD_LOG"
    assert client.post("/t/edits/advice", data={}).status_code == 400
    assert client.get("/t/edits/projections.json").json()["projections"][0]["queries"] is None


def test_what_if_plans_with_a_projection_that_is_not_there(client, folder):
    form = {
        "sql": "SELECT country, max(added) AS m FROM t GROUP BY ALL",
        "action": "explain",
        "what_if": "SELECT country, max(added) GROUP BY country",
    }
    table = projseg.Table(folder / "edits")
    before = table.version
    _, content = answered(client, "/t/edits/query", form)
    expected = table.explain(form["sql"], what_if=[{"name": "what_if", "sql": form["what_if"]}])
    assert content["text"] == str(expected)
    assert "what_if" in expected.sources
    _, refused = answered(client, "/t/edits/query", form | {"what_if": "DROP TABLE t"})
    assert refused["state"] == "failed"
    assert table.newest().version == before

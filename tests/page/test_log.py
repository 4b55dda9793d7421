"""Queries of a log on the page, the use of projections, advice, and what another would change."""

from __future__ import annotations

import time
from html import unescape
from urllib.parse import urlencode

import pyarrow as pa
import pytest
from markupsafe import escape
from paged_tables import HOST, TOKEN
from starlette.testclient import TestClient

import projseg
from projseg.catalog.places import Places
from projseg.memory.deadline import check_deadline
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
    sql = "SELECT country, sum(added) FROM t WHERE country != ? GROUP BY country"
    assert first["sql"] == sql
    opened = f"/t/edits/query?{urlencode({'sql': sql})}"
    assert f'href="{opened}"' in client.get("/t/edits/queries").text
    assert f"{sql}</textarea>" in unescape(client.get(opened).text)
    assert "Open</a>" not in client.get("/queries").text
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
    assert by_name["late"]["rejections"]["AGGREGATOR_NOT_STORED"] >= 6


def answered(client, address, form):
    found = client.post(address, data=form)
    while found.status_code == 202:
        found = client.get(str(found.url))
    path, _, query = str(found.url).partition("?")
    return found, client.get(f"{path}.json?{query}").json()


def test_advice_is_that_of_the_log(logged, folder):
    client, records = logged
    first = client.get("/t/edits/advice.json").json()
    assert (first["state"], first["advice"], first["budget"]) == (None, None, "10%")
    found, content = answered(client, "/t/edits/advice", {"budget": "30%"})
    assert found.status_code == 200, content
    expected = projseg.advise(projseg.Table(folder / "edits"), records, budget="30%", seconds=3_600)
    advice = content["advice"]
    assert content["state"] == "done"
    assert advice["budget_bytes"] == expected.budget_bytes
    assert advice["log"]["queries"] == expected.log["queries"] == 8
    assert [one["name"] for one in advice["items"]] == [one.name for one in expected.items]
    assert [one["query"] for one in advice["shapes"]] == [one.query for one in expected.shapes]
    assert content["sql"] == expected.sql()
    assert content["report"] == []
    assert client.get("/t/edits/advice.json").json()["answer"] == content["answer"]
    for one in expected.shapes:
        assert escape(one.query) in found.text
    _, refused = answered(client, "/t/edits/advice", {"budget": "much"})
    assert refused["error"]["code"] == "PROJSEG_BAD_BUDGET"
    assert client.post("/t/edits/advice", data={"action": "drop"}).status_code == 400


def test_advice_says_how_far_it_is_and_is_cancelled(logged, monkeypatch):
    client, _ = logged

    def slow(table, log, *, budget, seconds, on_progress):
        for done in range(1000):
            on_progress(done, 1000)
            time.sleep(0.02)
            check_deadline()

    monkeypatch.setattr("projseg.advisor.advise.advise", slow)
    running = client.post("/t/edits/advice", data={})
    assert (running.status_code, " of 1000.</span>" in running.text) == (202, True)
    assert running.headers["retry-after"] == "1"
    again = client.get(str(running.url).replace("/advice?", "/advice.json?"))
    assert (again.status_code, again.json()["progress"][1]) == (202, 1000)
    ended = client.post(f"/t/edits/answers/{again.json()['answer']}/cancel")
    assert (ended.status_code, "It was cancelled" in ended.text) == (200, True)
    assert "advice?answer=" in str(ended.url)


@pytest.fixture
def applying(tmp_path):
    """A client that may change a table whose log asks for a projection, and the table."""
    count = 50_000
    rows = pa.table({"k": [n % 5 for n in range(count)], "v": [n * n for n in range(count)]})
    table = projseg.Table.create(tmp_path / "t", data=rows)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PROJSEG_QUERY_LOG", str(tmp_path / "log"))
        for _ in range(60):
            table.sql("SELECT k, sum(v) AS s FROM t GROUP BY k")
        projseg.read_log(tmp_path / "log")
    settings = PageSettings(TOKEN, log=str(tmp_path / "log"), allow_changes=True)
    page = application(Places([tmp_path / "t"]), settings)
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield client, table, tmp_path / "log"


def test_advice_is_applied_after_it_said_what_that_does(applying):
    client, table, log = applying
    found, content = answered(client, "/t/t/advice", {"budget": "1M"})
    (item,) = content["advice"]["items"]
    form = {"change": "apply-advice", "what": content["answer"]}
    assert f"change=apply-advice&amp;what={content['answer']}" in found.text
    shown = client.get("/t/t/change", params=form)
    assert item["statement"].split(" ADD ")[1] in shown.text.replace("&#39;", "'")
    assert table.newest().version == table.version
    done, _ = answered(client, "/t/t/change", form)
    assert (done.status_code, "apply-advice: done" in done.text) == (200, True)
    (row,) = table.newest().projection_stats().to_pylist()
    assert (row["projection"], row["missing"]) == (item["name"], 0)
    again, _ = answered(client, "/t/t/change", form)
    assert "has it all already" in again.text
    _, reported = answered(client, "/t/t/advice", {"action": "report"})
    expected = projseg.advice_report(table.newest(), log).to_pylist()
    assert [(one["name"], one["verdict"]) for one in reported["report"]] == [
        (one["name"], one["verdict"]) for one in expected
    ]
    assert (reported["advice"], len(expected)) == (None, 1)


def test_advice_that_no_longer_fits_changes_nothing(applying):
    client, table, _ = applying
    _, content = answered(client, "/t/t/advice", {"budget": "1M"})
    table.drop_column("v")
    version = table.version
    form = {"change": "apply-advice-and-drop", "what": content["answer"]}
    refused, stale = answered(client, "/t/t/change", form)
    assert (refused.status_code, stale["error"]["code"]) == (400, "PROJSEG_ADVICE_STALE")
    assert table.newest().version == version
    for what in ("", "0123"):
        found = client.get("/t/t/change.json", params=form | {"what": what})
        assert found.json()["error"]["code"] == "PROJSEG_ADVICE_STALE"


def test_advice_is_not_applied_by_a_page_that_reads(logged):
    client, _ = logged
    found, content = answered(client, "/t/edits/advice", {"budget": "100%"})
    form = {"change": "apply-advice", "what": content["answer"]}
    assert client.get("/t/edits/change", params=form).status_code == 403
    refused = client.post("/t/edits/change", data=form)
    assert (refused.status_code, "--allow-changes" in refused.text) == (403, True)
    assert "apply-advice" not in found.text


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

"""Changes: refused unless allowed, previewed without effect, then as the methods of the table."""

from __future__ import annotations

import pytest
from paged_tables import HOST, TOKEN, make_edits
from starlette.testclient import TestClient

import projseg
from projseg.catalog.places import Places
from projseg.page.application import PageSettings, application

ALL = [
    {"change": "compact"},
    {"change": "materialize-projection", "what": "late"},
    {"change": "materialize-index", "what": "by_country"},
    {"change": "refresh-view", "what": "daily"},
    {"change": "drop-projection", "what": "risky"},
    {
        "change": "add-projection",
        "what": "top",
        "sql": "SELECT country, max(added) GROUP BY country",
    },
]


@pytest.fixture
def changing(tmp_path):
    make_edits(tmp_path / "edits")
    page = application(Places([tmp_path / "edits"]), PageSettings(TOKEN, allow_changes=True))
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield client, tmp_path / "edits"


@pytest.mark.parametrize("form", ALL, ids=lambda form: form["change"])
def test_a_page_that_reads_changes_nothing(client, folder, form):
    before = projseg.Table(folder / "edits").version
    assert client.get("/t/edits/change", params=form).status_code == 403
    refused = client.post("/t/edits/change", data=form)
    assert (refused.status_code, "--allow-changes" in refused.text) == (403, True)
    assert projseg.Table(folder / "edits").version == before
    assert "Do it here" not in client.get("/t/edits").text


def test_changes_are_previewed_and_then_done(changing):
    client, place = changing
    assert "Do it here" in client.get("/t/edits").text
    for form in ALL:
        before = projseg.Table(place)
        rows = before.snapshot.row_count
        shown = client.get("/t/edits/change", params=form)
        assert (shown.status_code, "Do it" in shown.text) == (200, True), shown.text
        assert projseg.Table(place).version == before.version
        done = client.post("/t/edits/change", data=form)
        while done.status_code == 202:
            done = client.get(str(done.url))
        assert (done.status_code, ": done" in done.text) == (200, True), done.text
        after = projseg.Table(place)
        assert after.snapshot.row_count == rows
    stats = {row["projection"]: row for row in after.projection_stats().to_pylist()}
    assert set(stats) == {"hourly", "late", "top"}
    assert stats["late"]["missing"] == 0
    assert after.indexes()["status"].to_pylist() == ["ENABLED"]
    assert after.views()["state"].to_pylist() == ["fresh"]


@pytest.mark.parametrize(
    "form",
    [
        {"change": "delete", "what": "n > 1"},
        {"change": "vacuum"},
        {"change": "restore", "what": "0"},
        {"change": "drop-projection", "what": "none"},
        {"change": "materialize-index", "what": "none"},
        {"change": "refresh-view", "what": "none"},
        {"change": "add-projection", "what": "x", "sql": "DROP TABLE t"},
        {},
    ],
)
def test_what_is_no_change_of_the_page_is_refused(changing, form):
    client, place = changing
    before = projseg.Table(place).version
    assert client.get("/t/edits/change", params=form).status_code in (400, 404)
    assert client.post("/t/edits/change", data=form).status_code in (400, 404)
    assert projseg.Table(place).version == before

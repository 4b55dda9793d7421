"""The query box: answers, their limits, and the ways in which they end."""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from concurrent.futures import CancelledError
from decimal import Decimal

import pyarrow as pa
import pytest
from paged_tables import HOST, TOKEN
from starlette.testclient import TestClient
from typer.testing import CliRunner

import projseg
from projseg.catalog.places import Places
from projseg.cli import app
from projseg.page.application import PageSettings, application

GROUPED = "SELECT country, sum(added) AS s FROM t GROUP BY ALL ORDER BY country"


def asked(client, sql, table="edits", until=30, **more):
    """The address of an answer, and the answer as JSON once it is there."""
    led = client.post(f"/t/{table}/query", data={"sql": sql, **more})
    address, end = str(led.url), time.monotonic() + until
    while True:
        found = client.get(f"{address}.json")
        if found.status_code != 202 or time.monotonic() > end:
            return address, found
        assert found.headers["retry-after"] == "1"


def test_an_answer_is_that_of_the_table(client, folder):
    address, found = asked(client, GROUPED)
    content, table = found.json(), projseg.Table(folder / "edits")
    expected = table.sql(GROUPED)
    assert (found.status_code, content["state"]) == (200, "done")
    assert content["columns"] == [["country", "string"], ["s", "bigint"]]
    assert content["values"] == [list(row.values()) for row in expected.to_pylist()]
    assert content["version"] == str(table.version)
    explained = table.sql(GROUPED, explain=True)
    assert content["plan"]["sources"] == explained.sources
    assert content["plan"]["rows"] == explained.figures.rows
    assert content["plan"]["bytes"] == explained.figures.bytes
    counts = {}
    for one in content["plan"]["rejections"]:
        codes = counts.setdefault(one["source"], {})
        code = one["reason"].split(" ")[0]
        codes[code] = codes.get(code, 0) + one["segments"]
    views = {f"view {one['name']}": None for one in explained.views}
    assert {k: v for k, v in counts.items() if k not in views} == explained.rejections
    page = client.get(address)
    assert page.status_code == 200
    assert '<td class="null">NULL</td>' in page.text
    assert "Sources that answered" in page.text


def test_downloads_have_all_kept_rows(client, folder):
    address, _ = asked(client, "SELECT time, added FROM t ORDER BY time")
    expected = projseg.Table(folder / "edits").sql("SELECT time, added FROM t ORDER BY time")
    arrow = client.get(f"{address}.arrow")
    assert pa.ipc.open_file(io.BytesIO(arrow.content)).read_all().equals(expected)
    assert 'filename="answer.arrow"' in arrow.headers["content-disposition"]
    lines = client.get(f"{address}.jsonl").text.splitlines()
    assert [json.loads(line)["added"] for line in lines] == expected["added"].to_pylist()
    assert len(client.get(f"{address}.csv").text.splitlines()) == len(expected) + 1


def test_errors_have_a_code_and_a_place(client):
    address, found = asked(client, "SELECT\n  sum(addde)\nFROM t")
    error = found.json()["error"]
    assert found.status_code == 400
    assert (error["code"], error["place"]) == ("PROJSEG_UNKNOWN_COLUMN", 13)
    text = client.get(address).text
    assert "<pre>  sum(addde)\n      ^</pre>" in text


@pytest.mark.parametrize("action", ["explain", "analyze"])
def test_a_plan_is_shown_without_an_answer(client, action):
    _, found = asked(client, GROUPED, action=action)
    assert found.json()["text"].startswith("SELECT country, sum(added)")
    assert found.json()["values"] == []


def test_describe_and_show_are_answered(client):
    assert asked(client, "SHOW PROJECTIONS FROM t")[1].json()["rows"] == 3
    assert asked(client, "DESCRIBE t")[1].json()["values"][0][:2] == ["time", "timestamp"]


@pytest.mark.parametrize(
    "form",
    [{"sql": ""}, {"sql": " ; "}, {"sql": "SELECT 1 FROM t", "action": "drop"},
     {"sql": "SELECT 1 FROM t", "timeout": "-1"}, {"sql": "SELECT 1 FROM t", "timeout": "nan"}],
)  # fmt: skip
def test_a_form_that_cannot_be_is_refused(client, form):
    assert client.post("/t/edits/query", data=form).status_code == 400


def test_an_answer_that_is_not_kept_says_so(client):
    found = client.get("/t/edits/answers/0123")
    assert (found.status_code, "no longer" in found.text) == (404, True)
    address, _ = asked(client, GROUPED)
    other = address.replace("/t/edits/", "/t/empty/")
    assert client.get(other).status_code == 404


@pytest.mark.parametrize("action", ["run", "explain", "analyze"])
def test_a_query_is_of_the_version_of_its_view(client, folder, action):
    first = Places([folder]).version("edits", "1")
    sql = "SELECT count(*) AS n FROM t"
    led = client.post("/t/edits/query?version=1", data={"sql": sql, "action": action})
    found = client.get(f"{led.url}.json").json()
    assert (found["version"], found["sql"]) == ("1", sql)
    if action == "run":
        assert found["values"] == [[first.sql(sql)["n"][0].as_py()]]
    assert '/t/edits/query?version=1"' in client.get(str(led.url)).text
    assert '/t/edits/query?version=1"' in client.get("/t/edits/query?version=1").text
    refused = client.post("/t/edits/query?version=999", data={"sql": sql})
    assert refused.status_code == 404


def test_an_explained_statement_can_be_explained_again(client):
    _, found = asked(client, "EXPLAIN SELECT count(*) AS n FROM t", action="explain")
    assert (found.status_code, found.json()["sql"]) == (200, "SELECT count(*) AS n FROM t")
    _, found = asked(client, "SELECT\n  sum(addde)\nFROM t", action="explain")
    assert found.json()["error"]["place"] == 13


@pytest.mark.parametrize(
    ("sql", "status"),
    [
        ("SELECT count(*) AS n FROM empty", 400),
        ("SELECT count(*) AS n FROM geo.places", 400),
        ("SELECT count(*) AS n FROM places", 400),
        ("SELECT count(*) AS n FROM csv.`/etc/passwd`", 400),
        ("SELECT count(*) AS n FROM `/tmp/x`", 400),
        ("SELECT n FROM (SELECT count(*) AS n FROM empty) AS t", 400),
        ("WITH t AS (SELECT count(*) AS n FROM empty) SELECT n FROM t", 400),
        ("EXPLAIN SELECT count(*) AS n FROM empty", 400),
        ("DESCRIBE empty", 400),
        ("SHOW COLUMNS FROM empty", 400),
        ("SELECT count(*) AS n FROM EDITS", 200),
        ("SELECT count(*) AS n FROM anything", 200),
        ("WITH empty AS (SELECT 1 AS n FROM t) SELECT n FROM empty", 200),
        ("DESCRIBE t", 200),
    ],
)
def test_a_statement_names_the_table_of_its_page(client, sql, status):
    led = client.post("/t/edits/query", data={"sql": sql})
    found = client.get(f"{led.url}.json") if status == 200 else led
    assert found.status_code == status, found.text
    assert (status == 200) or "not the table of this page" in found.text


def test_values_have_one_form_in_json_lines_and_shell(tmp_path):
    rows = {
        "d": [float("nan"), float("inf"), float("-inf")],
        "b": [b"\x00\xff", None, b""],
        "l": [[float("nan")], None, []],
        "e": [Decimal("1.50"), None, Decimal(2)],
    }
    projseg.Table.create(tmp_path / "odd", data=pa.table(rows))
    page = application(Places([tmp_path / "odd"]), PageSettings(TOKEN, timeout=60))
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        address, found = asked(client, "SELECT * FROM t", "odd")
        shell = CliRunner().invoke(app, ["shell", str(tmp_path / "odd"), "-c", "SELECT * FROM t"])
        lines = [json.loads(line) for line in shell.stdout.splitlines()]
        assert [row["d"] for row in lines] == ["NaN", "Infinity", "-Infinity"]
        assert found.json()["values"] == [list(row.values()) for row in lines]
        downloaded = client.get(f"{address}.jsonl").text.splitlines()
        assert [json.loads(line) for line in downloaded] == lines
        text = client.get(address).text
        assert '<td class="n">-Infinity</td>' in text
        assert '<td class="n">1.50</td>' in text
        table = list(csv.DictReader(io.StringIO(client.get(f"{address}.csv").text)))
        assert [row["b"] for row in table] == ["00ff", "", ""]
        assert [row["l"] for row in table] == ['["NaN"]', "", "[]"]


def test_answers_that_are_kept_are_bounded_in_all(client, monkeypatch):
    monkeypatch.setattr("projseg.page.answers._KEPT_BYTES", 4000)
    address, found = asked(client, "SELECT time, added FROM t ORDER BY time")
    content = found.json()
    assert content["rows"] > content["kept"] > 0
    assert f"Download the first {content['kept']:,}" in client.get(address).text
    asked(client, "SELECT added, time FROM t ORDER BY time")
    assert client.get(f"{address}.json").status_code == 404


@pytest.fixture
def slow(tmp_path):
    """A client of a table whose words take seconds to hash."""
    count = 1_000_000
    rows = {"n": pa.array(range(count)), "t": pa.array(["word"] * count)}
    projseg.Table.create(tmp_path / "slow", target_segment_rows=100_000, data=pa.table(rows))
    page = application(Places([tmp_path / "slow"]), PageSettings(TOKEN, timeout=60))
    with TestClient(page, base_url=f"http://{HOST}") as found:
        found.headers["Authorization"] = f"Bearer {TOKEN}"
        yield found


SLOW = "SELECT count(DISTINCT sha2(concat(t, cast(n as string)), 512)) AS c FROM t"


def test_cancel_and_the_limit_free_the_worker(slow):
    assert asked(slow, "SELECT count(*) AS n FROM t", "slow")[1].json()["values"] == [[1_000_000]]
    led = slow.post("/t/slow/query", data={"sql": SLOW})
    assert (led.status_code, "Cancel" in led.text) == (202, True)
    start = time.monotonic()
    ended = slow.post(f"{led.url}/cancel")
    assert time.monotonic() - start < 5
    assert slow.get(f"{led.url}.json").json()["state"] == "cancelled"
    assert "was cancelled" in ended.text
    _, late = asked(slow, SLOW, "slow", timeout="0.2")
    assert (late.status_code, late.json()["state"]) == (504, "timeout")
    assert asked(slow, "SELECT max(n) AS n FROM t", "slow")[1].json()["values"] == [[999_999]]


@pytest.mark.slow
def test_so_many_queries_run_and_wait_and_no_more(slow):
    addresses = []

    def ask():
        addresses.append(slow.post("/t/slow/query", data={"sql": SLOW}, follow_redirects=False))

    threads = [threading.Thread(target=ask) for _ in range(24)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    codes = sorted(one.status_code for one in addresses)
    assert codes == [303] * 18 + [429] * 6
    for one in addresses:
        if one.status_code == 303:
            slow.post(f"{one.headers['location']}/cancel")


def test_pool_stops_one_question_and_answers_others(tmp_path):
    count = 1_000_000
    rows = {"n": pa.array(range(count)), "t": pa.array(["word"] * count)}
    table = projseg.Table.create(tmp_path / "t", target_segment_rows=100_000, data=pa.table(rows))
    with projseg.QueryPool(table, 1) as pool:
        running, waiting = pool.submit(SLOW), pool.submit("SELECT count(*) AS n FROM t")
        dropped = pool.submit("SELECT 1 AS n FROM t")
        time.sleep(0.3)
        pool.stop(dropped)
        pool.stop(running)
        with pytest.raises(CancelledError):
            running.result(10)
        assert dropped.cancelled()
        assert waiting.result(30).to_pylist() == [{"n": count}]
        pool.stop(waiting)  # it has its answer
        assert waiting.result().num_rows == 1
        with pytest.raises(projseg.ProjsegError, match="PROJSEG_BAD_ARGUMENT"):
            pool.stop(type(running)())

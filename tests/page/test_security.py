"""Who has no token, or comes from another page, gets nothing; names and values stay text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from paged_tables import HOST, HOSTILE, TOKEN, TURNED
from starlette.testclient import TestClient

import projseg
from projseg.catalog.places import Places
from projseg.page.application import PageSettings, application
from projseg.page.security import BODY_BYTES_MAX

ROOT = Path(__file__).parents[2]
VIEWS = ["", "/projections", "/columns", "/segments", "/history", "/query"]
COOKIE = f"projseg_8642={TOKEN}"


@pytest.fixture
def stranger(app):
    """A client that has nothing."""
    with TestClient(app, base_url=f"http://{HOST}", follow_redirects=False) as found:
        yield found


def status(client, method="GET", path="/t/edits", **headers):
    return client.request(method, path, headers=headers).status_code


@pytest.mark.parametrize(
    "path", ["/", "/index.json", "/t/edits", "/t/none", "/assets/page.css", "/none", "/favicon.ico"]
)
def test_without_the_token_every_path_says_the_same(stranger, path):
    found = stranger.get(path)
    assert (found.status_code, found.text.count("\n")) == (401, 0)
    assert found.text == stranger.get("/").text
    assert "projseg ui" in found.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": f"projseg_8642={TOKEN[:-1]}"},
        {"Cookie": f"projseg_8643={TOKEN}"},
        {"Cookie": "projseg_8642="},
    ],
)
def test_what_is_not_the_token_is_refused(stranger, headers):
    assert stranger.get("/", headers=headers).status_code == 401
    assert stranger.get("/?token=wrong").status_code == 401


def test_the_token_becomes_a_cookie_and_leaves_the_address(stranger):
    found = stranger.get(f"/t/edits?token={quote(TOKEN)}&version=1")
    assert (found.status_code, found.headers["location"]) == (303, "/t/edits?version=1")
    cookie = found.headers["set-cookie"]
    assert cookie.startswith("projseg_8642=")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= {*cookie.split("; ")}
    assert TOKEN not in found.headers["location"] + found.text


def test_no_address_outside_is_led_to(stranger):
    for path in ("//evil.example/", "/\\evil.example/", "///evil.example"):
        found = stranger.get(f"http://{HOST}{path}?token={quote(TOKEN)}")
        assert re.match(r"/(?![/\\])", found.headers.get("location", "/")), path


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8642", "127.0.0.1", "127.0.0.1:8643", "127.0.0.1.evil:8642",
     "localhost", "0.0.0.0:8642", "", "user@127.0.0.1:8642", "[::1]:8642",
     "127.0.0.1:8642,evil.example"],
)  # fmt: skip
def test_another_host_is_refused_even_with_the_token(stranger, host):
    headers = {"Host": host, "Authorization": f"Bearer {TOKEN}"}
    assert stranger.get("/", headers=headers).status_code == 421
    assert stranger.get(f"/?token={quote(TOKEN)}", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", [HOST, "localhost:8642", "LOCALHOST:8642"])
def test_names_of_this_machine_are_hosts(stranger, host):
    assert status(stranger, Host=host, Authorization=f"Bearer {TOKEN}") == 200


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 400),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, 400),
        ({"Sec-Fetch-Site": "same-origin", "Origin": f"http://{HOST}"}, 400),
        ({"Origin": f"http://{HOST}"}, 400),
        ({}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": f"https://{HOST}"}, 403),
        ({"Origin": f"//{HOST}"}, 403),
        ({"Origin": "http://localhost:8642"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:8000"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:8000"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": f"http://{HOST}"}, 403),
    ],
)
def test_a_forged_post_is_refused(stranger, headers, expected):
    """One that comes through is refused for its empty statement, with 400."""
    assert status(stranger, "POST", "/t/edits/query", Cookie=COOKIE, **headers) == expected


def test_a_script_with_the_token_needs_no_origin_but_no_other(stranger):
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert status(stranger, "POST", "/t/edits/query", **bearer) == 400
    evil = {"Origin": "http://evil.example"}
    assert status(stranger, "POST", "/t/edits/query", **bearer, **evil) == 403
    assert status(stranger, "GET", "/t/edits", Cookie=COOKIE, **evil) == 403


def test_other_methods_are_not_answered(stranger):
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        found = stranger.request(method, "/t/edits", headers={"Cookie": COOKIE})
        assert found.status_code == 405
        assert not [name for name in found.headers if name.startswith("access-control")]
    assert stranger.head("/t/edits", headers={"Cookie": COOKIE}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/t/edits", "/t/none", "/assets/page.js", "/index.json"])
def test_every_answer_has_the_policy(client, stranger, path):
    for found in (client.get(path), stranger.get(path)):
        assert "default-src 'none'; script-src 'self'" in found.headers["content-security-policy"]
        assert "unsafe" not in found.headers["content-security-policy"]
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["cache-control"] == "no-store"
        assert found.headers["referrer-policy"] == "same-origin"
        assert found.headers["cross-origin-opener-policy"] == "same-origin"
        assert found.headers["cross-origin-resource-policy"] == "same-origin"
        assert TOKEN not in found.text


class Elements(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_hostile_names_and_values_are_text(client):
    for view in VIEWS:
        found = client.get(f"/t/{quote(HOSTILE, safe='')}{view}")
        assert found.status_code == 200
        elements = Elements(found.text).found
        assert not {"img", "b"} & {tag for tag, _ in elements}
        assert not [
            name for _, attributes in elements for name in attributes if name.startswith("on")
        ]
        assert not [1 for _, attributes in elements if "style" in attributes]
    answered = client.post(f"/t/{quote(HOSTILE, safe='')}/query", data={"sql": "SELECT * FROM t"})
    while answered.status_code == 202:
        answered = client.get(str(answered.url))
    assert "&lt;/td&gt;" in answered.text
    assert "<b>" not in answered.text


def test_characters_that_turn_a_line_are_shown_as_escapes(client):
    found = client.get("/t/edits/columns").text
    assert "left\\u202eright" in found
    assert "\u202e" not in found
    assert client.get("/t/edits/columns.json").json()["columns"][3]["column"] == TURNED
    for text in ("\u202e", "\x1b[31m", "\x00"):
        refused = client.get(f"/t/{quote(text)}").text
        assert text not in refused


@pytest.mark.parametrize(
    "given",
    ["..", "../edits", "..%2Fedits", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "edits/../../etc",
     "a" * 5000, "%00", "%ff"],
)  # fmt: skip
def test_paths_lead_to_no_file(client, folder, given):
    for address in (
        f"/t/{given}", f"/t/{given}/segments", f"/t/edits/{given}", f"/assets/{given}",
        f"/t/edits/segments/{given}", f"/t/edits?version={given}", f"/t/edits?from={given}&to=1",
        f"/t/edits/segments?sort={given}", f"/t/edits/segments?page={given}", f"/?search={given}",
        f"/t/edits/answers/{given}", f"/?page={given}", f"/t/edits/query?version={given}",
    ):  # fmt: skip
        found = client.get(address)
        assert found.status_code in (200, 400, 404), address
        assert "root:" not in found.text
        assert "Traceback" not in found.text


def test_a_link_runs_nothing(client):
    before = projseg.metrics()
    found = client.get("/t/edits/query", params={"sql": "SELECT count(*) FROM t"})
    assert "SELECT count(*) FROM t</textarea>" in found.text
    for view in VIEWS:
        client.get(f"/t/edits{view}", params={"sql": "SELECT 1 FROM t", "action": "run"})
    assert client.get("/t/edits/answers/none/cancel").status_code in (404, 405)
    after = projseg.metrics()
    pick = [line for line in before.splitlines() if line.startswith("projseg_queries")]
    assert [line for line in after.splitlines() if line.startswith("projseg_queries")] == pick


def test_a_body_has_a_bound(client):
    long = {"sql": "x" * BODY_BYTES_MAX}
    assert client.post("/t/edits/query", data=long).status_code == 413
    many = {"sql": "SELECT '" + "x" * 70_000 + "' FROM t"}
    assert client.post("/t/edits/query", data=many).status_code == 400
    parts = (b"x" * 65536 for _ in range(64))
    assert client.post("/t/edits/query", content=parts).status_code == 413


@pytest.mark.parametrize(
    "sql",
    ["DELETE FROM t", "DROP TABLE t", "INSERT INTO t VALUES (1)", "UPDATE t SET n = 1",
     "SELECT 1 FROM t; DELETE FROM t", "VACUUM t", "CREATE TABLE x AS SELECT 1", "SET x = 1",
     "SELECT * FROM read_csv('/etc/passwd')", "COPY t TO '/tmp/x'", "EXPLAIN DELETE FROM t"],
)  # fmt: skip
def test_statements_that_write_are_refused(client, folder, sql):
    before = projseg.Table(folder / "edits").version
    found = client.post("/t/edits/query", data={"sql": sql})
    while found.status_code == 202:
        found = client.get(str(found.url))
    assert found.status_code == 400
    assert "PROJSEG_" in found.text
    assert projseg.Table(folder / "edits").version == before


def test_templates_trust_no_text():
    for path in (ROOT / "page" / "templates").glob("*.html"):
        text = path.read_text()
        assert "|safe" not in text.replace(" ", "")
        assert "autoescape" not in text
        assert " style=" not in text
        assert not re.search(r"\son\w+=", text)
        assert not re.search(r"<script(?! src=)", text)
    for path in (ROOT / "page").glob("*.py"):
        assert "Markup(" not in path.read_text()
    assert "innerHTML" not in (ROOT / "page" / "assets" / "page.js").read_text()


def test_where_it_listens_and_its_token(tmp_path, folder):
    with pytest.raises(projseg.ProjsegError, match="allow-remote"):
        projseg.serve_page([folder], host="0.0.0.0")
    file = tmp_path / "token"
    file.write_text("x" * 40)
    file.chmod(0o644)
    with pytest.raises(projseg.ProjsegError, match="0600"):
        projseg.serve_page([folder], token_file=file)
    with pytest.raises(projseg.ProjsegError, match="PROJSEG_NOT_A_TABLE"):
        projseg.serve_page([tmp_path / "nothing"])


@pytest.mark.parametrize(
    "path", ["/?search=a%E2%80%AEb", "/t/edits/query?sql=SELECT+'a%E2%80%AEb'"]
)
def test_marks_of_direction_in_fields_are_escapes(client, path):
    text = client.get(path).text
    assert "\u202e" not in text
    assert "a\\u202eb" in text


def test_an_escape_in_a_field_is_the_same_text(client):
    sql = "SELECT length('a\\u202eb') AS n FROM t LIMIT 1"
    led = client.post("/t/edits/query", data={"sql": sql})
    assert client.get(f"{led.url}.json").json()["values"] == [[3]]


def test_a_page_at_an_address_of_ipv6_has_its_name(folder):
    page = application(Places([folder / "edits"]), PageSettings(TOKEN, host="::1"))
    with TestClient(page, base_url="http://localhost:8642") as found:
        assert status(found, Host="[::1]:8642", Authorization=f"Bearer {TOKEN}") == 200

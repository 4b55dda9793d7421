# ruff: noqa: E501 - requests are read in one line
"""A server that is attacked: bounded memory, 400 for what is wrong, and answers for all others."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing

import pytest
import urllib3
from catalog_servers import free_port, started_server

import projseg
from projseg.catalog import rest_limits
from projseg.catalog.spec.spec_rules import checked
from projseg.catalog.spec.table_spec import TableSpec
from projseg.errors import InvalidInputError

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

TABLE = {"columns": [{"name": "a", "sqlType": "bigint"}]}
LARGE = {"columns": [{"name": f"c{n}", "comment": "x" * 8_000} for n in range(88)]}


@pytest.fixture(params=["sqlite", "postgres"])
def house_at(request, tmp_path):
    """An admin's requests to a server over each database, and the catalog."""
    postgres = request.param == "postgres"
    uri = request.getfixturevalue("postgres") if postgres else str(tmp_path / "house.db")
    with ExitStack() as held:
        own = held.enter_context(projseg.Catalog(uri, tenant=f"b{id(held)}", warehouse="/w"))
        own.init()
        own.admin.create_tenant(own.store.tenant, "/w", ["/data"])
        own.admin.create_principal("root", admin=True)
        token = own.admin.create_token("root")[1]
        port = held.enter_context(started_server(own))
        yield Asked(port, token), own


class Asked:
    """Asks a server with a token."""

    def __init__(self, port, token):
        self.port, self.token = port, token
        self.pool = urllib3.HTTPConnectionPool("127.0.0.1", port, maxsize=4)

    def __call__(self, verb, path, body=None, **headers):
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if self.token is not None:
            headers = {"Authorization": f"Bearer {self.token}", **headers}
        self.reply = self.pool.request(
            verb, f"/v1/catalog{path}", body=content, headers=headers, retries=False, redirect=False
        )
        found = json.loads(self.reply.data) if self.reply.data else None
        return self.reply.status, found

    def pages(self, path, field):
        """The items of all pages, and the most bytes that a page had."""
        items, token, most = [], "", 0
        while token is not None:
            sign = "&" if "?" in path else "?"
            more = f"{sign}pageToken={token}" if token else ""
            status, found = self("GET", f"{path}{more}")
            assert status == 200, found
            items.append(found[field])
            token, most = found.get("nextPageToken"), max(most, len(self.reply.data))
        return items, most


def test_bad_input_is_refused_as_such(house_at):
    root, own = house_at
    own.create("t", TABLE)
    id_ = own.metadata("t").id
    seen = {"tableId": "x", "bindings": {}, "storedSchema": {"a": "bigint"}, "storedVersion": 0}
    assert root("PUT", f"/definitions/{id_}/seen", seen)[0] == 204
    many = {f"c{n}": "bigint" for n in range(100_000)}
    status = {"tableVersion": 1, "atUs": 1, "segments": 2**63, "rows": 1, "bytes": 1}
    wrong = [
        ("GET", "/tables/default/a%00b", None), ("GET", "/tables/%00/t", None),
        ("GET", "/tables/default/%ff", None), ("GET", "/schemas/%ff/names", None),
        ("GET", "/principals?principal=%00", None), ("GET", "/list/tables/names?pageToken=%00", None),
        ("GET", "/list/tables/names?pageToken=WzEsMl0=", None), ("GET", "/trash?pageToken=WyIiLDJd", None),
        ("DELETE", "/tokens/%00", None), ("POST", "/trash/%00/undrop", None),
        ("GET", "/changes?since=99999999999999999999", None), ("GET", "/changes?since=-1", None),
        ("DELETE", "/schemas/x?cascade=yes", None),
        ("POST", "/principals", {"name": None}), ("POST", "/principals", {"name": 5}),
        ("POST", "/principals", {}), ("POST", "/principals", [1]), ("POST", "/principals", b"null"),
        ("POST", "/principals", {"name": "ada", "admin": "yes"}),
        ("POST", "/principals", {"name": "a\u200bda"}), ("POST", "/principals", {"name": "a\0"}),
        ("POST", "/principals", b'{"name": "\\ud800"}'),
        ("POST", "/tokens", {"principal": None}), ("POST", "/tokens", {"principal": "root", "expires": "x"}),
        ("POST", "/tokens", {"principal": "root", "expires": 2**70}),
        ("POST", "/grants", {"principal": "root", "action": "READ"}),
        ("POST", "/grants", {"principal": "root", "action": "READ", "pattern": None}),
        ("POST", "/grants", {"principal": "root", "action": ["READ"], "pattern": "a"}),
        ("POST", "/grants", {"principal": "root", "action": "READ", "pattern": "(?!a).*"}),
        ("POST", "/grants", {"principal": "root", "action": "EXTERNAL", "pattern": "a", "externalType": 5}),
        ("POST", "/tables/rename", {"source": None, "target": "u"}), ("POST", "/tables/rename", {"source": "t"}),
        ("POST", "/tables/rename", {"source": "t", "target": "u\u202e"}),
        ("POST", "/tables/default/t/moveColumn", {"column": 1, "where": "first"}),
        ("POST", "/tables/default/t/moveColumn", {"column": "a", "where": None}),
        ("POST", "/tables/default/t/dropColumn", [1]), ("POST", "/tables/default/t/hideColumns", {"hide": "a"}),
        ("POST", "/tables/default/u/register", {"location": 5}), ("POST", "/tables/default/u%E2%80%8B", TABLE),
        ("POST", "/schemas/s", {"comment": "x" * 3_000_000}), ("POST", "/schemas/s", {"properties": [1]}),
        ("POST", "/schemas/s", {"properties": {"a": 5}}), ("POST", "/schemas/s%E2%80%AEx", {}),
        ("POST", "/tables/default/h", {
            "type": "http",
            "properties": {"format": "json", "uris": ["https://a/b"], "headers": {"X": "a\r\nEvil: b"}},
        }),
        *(
            ("POST", "/tables/default/h", {"type": "http", "properties": {"format": "json", **place}})
            for place in ({"uris": ["https://a/b\r\nEvil: b"]}, {"uriTemplate": "https://a/{}\0"})
        ),
        ("PUT", f"/definitions/{id_}/seen", {**seen, "storedSchema": many}),
        ("PUT", f"/definitions/{id_}/seen", {**seen, "storedSchema": {"a": "no such type"}}),
        ("PUT", f"/definitions/{id_}/seen", {**seen, "storedSchema": {"a": "struct<" + "b:int," * 200_000 + "c:int>"}}),
        ("PUT", f"/definitions/{id_}/seen", {**seen, "storedVersion": 2**63}),
        ("PUT", f"/definitions/{id_}/seen", {**seen, "tableId": None}),
        ("PUT", f"/definitions/{id_}/seen", {**seen, "storedStatus": {**status, "projections": []}}),
    ]  # fmt: skip
    for verb, path, body in wrong:
        found = root(verb, path, body)
        assert found[0] == 400, (verb, path, body if len(str(body)) < 200 else "", found)
    assert [one.name for one in own.tables()] == ["t"]
    assert own.namespaces() == ["default"]
    assert root("GET", "/information_schema/columns")[1]["rows"][0]["stored_type"] == "bigint"


def test_lists_come_in_pages_of_bounded_size(house_at):
    root, own = house_at
    for number in range(30):
        own.create(f"t{number}", LARGE)
        own.create_namespace(f"s{number}", "x" * 8000)
        own.admin.create_principal(f"p{number}")
        own.admin.grant("root", "READ", f"t{number}")
    before = root("GET", "/config")[1]["head"]
    for path, field, count in (
        ("/schemas/default/tables", "tables", 30),
        ("/changes", "changes", 60),
    ):
        pages, most = root.pages(path, field)
        assert sum(map(len, pages)) >= count
        assert len(pages) > 2
        assert most < 10 << 20, path
    history = root("GET", "/tables/default/t3/history")[1]
    assert [one["kind"] for one in history["changes"]] == ["create"]
    for number in range(30):
        own.drop(f"t{number}")
    pages, most = root.pages("/trash", "items")
    assert [one["name"] for page in pages for one in page] == [f"default.t{n}" for n in range(30)]
    assert most < 10 << 20
    assert len(pages) > 2
    for path, field, wanted in (
        ("/schemas", "schemas", 31), ("/list/schemas/names", "names", 31), ("/principals", "items", 31),
        ("/grants", "items", 30), ("/tokens", "items", 1), ("/information_schema/schemata", "rows", 31),
    ):  # fmt: skip
        whole, _ = root.pages(path, field)
        for size in (1, 7):
            pages, _ = root.pages(f"{path}?pageSize={size}", field)
            assert all(0 < len(page) <= size for page in pages), path
            assert [one for page in pages for one in page] == [
                one for page in whole for one in page
            ]
        assert sum(map(len, whole)) == wanted, path
    with projseg.Catalog(f"http://127.0.0.1:{root.port}", token=root.token) as client:
        assert client.namespaces() == own.namespaces()
        assert client.trash().num_rows == 30
        kept = ("version", "name", "kind", "spec")
        feeds = [one.changes().select(kept).to_pylist() for one in (client, own)]
        access = ("tenant", "principal", "token", "grant")
        assert feeds[0] == [row for row in feeds[1] if row["kind"] not in access]
        assert client.changes(before).num_rows == 30
        assert client.admin.grants() == own.admin.grants()
        assert client.undrop("t7") == client.metadata("t7").version


def test_tags_redirects_and_lengths(house_at):
    root, own = house_at
    own.create("t", TABLE)
    root("GET", "/tables/default/t")
    tag = root.reply.headers["ETag"]
    for known in (f'"0", {tag}', f'W/{tag},"x"', "*", f'"a,{tag}'):
        assert root("GET", "/tables/default/t", **{"If-None-Match": known})[0] == 304, known
    assert root("GET", "/tables/default/t", **{"If-None-Match": '"0", "1-2"'})[0] == 200
    stranger = Asked(root.port, None)
    for path in ("/config/", "/tables/default/t/", "/schemas/"):
        assert stranger("GET", path, Host="evil.example")[0] == 404
        assert "Location" not in stranger.reply.headers
    head = f"PUT /v1/catalog/tables/default/t HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {root.token}\r\n"
    for lengths in (("2", "3"), ("2", "-2"), ("2, 3",), ("+2",), ("99999999999999999999999",)):
        said = head + "".join(f"Content-Length: {one}\r\n" for one in lengths) + "\r\n{}"
        assert raw(root.port, said.encode()).startswith((b"HTTP/1.1 400", b"HTTP/1.1 413")), lengths
    both = f"{head}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    found = raw(root.port, (both + both).encode())
    assert found.startswith(b"HTTP/1.1 400")
    assert (found.count(b"HTTP/1.1"), b"connection: close" in found.lower()) == (1, True)
    stranger.pool.close()


def raw(port, said):
    """The reply to bytes, until the connection ends or is silent."""
    with closing(socket.create_connection(("127.0.0.1", port))) as opened:
        opened.sendall(said)
        opened.shutdown(socket.SHUT_WR)
        found = b""
        while part := opened.recv(65536):
            found += part
    return found


def test_no_stranger_reads_where_the_database_is(tmp_path):
    pytest.importorskip("psycopg")
    away = "postgresql://someone@127.0.0.1:1/house"
    with projseg.Catalog(away, warehouse="/w", timeout=1) as own, started_server(own) as port:
        for token in (None, "x.y", "x" * 100_000):
            asked = Asked(port, token if token is None or len(token) < 9 else "x" * 9_000)
            for path in ("/health", "/config", "/tables/default/t"):
                status, found = asked("GET", path)
                assert status in (401, 503)
                assert not re.search(r"someone|127\.0|house|port|psycopg", json.dumps(found)), found
            asked.pool.close()


def test_headers_that_do_not_arrive_hold_nothing(house, monkeypatch):
    monkeypatch.setattr(rest_limits, "HEADER_SECONDS", 2.0)
    monkeypatch.setattr(rest_limits, "CONNECTIONS_MAX", 40)
    house.init()
    with started_server(house) as port, ExitStack() as held:
        opened = []
        for number in range(90):
            one = held.enter_context(closing(socket.create_connection(("127.0.0.1", port))))
            if number % 2:  # half of them after a request that was answered
                one.sendall(b"GET /v1/catalog/health HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b"200 OK" in one.recv(4096)
            one.sendall(b"GET /v1/catalog/health HTTP/1.1\r\nX-Slow: ")
            opened.append(one)
            if number % 10 == 9:  # others are answered, although there are too many
                asked = Asked(port, None)
                assert asked("GET", "/health")[0] == 200
                asked.pool.close()
        for one in opened:
            try:
                while one.recv(4096):
                    pass
            except ConnectionResetError:
                pass


@pytest.mark.parametrize("is_slow", [False, True])
def test_requests_of_one_tenant_leave_room_for_others(house, monkeypatch, is_slow):
    """A tenant's bodies that never end, or replies that nobody takes, hold its own turns alone."""
    monkeypatch.setattr(rest_limits, "BODY_SECONDS", 4.0)
    monkeypatch.setattr(rest_limits, "REPLY_SECONDS", 4.0)
    house.init()
    asked = {}
    with started_server(house) as port, ExitStack() as held:
        for tenant in ("one", "two"):
            own = held.enter_context(projseg.Catalog(house.store.database.uri, tenant=tenant))
            own.admin.create_tenant(tenant, "/w", [])
            own.admin.create_principal("root", admin=True)
            asked[tenant] = Asked(port, own.admin.create_token("root")[1])
            for number in range(12):
                own.create(f"t{number}", LARGE)
        head = f"Host: x\r\nAuthorization: Bearer {asked['one'].token}\r\n"
        said = f"GET /v1/catalog/schemas/default/tables HTTP/1.1\r\n{head}\r\n"
        if is_slow:
            said = f"PUT /v1/catalog/tables/default/t1 HTTP/1.1\r\n{head}Content-Length: 9999\r\n\r\n{{"
        opened = []
        for _ in range(rest_limits.AT_ONCE + rest_limits.WAITING_MAX + 20):
            one = held.enter_context(closing(socket.socket()))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", port))
            one.sendall(said.encode())
            opened.append(one)
        for number in range(20):
            assert asked["two"]("GET", f"/tables/default/t{number % 12}")[0] == 200
        busy = [asked["one"]("GET", "/tables/default/t1")[0] for _ in range(2)]
        assert set(busy) <= {200, 503}
        for one in opened:
            one.close()
        while asked["one"]("GET", "/tables/default/t1")[0] != 200:
            time.sleep(0.1)


def test_bodies_without_a_token_are_not_kept(tmp_path):
    """The server's own process, so that its memory is its own."""
    with projseg.Catalog(tmp_path / "house.db") as own, ExitStack() as held:
        own.admin.create_principal("root", admin=True)
        token, port = own.admin.create_token("root")[1], free_port()
        command = [sys.executable, "-m", "projseg", "catalog", "serve", "--port", str(port)]
        server = subprocess.Popen(
            [*command, "--uri", str(tmp_path / "house.db")],
            env=os.environ, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        held.callback(server.wait)
        held.callback(server.terminate)
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert server.poll() is None
                time.sleep(0.1)
        asked = Asked(port, token)
        assert asked("POST", "/tables/default/t", TABLE)[0] == 201
        before = peak_memory(server.pid)
        body, opened = b"x" * (4 << 20), []
        for _ in range(200):
            one = held.enter_context(closing(socket.create_connection(("127.0.0.1", port))))
            one.setblocking(False)
            head = b"PUT /v1/catalog/tables/default/t HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
            opened.append([one, memoryview(head % len(body) + body)])
        for _ in range(40):
            for pair in opened:
                try:
                    pair[1] = pair[1][pair[0].send(pair[1]) :]
                except (BlockingIOError, ConnectionError):
                    continue
            assert asked("GET", "/tables/default/t")[0] == 200
        assert peak_memory(server.pid) - before < 100 << 20
        asked.pool.close()


def peak_memory(process):
    """The most bytes that a process had in memory."""
    with open(f"/proc/{process}/status", encoding="ascii") as status:
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1]) << 10


def test_what_a_spec_may_make_the_server_parse_is_bounded():
    columns = [{"name": "a", "sqlType": "bigint"}, {"name": "b"}]
    one = {"name": "p", "sql": "SELECT b, sum(a) AS s GROUP BY ALL"}
    long = ", ".join(f"sum(a + {n}) AS s{n}" for n in range(5000))
    for spec, path in (
        ({"properties": {"projections": [{**one, "name": f"p{n}"} for n in range(65)]}}, "projections"),
        ({"properties": {"projections": [{**one, "sql": f"SELECT {long}"}]}}, "projections"),
        ({"columns": [{"name": f"c{n}", "sqlType": f"struct<a{n}:" * 9 + "int" + ">" * 9}
                      for n in range(4000)]}, r"\$.columns"),
    ):  # fmt: skip
        with pytest.raises(InvalidInputError, match=f"PROJSEG_BAD_SPEC.*{path}"):
            checked(TableSpec.of({"columns": columns, **spec}))

"""A catalog behind a server as Python sees it: what is lost on the way is not done twice."""

import http.server
import json
import pickle
import threading

import pyarrow as pa
import pytest
import urllib3

import projseg
from projseg.errors import (
    CatalogStateUnknownError,
    CatalogUnavailableError,
    InvalidInputError,
    PermissionDeniedError,
    UnsupportedFeatureError,
)

pytest.importorskip("starlette")

COLUMNS = {"columns": [{"name": "a", "sqlType": "bigint"}, {"name": "b"}]}


class Wire(http.server.BaseHTTPRequestHandler):
    """Passes requests on to the server, and loses or replaces replies as `plan` says."""

    protocol_version = "HTTP/1.1"
    plan, seen, upstream = [], [], None

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fate = self.plan.pop(0) if self.plan else "pass"
        if fate == "lose":
            self.close_connection = True
            return
        if isinstance(fate, tuple):
            status, content, headers = fate
        else:
            headers = {
                key: text
                for key, text in self.headers.items()
                if key.lower() not in ("host", "content-length", "connection")
            }
            reply = self.upstream.request(
                self.command, self.path, body=body, headers=headers, retries=False
            )
            self.seen.append((self.command, self.path, reply.status))
            if fate == "cut":
                self.close_connection = True
                return
            status, content, headers = reply.status, reply.data, {}
            if "ETag" in reply.headers:
                headers["ETag"] = reply.headers["ETag"]
        self.send_response(status)
        for key, text in headers.items():
            self.send_header(key, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = handle_one

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def wire(port):
    """A wire to the server: its `plan` is of the next requests, `seen` what reached the server."""
    with urllib3.HTTPConnectionPool("127.0.0.1", port, maxsize=4) as upstream:
        kind = type("OwnWire", (Wire,), {"plan": [], "seen": [], "upstream": upstream})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        kind.uri = f"http://127.0.0.1:{server.server_address[1]}"
        yield kind
        server.shutdown()
        server.server_close()
        thread.join()


pytestmark = pytest.mark.parametrize("doors", ["rest"], indirect=True)


@pytest.fixture
def client(doors, wire):
    """A client at the far end of the wire, which knows its tenant already."""
    made = projseg.Catalog(**{**doors.options(), "uri": wire.uri, "timeout": 5})
    assert made.store.head() >= 0
    wire.seen.clear()
    yield made
    made.close()


EDITS = [
    lambda c, n: c.create(f"{n}_new", COLUMNS),
    lambda c, n: c.merge(n, {"columns": [{"name": "c"}]}),
    lambda c, n: c.create(n, {}, "replace", version=c.metadata(n).version),
    lambda c, n: c.edit(n, lambda spec: {"columns": [{"name": "only"}]}),
    lambda c, n: c.move_column(n, "b", "first"),
    lambda c, n: c.drop_columns(n, ["b"]),
    lambda c, n: c.hide_columns(n, ["b"]),
    lambda c, n: c.rename(n, f"{n}_other"),
    lambda c, n: c.drop(n),
    lambda c, n: c.undrop(f"{n}_gone"),
    lambda c, n: c.register(f"{n}_new", "/data/r"),
    lambda c, n: c.create_namespace(f"{n}_new"),
    lambda c, n: c.drop_namespace(f"{n}_old"),
    lambda c, n: c.admin.create_principal(f"{n}_new"),
    lambda c, n: c.admin.grant(f"{n}_bob", "READ", ".*"),
]


@pytest.mark.parametrize("fate", ["cut", "lose", "busy"])
def test_an_edit_whose_reply_is_lost_is_done_once(doors, client, wire, fate):
    fates = [(503, b"{}", {"Retry-After": "0"})] * 2 if fate == "busy" else [fate, fate]
    real, planned = client.store.database._own_pool().request, []

    def request(method, *arguments, **more):
        if method != "GET" and not planned:
            planned.append(method)
            wire.plan[:] = fates
        return real(method, *arguments, **more)

    client.store.database._own_pool().request = request
    with projseg.Catalog(doors.served.store.database.uri, tenant=doors.tenant) as beside:
        for number, edit in enumerate(EDITS):
            name = f"t{number}"
            beside.create(name, COLUMNS)
            beside.create(f"{name}_gone", {})
            beside.drop(f"{name}_gone")
            beside.create_namespace(f"{name}_old")
            beside.admin.create_principal(f"{name}_bob")
            before = beside.store.head()
            planned.clear()
            wire.seen.clear()
            made = edit(client, name)
            assert planned, "an edit was sent, and what it met happened"
            assert beside.changes(before).num_rows == 1, number
            if type(made) is int:
                assert made == before + 1
            edits = [status for verb, _, status in wire.seen if verb != "GET"]
            assert len(edits) == (3 if fate == "cut" else 1)
            assert len(set(edits)) == 1, "and each answer was the same"


def test_a_key_belongs_to_one_request(doors, served, port):
    token = doors.options()["token"]
    with urllib3.HTTPConnectionPool("127.0.0.1", port) as pool:

        def send(verb, path, body, key, owner=token):
            headers = {"Authorization": f"Bearer {owner}", "Idempotency-Key": key}
            reply = pool.request(
                verb, f"/v1/catalog{path}", body=json.dumps(body).encode(), headers=headers
            )
            return reply.status, json.loads(reply.data) if reply.data else None

        first = send("POST", "/tables/default/t", COLUMNS, "k")
        assert first[0] == 201
        assert send("POST", "/tables/default/t", COLUMNS, "k") == first
        for other in (
            ("POST", "/tables/default/t", {}), ("POST", "/tables/default/u", COLUMNS),
            ("POST", "/tables/default/t?action=Force", COLUMNS),
            ("PUT", "/tables/default/t", COLUMNS),
        ):  # fmt: skip
            status, content = send(*other, "k")
            assert (status, content["error"]["code"]) == (422, "PROJSEG_KEY_REUSED")
        doors.open(user="ada")
        ada = doors.tokens[doors.tenant, "ada"]
        status, content = send("POST", "/tables/default/t", COLUMNS, "k", ada)
        assert (status, content["error"]["code"]) == (409, "PROJSEG_TABLE_EXISTS"), "her own key"
        for bad in ("", "x" * 201, "a\tb"):
            assert send("POST", "/tables/default/v", {}, bad)[0] == 400
        # What was refused is not kept, and a token is never answered twice.
        assert send("PUT", "/tables/default/none", {}, "n")[0] == 404
        made = [send("POST", "/tokens", {"principal": "ada"}, "s")[1] for _ in range(2)]
        assert made[0]["token"] != made[1]["token"]
        with served.store.database.reading() as connection:
            rows = connection.exec_driver_sql("SELECT content FROM replies").all()
        assert made[0]["token"] not in str(rows)
        # After a day the key is forgotten.
        served.store.database.edit(
            lambda c: c.exec_driver_sql("UPDATE replies SET at_us = at_us - 86400000000"),
            lambda _: True,
        )
        assert send("POST", "/tables/default/t", COLUMNS, "k")[0] == 409


def test_what_did_not_change_is_not_sent_again(doors, client, wire):
    beside = doors.open()
    beside.create("t", COLUMNS)
    for _ in range(3):
        assert client.spec("t").to_dict()["columns"] == COLUMNS["columns"]
    assert [status for _, _, status in wire.seen] == [200, 304, 304]
    wire.seen.clear()
    beside.table("t").append(pa.table({"a": [1]}))  # which moves no version
    assert client.metadata("t").bindings == {"a": "a", "b": "b"}
    assert client.metadata("t").stored_schema == {"a": "bigint", "b": "string"}
    beside.merge("t", {"columns": [{"name": "c"}]})
    assert [c.name for c in client.spec("t").columns] == ["a", "b", "c"]
    assert [status for _, _, status in wire.seen] == [200, 304, 200]
    beside.drop("t")
    beside.create("t", {})
    assert client.spec("t").columns == ()


def test_a_list_goes_on_where_it_ended(doors, client, wire):
    for number in range(4):
        client.create(f"t{number}", COLUMNS)
    wire.seen.clear()
    key = ("default", "t2")
    assert [one.name for one in client.store.listed(page=1, after=key)] == ["t3"]
    assert [one.name for one in client.store.names("default", key, 9)] == ["t3"]
    assert len([path for _, path, _ in wire.seen if "/schemas/default/" in path]) == 2


def test_a_server_that_does_not_answer(doors, wire, port):
    options = {**doors.options(), "uri": wire.uri, "timeout": 1.0}
    catalog = projseg.Catalog(**options)
    catalog.create("t", COLUMNS)
    wire.plan[:] = ["cut"] * 1000
    with pytest.raises(CatalogStateUnknownError, match="PROJSEG_CATALOG_STATE_UNKNOWN"):
        catalog.merge("t", {"columns": [{"name": "c"}]})
    with pytest.raises(CatalogUnavailableError, match="PROJSEG_CATALOG_UNAVAILABLE") as caught:
        catalog.spec("t")
    assert options["token"] not in str(caught.value)
    wire.plan.clear()
    assert [c.name for c in catalog.spec("t").columns] == ["a", "b", "c"], "and done once"
    elsewhere = {"Location": f"http://127.0.0.1:{port}/v1/catalog/config"}
    for reply in (
        (200, b"<html>", {}), (502, b"<html>", {}), (404, b"<html>", {}), (302, b"", elsewhere),
        (200, b'{"definition": 3}', {}), (500, b'{"error": {"code": 1}}', {}),
    ):  # fmt: skip
        wire.plan[:] = [reply] * 1000
        with pytest.raises(CatalogUnavailableError, match="PROJSEG_CATALOG_UNAVAILABLE"):
            catalog.metadata("t")
        wire.plan.clear()
    catalog.close()
    nobody = projseg.Catalog("http://127.0.0.1:1", token="x", timeout=0.2)
    with pytest.raises(CatalogUnavailableError, match="does not answer"):
        nobody.create("t", {})


def test_replies_that_are_none_of_a_catalog_are_errors_of_ours(doors, wire):
    catalog = projseg.Catalog(**{**doors.options(), "uri": wire.uri, "timeout": 1.0})
    version = catalog.create("t", COLUMNS)
    staged = catalog.definitions.stage("u", COLUMNS)
    store, admin = catalog.store, catalog.admin
    asks = (
        lambda: catalog.metadata("t"), lambda: list(catalog.tables()), catalog.namespaces,
        lambda: catalog.changes(version), lambda: catalog.history("t"), catalog.trash, store.head,
        lambda: store.names("default", ("", ""), 9), lambda: catalog.create("v", COLUMNS),
        lambda: catalog.merge("t", {}), lambda: catalog.rename("t", "w"),
        lambda: catalog.create_namespace("s"), lambda: catalog.definitions.stage("x", COLUMNS),
        lambda: catalog.definitions.publish(staged.id, replace=False),
        lambda: store.begin_removal(staged.id), lambda: admin.create_token("root"),
        lambda: admin.grant("root", "READ", "x"), admin.principals, admin.tokens, admin.grants,
    )  # fmt: skip
    other = {"version": "x", "items": 1, "changes": {}, "schemas": 2, "head": None, "id": 3}
    for content in (b"<html>", b"", b"[]", b"{}", json.dumps(other).encode(), b"[" * 100_000):
        for number, ask in enumerate(asks):
            wire.plan[:] = [(200, content, {})] * 9
            with pytest.raises(CatalogUnavailableError, match="PROJSEG_CATALOG_UNAVAILABLE"):
                pytest.fail(f"{number}: {content[:50]} gave {ask()}")
    wire.plan.clear()
    catalog.close()


def test_addresses_and_tokens(doors, monkeypatch):
    for uri in ("http://example.com", "https://u:p@example.com", "https://", "https://h/?a=b"):
        with pytest.raises(InvalidInputError, match="PROJSEG_BAD_ARGUMENT") as caught:
            projseg.Catalog(uri, token="t0ken")
        assert "t0ken" not in str(caught.value)
    options = doors.options()
    monkeypatch.delenv("PROJSEG_CATALOG_TOKEN", raising=False)
    for token in (None, "", "a b", "a\r\nX: y", "ü"):
        with pytest.raises(InvalidInputError, match="token"):
            projseg.Catalog(options["uri"], token=token)
    monkeypatch.setenv("PROJSEG_CATALOG_TOKEN", options["token"])
    with projseg.Catalog(options["uri"]) as catalog:
        assert catalog.store.tenant == doors.tenant
        assert options["token"] not in repr(catalog)
        with pickle.loads(pickle.dumps(catalog)) as copy:
            assert copy.namespaces() == ["default"]
        for verb in (
            lambda: catalog.backup("x"), lambda: catalog.restore("x"), catalog.migrate,
            lambda: catalog.admin.tenants(), lambda: catalog.admin.create_tenant("x"),
        ):  # fmt: skip
            with pytest.raises(UnsupportedFeatureError, match="PROJSEG_UNSUPPORTED_STORAGE"):
                verb()
        from projseg.catalog.rest_server import application

        with pytest.raises(UnsupportedFeatureError, match="PROJSEG_UNSUPPORTED_STORAGE"):
            application(catalog)
    with pytest.raises(InvalidInputError, match="of tenant"):
        projseg.Catalog(options["uri"], tenant="another").namespaces()
    with pytest.raises(InvalidInputError, match="principal"):
        projseg.Catalog(options["uri"], user="ada")
    with pytest.raises(InvalidInputError, match="token is for a server"):
        projseg.Catalog("house.db", token="x")
    with pytest.raises(PermissionDeniedError, match="PROJSEG_BAD_TOKEN"):
        projseg.Catalog(options["uri"], token="a.b").namespaces()


def test_tables_are_written_read_and_removed(doors, tmp_path):
    catalog = doors.open()
    catalog.create("t", COLUMNS)
    place = catalog.metadata("t").location
    assert catalog.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 0}]
    catalog.table("t").append(pa.table({"a": [1, 2], "b": ["x", "y"]}))
    catalog.table("t").rename_column("b", "c")
    catalog.merge("t", {"columns": [{"name": "d", "sqlType": "date"}]})
    assert catalog.sql("SELECT c, d FROM t WHERE a = 2").to_pylist() == [{"c": "y", "d": None}]
    assert catalog.rebind("t") >= 0
    catalog.admin.create_principal("eve")
    grant = catalog.admin.grant("eve", "READ", r"default\.t")
    id_, token = catalog.admin.create_token("eve")
    with projseg.Catalog(doors.uri, token=token) as eve:
        assert eve.sql("SELECT sum(a) AS s FROM t").to_pylist() == [{"s": 3}]
        catalog.create("u", COLUMNS)
        projseg.Table(place).add_column("z", "int")
        assert eve.table("t").schema.names == ["a", "c", "d", "z"], "what she may not record"
        for refused in (lambda: eve.drop("t"), lambda: eve.create("x", {}),
                        lambda: eve.admin.tokens(), lambda: eve.create_namespace("n")):  # fmt: skip
            with pytest.raises(PermissionDeniedError, match="PROJSEG_PERMISSION_DENIED"):
                refused()
        assert not eve.exists("u")
        assert [str(one.full_name) for one in eve.tables()] == ["default.t"]
        assert catalog.admin.grants("eve")[0]["id"] == grant
        catalog.admin.revoke(grant)
        assert not eve.exists("t")
        assert [one["id"] for one in catalog.admin.tokens("eve")] == [id_]
        catalog.admin.revoke_token(id_)
        with pytest.raises(PermissionDeniedError):
            eve.exists("t")
    catalog.drop("t", data="now")
    with pytest.raises(InvalidInputError, match="PROJSEG_NOT_A_TABLE"):
        projseg.Table(place)
    assert catalog.trash().num_rows == 0
    assert catalog.gc(dry_run=False).num_rows == 0


def test_another_packages_store(doors, monkeypatch):
    """A package offers a store by the scheme of its addresses, and by no other."""
    from projseg.catalog.store import open_store

    class Entry:
        def load(self):
            def made(uri, tenant, user, token, timeout):
                asked.append((uri, tenant, user, token, timeout))
                return doors.open().store

            return made

    asked = []
    monkeypatch.setattr(
        open_store,
        "entry_points",
        lambda group, name: (
            [Entry()] if (group, name) == ("projseg.catalog_stores", "polaris") else []
        ),
    )
    with projseg.Catalog("polaris://there/x", token="secret") as catalog:
        assert catalog.create("t", COLUMNS) > 0
    assert asked == [("polaris://there/x", "default", None, "secret", 10)]
    with pytest.raises(UnsupportedFeatureError, match="PROJSEG_UNSUPPORTED_STORAGE"):
        projseg.Catalog("other://there")

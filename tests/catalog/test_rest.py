"""A catalog behind REST: a real server on loopback, three principals, two tenants."""

import contextlib
import datetime
import json
import re
import threading
import time
from pathlib import Path

import pytest
import urllib3

import projseg
from projseg.errors import InvalidInputError

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

SPEC = {"columns": [{"name": "a", "sqlType": "bigint"}, {"name": "b"}]}


DESCRIBED = json.loads((Path(__file__).parents[2] / "docs/catalog-rest.json").read_text())["paths"]


def check_described(verb, path, reply):
    """Each request of these tests is in the file for OpenAPI, with its parameters and status."""
    asked, _, query = path.partition("?")
    found = [
        verbs[verb.lower()]
        for template, verbs in DESCRIBED.items()
        if verb.lower() in verbs
        and re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), f"/v1/catalog{asked}")
    ]
    assert found, f"{verb} {path}"
    known = {one["name"] for operation in found for one in operation.get("parameters", ())}
    assert {one.partition("=")[0] for one in query.split("&") if one} <= known, path
    if reply.status < 400:
        assert any(str(reply.status) in operation["responses"] for operation in found), path


class Client:
    """Sends requests with a token."""

    def __init__(self, port, token):
        self.pool = urllib3.HTTPConnectionPool("127.0.0.1", port, maxsize=8)
        self.headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def __call__(self, verb, path, body=None, status=200, **more):
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        reply = self.pool.request(
            verb, f"/v1/catalog{path}", body=content, headers={**self.headers, **more},
            retries=False, redirect=False,
        )  # fmt: skip
        assert reply.status == status, reply.data
        check_described(verb, path, reply)
        self.reply = reply
        found = json.loads(reply.data) if reply.data else None
        return found["error"] if status >= 400 else found


@pytest.fixture
def client(served, port):
    """Makes clients of principals of new tenants."""
    with contextlib.ExitStack() as held:
        opened = {}

        def made(principal, *grants, tenant="t", admin=False):
            name = f"{tenant}{id(opened)}"
            own = projseg.Catalog(served.store.database.uri, tenant=name, warehouse="/w")
            held.callback(own.close)
            if name not in opened:
                own.admin.create_tenant(name, "/warehouse", ["/data/ours", "s3://bucket/ours"])
            opened[name] = own
            own.admin.create_principal(principal, admin)
            for grant in grants:
                own.admin.grant(principal, *grant)
            found = Client(port, own.admin.create_token(principal)[1])
            held.callback(found.pool.close)
            found.admin = own.admin
            return found

        yield made


@pytest.fixture
def root(client):
    return client("root", admin=True)


def test_definitions_are_made_read_edited_and_dropped(root):
    assert root("POST", "/tables/default/t", SPEC, 201)["version"] > 0
    assert root("POST", "/tables/default/t", SPEC, 409)["code"] == "PROJSEG_TABLE_EXISTS"
    same = root("POST", "/tables/default/T?action=IfNew", SPEC)
    assert same["version"] == 0
    assert root("GET", "/tables/default/t") == {"type": "table", "properties": {}, **SPEC}
    tag = root.reply.headers["ETag"]
    root("GET", "/tables/default/t/sync", None, 304, **{"If-None-Match": tag})
    first = root("PUT", "/tables/default/t", {"columns": [{"name": "c", "sqlType": "date"}]})
    assert f'"{first["version"]}"' > tag
    moved = root("POST", "/tables/default/t/moveColumn", {"column": "c", "where": "first"})
    root("POST", "/tables/default/t/dropColumn", ["B"])
    root("POST", "/tables/default/t/hideColumns", {"hide": ["x", "y"]})
    root("POST", "/tables/default/t/hideColumns", {"unhide": ["x"]})
    spec = root("GET", "/tables/default/t")
    assert [column["name"] for column in spec["columns"]] == ["c", "a"]
    assert spec["properties"]["hiddenColumns"] == ["y"]
    conflict = root("PUT", f"/tables/default/t?version={moved['version']}", {}, 409)
    assert (conflict["code"], conflict["status"]) == ("PROJSEG_CATALOG_CONFLICT", 409)
    assert conflict["version"] > moved["version"]
    found = root("GET", "/schemas/default/tables/t")
    assert found["id"] == {"schema": "default", "name": "t"}
    assert found["location"].startswith("/warehouse/")
    assert (found["owner"], found["managed"], found["state"]) == ("root", True, "ACTIVE")
    assert abs(found["creationTime"] / 1000 - time.time()) < 600
    root("POST", "/tables/rename", {"source": "t", "target": "u"})
    kinds = [row["kind"] for row in root("GET", "/tables/default/u/history")["changes"]]
    assert kinds[0] == "create"
    assert kinds[-1] == "rename"
    root("DELETE", "/tables/default/u", None, 204)
    root("DELETE", "/tables/default/u", None, 404)
    root("DELETE", "/tables/default/u?ifExists=true", None, 204)
    waiting = root("GET", "/trash")["items"]
    assert [one["name"] for one in waiting] == ["default.u"]
    root("POST", f"/trash/{waiting[0]['id']}/undrop")
    root("DELETE", "/tables/default/u?data=now", None, 202)
    root("POST", "/flush", None, 204)
    assert root("GET", "/config")["head"] > 0


def test_namespaces(root):
    root("POST", "/schemas/sales", {"comment": "ours"}, 201)
    root("POST", "/schemas/Sales", {}, 409)
    assert root("GET", "/list/schemas/names")["names"] == ["default", "sales"]
    assert root("GET", "/schemas/SALES")["comment"] == "ours"
    root("POST", "/tables/sales/t", SPEC, 201)
    assert root("GET", "/schemas/sales/names")["names"] == ["t"]
    assert root("GET", "/schemas/sales/tables")["tables"][0]["spec"]["columns"] == SPEC["columns"]
    refused = root("DELETE", "/schemas/sales", None, 409)
    assert "sales.t" not in refused["message"]
    root("DELETE", "/schemas/sales?cascade=true", None, 204)
    root("GET", "/schemas/sales/names", None, 404)


def test_pages_neither_skip_nor_repeat(root):
    names = [f"t{n:02}" for n in range(25)]
    for name in names:
        root("POST", f"/tables/default/{name}", SPEC, 201)
    found, token = [], ""
    while token is not None:
        page = root("GET", f"/list/tables/names?pageSize=7&pageToken={token}")
        found += page["names"]
        if len(found) == 7:  # what others make and drop meanwhile moves no page
            root("DELETE", "/tables/default/t03", None, 204)
            root("POST", "/tables/default/a", SPEC, 201)
        token = page["nextPageToken"]
    assert found == [f"default.{name}" for name in names]
    assert (
        root("GET", "/list/tables/names?pageToken=x", None, 400)["code"] == "PROJSEG_BAD_ARGUMENT"
    )


def test_bad_requests(root, port):
    root("POST", "/tables/default/t", SPEC, 201)
    bad = root("POST", "/tables/default/t", {"columns": [{"nam": "a"}]}, 400)
    assert "$.columns[0]" in bad["message"]
    root("POST", "/tables/default/t", b"\xff", 400)
    root("POST", "/tables/default/t", b"{", 400)
    root("POST", "/tables/default/t", b'{"columns": ' + b"[" * 2_000_000, 400)
    root("POST", "/tables/default/t", b" " * (4 << 20) + b"{}", 413)
    root("POST", "/tables/information_schema/t", SPEC, 400)
    root("POST", "/tables/default/%2e%2e", SPEC, 400)
    root("POST", "/tables/default/t?version=x", SPEC, 400)
    root("POST", "/tables/default/t?action=Maybe", SPEC, 400)
    root("POST", "/tables/default/t/moveColumn", [1], 400)
    root("POST", "/tables/default/t/dropColumn", {"a": 1}, 400)
    secret = {"properties": {"tableProperties": {"password": "x"}}}
    assert "secret" in root("POST", "/tables/default/t", secret, 400)["message"]
    for token in (None, "", "x", "x.y", f"{'0' * 32}.abc"):
        stranger = Client(port, token)
        assert stranger("GET", "/list/tables/names", None, 401)["code"] == "PROJSEG_BAD_TOKEN"
        assert stranger("GET", "/health") == {"status": "ok"}
        stranger.pool.close()


def test_what_would_be_read_otherwise_than_it_was_written_is_refused(root):
    root("POST", "/tables/default/t", SPEC, 201)
    for path, body in {
        "/tables/default/u": b'{"columns": [{"name": "a"}], "columns": [{"name": "b"}]}',
        "/tables/default/w": b'{"columns": [{"name": "a", "\\u006eame": "b"}]}',
        "/tables/default/t/hideColumns": b'{"hide": ["a"], "hide": ["b"]}',
        "/schemas/s": b'{"comment": "a", "comment": "b"}',
        "/tables/default/x/register": b'{"spec": {"type": "table", "type": "table"}}',
    }.items():
        found = root("POST", path, body, 400)
        assert found["code"] == "PROJSEG_BAD_ARGUMENT", path
        assert re.search(r"the field '(columns|name|hide|comment|type)' twice", found["message"])
    for comment, told in (("a\0b", "U+0000"), (5, "`str | null`")):
        assert told in root("POST", "/schemas/s", {"comment": comment}, 400)["message"]
    for at, body in {
        "$.columns[0].comment": {"columns": [{"name": "a", "comment": "x" * 3_000_000}]},
        "$.properties.description": {"properties": {"description": "x" * 8193}},
    }.items():
        for method, address in (("POST", "/tables/default/long"), ("PUT", "/tables/default/t")):
            found = root(method, address, body, 400)
            assert found["code"] == "PROJSEG_BAD_SPEC"
            assert found["message"].startswith(f"{at}: it has ")
    for text in ({"comment": "x" * 8193}, {"properties": {"k": "x" * 8193}}):
        found = root("POST", "/schemas/s", text, 400)
        assert "at most 8192 are kept" in found["message"]
    described = {"properties": {"description": "a\0b"}}
    assert "U+0000" in root("PUT", "/tables/default/t", described, 400)["message"]
    assert root("GET", "/list/tables/names")["names"] == ["default.t"]
    assert root("GET", "/list/schemas/names")["names"] == ["default"]
    for address in ("/list/tables/names", "/schemas/default/tables", "/information_schema/tables"):
        refused = root("GET", f"{address}?pageSize=0", None, 400)
        assert (refused["code"], "pageSize" in refused["message"]) == ("PROJSEG_BAD_ARGUMENT", True)
    assert len(root("GET", "/list/tables/names?pageSize=1")["names"]) == 1


def test_registered_locations_lie_below_a_root(root):
    for location in ("/data/ours/t", "s3://bucket/ours/x/y", "file:///data/ours/u"):
        name = "r" + str(len(location))
        root("POST", f"/tables/default/{name}/register", {"location": location}, 201)
    for location in (
        "/data/ours-too/t", "/data/ours/../theirs", "/data", "s3://bucket/ours/../x", "s3://other/ours",
        "/data/ours/%2e%2e/x", "relative", "s3://bucket@evil/ours/x", "http://bucket/ours/x",
        "/data/ours/a?b", "/data/ours/a\n", "s3://bucket/ours-too",
    ):  # fmt: skip
        body = {"location": location}
        refused = root("POST", "/tables/default/bad/register", body, 400)
        assert refused["code"] == "PROJSEG_OUTSIDE_ROOTS", location
    assert root("GET", "/tables/default/bad", None, 404)


def test_a_root_that_is_taken_back_binds_what_was_registered(client, port):
    root = client("root", admin=True)
    root("POST", "/tables/default/r/register", {"location": "/data/ours/r", "spec": SPEC}, 201)
    root("DELETE", "/tables/default/r", None, 204)
    dropped = root("GET", "/trash")["items"][0]["id"]
    root("POST", f"/trash/{dropped}/undrop")
    root.admin.create_tenant(root("GET", "/config")["tenant"], "/warehouse", ["/data/other"])
    for verb, path, body in [
        ("PUT", "/tables/default/r", {"columns": [{"name": "z"}]}),
        ("POST", "/tables/default/r?action=replace", {}),
        ("POST", "/tables/default/r/dropColumn", ["a"]),
        ("POST", "/tables/rename", {"source": "r", "target": "s"}),
    ]:
        assert root(verb, path, body, 400)["code"] == "PROJSEG_OUTSIDE_ROOTS", path
    token = root.headers["Authorization"].removeprefix("Bearer ")
    with projseg.Catalog(f"http://127.0.0.1:{port}", token=token) as library:
        assert library.metadata("r").location == "/data/ours/r"
        with pytest.raises(InvalidInputError, match="PROJSEG_OUTSIDE_ROOTS"):
            library.table("r")
    root("DELETE", "/tables/default/r", None, 204)
    root("POST", f"/trash/{dropped}/undrop", None, 400)


def test_a_feed_says_when_definitions_are_to_be_listed_anew(client):
    root = client("root", admin=True)
    root("POST", "/tables/default/t", SPEC, 201)
    found = root("GET", "/changes")
    assert found["epoch"] == root("GET", "/config")["epoch"]
    assert found["changes"][-1]["version"] == found["head"]
    later = root("GET", f"/changes?since={found['head'] + 1}", None, 410)
    assert later["code"] == "PROJSEG_UNKNOWN_VERSION", "a restored catalog's head is smaller"
    secret = client("ada", ("READ", r"default\.open"))
    root("POST", "/tables/rename", {"source": "t", "target": "open"})
    kinds = [row["kind"] for row in secret("GET", "/tables/default/open/history")["changes"]]
    assert kinds == ["rename"], "not what it was by a name that may not be read"


def test_grants_decide(client):
    root = client("root", admin=True)
    ada = client("ada", ("WRITE", r"scratch\.ada_.*"), ("READ", r"sales\..*"))
    bob = client("bob", ("WRITE", ".*"), ("EXTERNAL", ".*", "inline"))
    for schema in ("scratch", "sales", "hr"):
        root("POST", f"/schemas/{schema}", {}, 201)
    for name in ("sales/t", "hr/pay"):
        root("POST", f"/tables/{name}", SPEC, 201)
    ada("POST", "/tables/scratch/ada_1", SPEC, 201)
    assert ada("GET", "/list/tables/names")["names"] == ["sales.t", "scratch.ada_1"]
    assert ada("GET", "/tables/sales/t")["columns"] == SPEC["columns"]
    missing = ada("GET", "/tables/hr/none", None, 404)
    hidden = ada("GET", "/tables/hr/pay", None, 404)
    assert hidden["message"].replace("pay", "none") == missing["message"]
    assert ada("GET", "/schemas/hr/tables")["tables"] == []
    for verb, path, body in [
        ("POST", "/tables/hr/pay", SPEC), ("POST", "/tables/hr/none", SPEC),
        ("PUT", "/tables/sales/t", {}),
        ("DELETE", "/tables/hr/pay", None), ("DELETE", "/tables/hr/none?ifExists=true", None),
        ("POST", "/tables/hr/pay/dropColumn", ["a"]), ("POST", "/tables/hr/none/dropColumn", ["a"]),
        ("POST", "/tables/scratch/bob_1", SPEC), ("POST", "/schemas/x", {}),
        ("DELETE", "/schemas/scratch", None), ("POST", "/principals", {"name": "eve"}),
        ("GET", "/tokens", None), ("POST", "/grants", {"principal": "ada", "action": "ADMIN"}),
        ("POST", "/tables/rename", {"source": "scratch.ada_1", "target": "hr.ada_1"}),
        ("POST", "/tables/rename", {"source": "hr.pay", "target": "scratch.ada_2"}),
    ]:  # fmt: skip
        assert ada(verb, path, body, 403)["code"] == "PROJSEG_PERMISSION_DENIED", path
    inline = {"type": "inline", "properties": {"format": "json", "data": "{}"}}
    files = {"type": "files", "properties": {"format": "json", "baseDir": "/"}}
    bob("POST", "/tables/default/i", inline, 201)
    bob("POST", "/tables/default/f", files, 403)
    root("POST", "/tables/default/f", files, 201)
    bob("PUT", "/tables/default/f", {"properties": {"baseDir": "/etc"}}, 403)
    names = {row["name"] for row in ada("GET", "/changes")["changes"]}
    assert names == {"scratch", "sales", "hr", "sales.t", "scratch.ada_1"}
    rows = ada("GET", "/information_schema/columns")["rows"]
    assert {(row["table_name"], row["column_name"]) for row in rows} == {
        (table, column) for table in ("t", "ada_1") for column in ("a", "b")
    }
    assert {row["schema_name"] for row in ada("GET", "/information_schema/schemata")["rows"]} == {
        "default", "hr", "sales", "scratch",
    }  # fmt: skip
    ada("GET", "/information_schema/pay", None, 404)
    # A changed grant makes its principal list anew.
    head = ada("GET", "/config")["head"]
    assert ada("GET", f"/changes?since={head}")["changes"] == []
    granted = root.admin.grant("ada", "READ", r"hr\..*")
    assert ada("GET", f"/changes?since={head}", None, 410)["code"] == "PROJSEG_UNKNOWN_VERSION"
    assert "hr.pay" in ada("GET", "/list/tables/names")["names"]
    root("DELETE", f"/grants/{granted}", None, 204)
    assert "hr.pay" not in ada("GET", "/list/tables/names")["names"]
    root("DELETE", "/tables/hr/pay", None, 204)
    assert ada("GET", "/trash")["items"] == []
    waiting = root("GET", "/trash")["items"][0]["id"]
    ada("POST", f"/trash/{waiting}/undrop", None, 404)


def test_two_tenants_see_nothing_of_each_other(client):
    one, other = client("root", admin=True), client("root", tenant="o", admin=True)
    one("POST", "/tables/default/t", SPEC, 201)
    one("POST", "/schemas/only", {}, 201)
    other("GET", "/tables/default/t", None, 404)
    assert "did you mean" not in other("DELETE", "/tables/default/tt", None, 404)["message"]
    assert other("GET", "/list/tables/names")["names"] == []
    assert other("GET", "/list/schemas/names")["names"] == ["default"]
    assert all(row["name"] != "default.t" for row in other("GET", "/changes")["changes"])
    other("POST", "/tables/default/t", {"columns": [{"name": "z"}]}, 201)
    assert one("GET", "/tables/default/t")["columns"] == SPEC["columns"]
    one("DELETE", "/tables/default/t", None, 204)
    id_ = one("GET", "/trash")["items"][0]["id"]
    other("POST", f"/trash/{id_}/undrop", None, 404)
    own = one("GET", "/tokens")["items"][0]["id"]
    other("DELETE", f"/tokens/{own}", None, 204)  # of its own tenant there is none
    assert one("GET", "/config")["principal"] == "root"


def test_tokens_expire_and_are_revoked(root, port):
    made = root("POST", "/principals", {"name": "ada"}, 201)
    assert made == {"name": "ada"}
    assert root("POST", "/principals", {"name": "ada"}, 409)["code"] == "PROJSEG_PRINCIPAL_EXISTS"
    token = root("POST", "/tokens", {"principal": "ada"}, 201)
    ada = Client(port, token["token"])
    ada("GET", "/config")
    listed = root("GET", "/tokens?principal=ada")["items"]
    assert [one["id"] for one in listed] == [token["id"]]
    assert token["token"] not in json.dumps(listed)
    assert "digest" not in listed[0]
    root("DELETE", f"/tokens/{token['id']}", None, 204)
    ada("GET", "/config", None, 401)
    old = root("POST", "/tokens", {"principal": "ada", "expires": 1}, 201)
    ada.headers = {"Authorization": f"Bearer {old['token']}"}
    ada("GET", "/config", None, 401)
    root("DELETE", "/principals/ada", None, 204)
    root("POST", "/tokens", {"principal": "ada"}, 404)
    grant = {"principal": "root", "action": "READ", "pattern": "("}
    root("POST", "/grants", grant, 400)
    ada.pool.close()


def test_sixteen_clients_at_once_lose_no_edit(root, port):
    root("POST", "/tables/default/t", {}, 201)
    errors = []

    def edit(number):
        own = Client(port, root.headers["Authorization"].removeprefix("Bearer "))
        try:
            for place in range(4):
                own("PUT", "/tables/default/t", {"columns": [{"name": f"c{number}_{place}"}]})
        except AssertionError as error:
            errors.append(error)
        own.pool.close()

    threads = [threading.Thread(target=edit, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(root("GET", "/tables/default/t")["columns"]) == 64


def test_the_library_admin(tmp_path):
    with projseg.Catalog(tmp_path / "house.db") as catalog:
        catalog.admin.create_principal("ada", admin=True)
        soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
        id_, token = catalog.admin.create_token("ada", soon)
        assert token.startswith(id_)
        assert len(token) == 32 + 1 + 43
        assert token.partition(".")[2] not in (tmp_path / "house.db").read_bytes().decode("latin-1")
        assert [one["id"] for one in catalog.admin.tokens("ada")] == [id_]
        grant = catalog.admin.grant("ada", "EXTERNAL", ".*", "files")
        assert catalog.admin.grants()[0]["external_type"] == "files"
        catalog.admin.revoke(grant)
        catalog.admin.revoke_token(id_)
        assert catalog.admin.grants() == catalog.admin.tokens() == []
        for bad in (("ada", "LOOK", "."), ("ada", "READ", "("), ("ada", "READ", ".", "files"),
                    ("ada", "READ", "a" * 501), ("eve", "READ", ".")):  # fmt: skip
            with pytest.raises(InvalidInputError):
                catalog.admin.grant(*bad)
        with pytest.raises(InvalidInputError, match="time zone"):
            catalog.admin.create_token("ada", datetime.datetime(2030, 1, 1))
        catalog.admin.drop_principal("ada")
        assert catalog.admin.principals() == []
        assert [one["tenant"] for one in catalog.admin.tenants()] == ["default"]


def test_another_host_needs_tls(tmp_path):
    from projseg.catalog.rest_server import serve

    catalog = projseg.Catalog(tmp_path / "house.db")
    with pytest.raises(InvalidInputError, match="insecure"):
        serve(catalog, "0.0.0.0")


def test_names_with_dots_are_in_the_feeds(client):
    root, ada = client("root", admin=True), client("ada", ("READ", r"default\.a\..*"))
    for name in ("a.b", "c.d"):
        root("POST", f"/tables/default/{name}", SPEC, 201)
        root("PUT", f"/tables/default/{name}", {"properties": {"sealed": True}})
    changed = [row["name"] for row in root("GET", "/changes")["changes"]]
    assert changed == ["default.a.b", "default.a.b", "default.c.d", "default.c.d"]
    assert {row["name"] for row in ada("GET", "/changes")["changes"]} == {"default.a.b"}
    assert len(ada("GET", "/tables/default/a.b/history")["changes"]) == 2


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [("GET", "/nope", 404), ("PATCH", "/tables/default/t", 405), ("GET", "/tables/a%2Fb/t", 404)],
)
def test_unknown_requests_are_errors_of_the_documented_form(port, verb, path, status):
    reply = urllib3.request(verb, f"http://127.0.0.1:{port}/v1/catalog{path}")
    found = json.loads(reply.data)["error"]
    assert (reply.status, found["status"], found["code"]) == (
        status,
        status,
        "PROJSEG_BAD_ARGUMENT",
    )
    assert f"{verb} /v1/catalog" in found["message"]

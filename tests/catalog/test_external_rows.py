"""Rows of external definitions: formats, templates, types, and places that may be read."""

import datetime
import gzip
import json
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import tries

import projseg
from projseg.errors import EvaluationError, InvalidInputError, ProjsegError

pytest.importorskip("sqlalchemy")

COLUMNS = [
    {"name": "time", "sqlType": "timestamp"},
    {"name": "channel", "sqlType": "string"},
    {"name": "added", "sqlType": "bigint"},
]
DAY = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "06-01.csv").write_text("2024-05-01 00:00:00,#en,1\n2024-05-01 01:00:00,,\n")
    (folder / "06-02.csv").write_text("2024-05-02 00:00:00,#de,3\n")
    return folder


@pytest.fixture
def open_house(tmp_path, files):
    opened = []

    def client(**options):
        options = {"external_roots": [files], **options}
        opened.append(projseg.Catalog(tmp_path / "house.db", **options))
        return opened[-1]

    yield client
    for one in opened:
        one.close()


@pytest.fixture
def catalog(open_house, files):
    made = open_house()
    made.create_namespace("input")
    made.create(
        "input.wiki",
        {
            "type": "files",
            "properties": {"baseDir": str(files), "format": "csv"},
            "columns": COLUMNS,
        },
    )
    return made


def refused(code, action):
    with pytest.raises(ProjsegError) as raised:
        action().read_all()
    assert raised.value.code == code, raised.value
    return raised.value.message


def values(rows, name):
    return rows.read_all()[name].to_pylist()


def test_a_template_is_read_with_other_files_each_time(catalog):
    first = catalog.read("input.wiki", files=["06-01.csv"]).read_all()
    assert first.schema.types == [pa.timestamp("us", "UTC"), pa.string(), pa.int64()]
    assert first["added"].to_pylist() == [1, None]
    assert first["channel"].to_pylist() == ["#en", None]
    assert catalog.read("input.wiki", files="06-02.csv, 06-01.csv").read_all()[
        "added"
    ].to_pylist() == [
        3,
        1,
        None,
    ]
    assert catalog.read("input.wiki", filePattern="*-0?.csv").read_all().num_rows == 3


def test_the_chain_of_the_seed(catalog):
    """Define, select nothing, add a column, insert twice from a template; no layout is said."""
    catalog.create(
        "edits",
        {
            "properties": {
                "timeColumn": "time",
                "segmentGranularity": "P1D",
                "targetSegmentRows": 100,
                "clusterKeys": [{"column": "channel"}],
            },
            "columns": COLUMNS,
        },
    )
    empty = catalog.sql("SELECT * FROM edits")
    assert (empty.num_rows, empty.schema.types[0]) == (0, pa.timestamp("us", "UTC"))
    catalog.merge("edits", {"columns": [{"name": "city", "sqlType": "string"}]})
    for file in ("06-01.csv", "06-02.csv"):
        catalog.table("edits").append(catalog.read("input.wiki", files=[file]))
    table = catalog.table("edits")
    assert sorted(table.query()["added"].to_pylist(), key=str) == [1, 3, None]
    assert table.query()["city"].null_count == 3
    assert len(table.segments()) == 2
    assert table.properties.segment_granularity == "P1D"
    assert table.properties.cluster_by == ("channel",)
    assert table.properties.target_segment_rows == 100


def test_parameters_are_refused(catalog):
    said = refused("PROJSEG_MISSING_PARAMETER", lambda: catalog.read("input.wiki"))
    assert "files or filePattern" in said
    for given_ones in ({"baseDir": "/"}, {"format": "json"}, {"file": "a"}, {"schema": "a INT"}):
        refused("PROJSEG_UNKNOWN_PARAMETER", lambda g=given_ones: catalog.read("input.wiki", **g))
    both = {"files": ["06-01.csv"], "filePattern": "*"}
    refused("PROJSEG_BAD_SPEC", lambda: catalog.read("input.wiki", **both))
    catalog.create("t", {})
    refused("PROJSEG_UNKNOWN_PARAMETER", lambda: catalog.read("t", files=["a"]))
    catalog.create("s", {"type": "spark", "properties": {"format": "orc"}})
    refused("PROJSEG_UNSUPPORTED_FEATURE", lambda: catalog.read("s"))


def test_a_connection_takes_format_and_columns(catalog, files):
    catalog.create("input.any", {"type": "files", "properties": {"baseDir": str(files)}})
    read = catalog.read(
        "input.any", files=["06-02.csv"], format="csv", schema="t STRING, c STRING, n INT"
    )
    assert read.read_all().to_pylist() == [{"t": "2024-05-02 00:00:00", "c": "#de", "n": 3}]
    refused("PROJSEG_MISSING_PARAMETER", lambda: catalog.read("input.any", files=["06-02.csv"]))


def test_inline_data_without_a_definition(catalog):
    found = catalog.external(
        source="inline", data="a,b,1\nc,d,2", format="csv", schema="x STRING, y STRING, z BIGINT"
    ).read_all()
    assert found.to_pylist() == [{"x": "a", "y": "b", "z": 1}, {"x": "c", "y": "d", "z": 2}]
    refused("PROJSEG_UNKNOWN_PARAMETER", lambda: catalog.external(source="inline", dta="a"))
    refused("PROJSEG_MISSING_PARAMETER", lambda: catalog.external(data="a"))
    refused("PROJSEG_MISSING_PARAMETER", lambda: catalog.external(source="files", baseDir="/x"))


@pytest.mark.parametrize(
    ("line", "kind"),
    [("7", "a number"), ("-0", "a number"), ("1.5", "a number"), ("[1]", "an array"),
     ('"a"', "a text"), ("true", "true or false"), ("null", "null")],
)  # fmt: skip
def test_a_line_of_json_that_is_no_object_says_what_it_is(catalog, line, kind):
    for number, text in (
        (2, f'{{"n":1}}\n{line}'),
        (1, f'{line}\n{{"n":1}}'),
        (1, line),
        (3, f'{{"n":null}}\n{{"n":1}}\n {line}\n{{"n":1}}'),
    ):
        if number == 1 and line.startswith("["):
            continue  # a file that is an array
        for schema in ("n INT", "n STRING", "n STRUCT<a: INT>"):
            data = text.replace('"n":1', '"n":null') if "<" in schema else text
            given = {"source": "inline", "data": data, "format": "json", "schema": schema}
            said = refused("PROJSEG_BAD_INPUT_FILE", lambda given=given: catalog.external(**given))
            assert f"line {number}: it is {kind}, and no object" in said


def test_a_text_of_json_may_look_like_a_line_that_is_null(catalog):
    data = '{"t":"} null"}\n{"t":null}'
    read = catalog.external(source="inline", data=data, format="json", schema="t STRING")
    assert values(read, "t") == ["} null", None]


def test_formats(catalog, files):
    def read(name, text, schema=None, **properties):
        (files / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        more = {} if schema is None else {"schema": schema}
        given_ones = {"baseDir": str(files), "files": [name], **properties, **more}
        return catalog.external(source="files", **given_ones).read_all()

    lines = "x\ty\n1\ta\x01b\n\t\n"
    found = read("a.tsv", lines, "X INT, y ARRAY<STRING>", format="tsv", header=True)
    assert found.to_pylist() == [{"X": 1, "y": ["a", "b"]}, {"X": None, "y": None}]
    found = read("b.csv", "junk\n\nx;y\n-;2\n", format="csv", header=True, skipRows=2,
                 delimiter=";", nullValue="-")  # fmt: skip
    assert found.to_pylist() == [{"x": None, "y": 2}]
    rows = [{"a": 1, "b": "x", "n": None}, {"a": 2, "c": True, "n": None}]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    assert read("c.json", text, format="json").schema.names == ["a", "b", "c"]
    assert read("c.json", text, format="json", keepNulls=True).schema.names == ["a", "b", "n", "c"]
    found = read("c.json", text, "n DOUBLE, a STRING, z DATE", format="json")
    assert found.to_pylist() == [{"n": None, "a": "1", "z": None}, {"n": None, "a": "2", "z": None}]
    assert read("d.csv.gz", gzip.compress(b"1\n2\n"), "a BIGINT", format="csv")[
        "a"
    ].to_pylist() == [1, 2]
    pyarrow.parquet.write_table(pa.table({"a": [1, 2], "d": [DAY, None]}), files / "e.parquet")
    found = catalog.external(
        source="files",
        baseDir=str(files),
        filePattern="e.*",
        format="parquet",
        schema="D DATE, A STRING",
    ).read_all()
    assert found.to_pylist() == [{"D": DAY.date(), "A": "1"}, {"D": None, "A": "2"}]


def test_times_are_of_the_session_and_values_are_cast_as_spark_casts_them(catalog):
    text = {
        "source": "inline",
        "format": "csv",
        "data": "2024-03-31 02:30:00",
        "schema": "t TIMESTAMP",
    }
    found = catalog.external(timezone="Europe/Berlin", **text).read_all()["t"].to_pylist()
    assert found == [datetime.datetime(2024, 3, 31, 1, 30, tzinfo=datetime.UTC)]
    bad = {**text, "data": "1\n2\nx\n4", "schema": "t BIGINT"}
    with pytest.raises(EvaluationError, match="line 3, column 't'"):
        catalog.external(**bad).read_all()
    assert catalog.external(**bad, onError="null").read_all()["t"].to_pylist() == [1, 2, None, 4]
    broken = {**text, "data": "1,2\n3\n", "schema": "a INT, b INT"}
    assert "line 2" in refused("PROJSEG_BAD_INPUT_FILE", lambda: catalog.external(**broken))


@settings(max_examples=tries(40), deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.text("ab,\"'x \t", min_size=1, max_size=5),
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.floats(width=64),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_what_csv_writes_is_read(rows):
    import csv
    import io

    written = io.StringIO()
    csv.writer(written, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(
        [("" if v is None else repr(v) if isinstance(v, float) else v for v in row) for row in rows]
    )
    from projseg.catalog.external.allowed_places import AllowedPlaces
    from projseg.catalog.external.source_parameters import given_spec
    from projseg.catalog.external.source_reader import read_source

    spec = given_spec(
        {
            "source": "inline",
            "format": "csv",
            "data": written.getvalue(),
            "schema": "a STRING, b BIGINT, c DOUBLE",
        }
    )
    found = read_source(spec, AllowedPlaces()).read_all()
    assert [tuple(map(repr, row.values())) for row in found.to_pylist()] == [
        tuple(map(repr, row)) for row in rows
    ]


def test_no_file_outside_the_roots(open_house, catalog, files, tmp_path):
    outside = tmp_path / "secret.csv"
    outside.write_text("1\n")
    (files / "link.csv").symlink_to(outside)
    (files / "linked").symlink_to(tmp_path)
    sibling = tmp_path / "in-other"
    sibling.mkdir()
    (sibling / "x.csv").write_text("1\n")

    def read(**given_ones):
        parameters = {"baseDir": str(files), "format": "csv", "schema": "a STRING", **given_ones}
        return catalog.external(source="files", **parameters)

    for base, name in [
        (tmp_path, "secret.csv"), (sibling, "x.csv"), ("/", "etc/passwd"), (files, "link.csv"),
        (files, "linked/secret.csv"), (f"{files}/../in-other", "x.csv"), ("in", "06-01.csv"),
        (f"file://{files}", "06-01.csv"), (f"{files}/linked", "secret.csv"),
    ]:  # fmt: skip
        refused("PROJSEG_OUTSIDE_ROOTS", lambda b=base, n=name: read(baseDir=str(b), files=[n]))
    refused("PROJSEG_OUTSIDE_ROOTS", lambda: read(filePattern="link*"))
    refused("PROJSEG_OUTSIDE_ROOTS", lambda: read(filePattern="linked/*.csv"))
    for name in ("../secret.csv", "/etc/passwd", "a/../../secret.csv", "file:x", "..\\secret.csv"):
        refused("PROJSEG_BAD_SPEC", lambda n=name: read(files=[n]))
        refused("PROJSEG_BAD_SPEC", lambda n=name: read(filePattern=n))
    refused("PROJSEG_BAD_INPUT_FILE", lambda: read(files=["%2e%2e/secret.csv"]))
    closed = open_house(external_roots=())
    assert "none are set" in refused(
        "PROJSEG_OUTSIDE_ROOTS", lambda: closed.read("input.wiki", files=["06-01.csv"])
    )


def test_roots_may_come_from_the_environment(open_house, catalog, files, monkeypatch):
    monkeypatch.setenv("PROJSEG_EXTERNAL_ROOTS", os.pathsep.join(["/nowhere", str(files)]))
    assert (
        open_house(external_roots=()).read("input.wiki", files="06-02.csv").read_all().num_rows == 1
    )


class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers)))
        if self.path.startswith("/moved"):
            self.send_response(302)
            self.send_header("Location", "/a.csv")
            self.end_headers()
            return
        content = self.server.files.get(self.path)
        self.send_response(200 if content else 404)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_):
        pass


@pytest.fixture
def web():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.files = {"/a.csv": b"1,x\n2,y\n", "/b.csv?v=1": b"3,z\n"}
    server.seen = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def place(web):
    return f"http://127.0.0.1:{web.server_address[1]}"


def test_files_of_a_web_server(open_house, catalog, web, place, monkeypatch):
    monkeypatch.setenv("WIKI_PASSWORD", "pass:word")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    catalog.create(
        "input.web",
        {
            "type": "http",
            "properties": {
                "format": "csv", "uriTemplate": place + "/{}", "userName": "ada",
                "passwordEnvVar": "WIKI_PASSWORD", "headers": {"X-Ask": "1"},
            },
            "columns": [{"name": "n", "sqlType": "int"}, {"name": "t", "sqlType": "string"}],
        },
    )  # fmt: skip
    reader = open_house(external_hosts=[place])
    found = reader.read("input.web", uris="a.csv,b.csv?v=1").read_all()
    assert found["n"].to_pylist() == [1, 2, 3]
    path, headers = web.seen[0]
    assert (path, headers["X-Ask"]) == ("/a.csv", "1")
    assert headers["authorization"] == "Basic YWRhOnBhc3M6d29yZA=="
    refused("PROJSEG_MISSING_PARAMETER", lambda: reader.read("input.web"))
    assert "404" in refused(
        "PROJSEG_BAD_INPUT_FILE", lambda: reader.read("input.web", uris="c.csv")
    )
    redirected = refused("PROJSEG_HOST_NOT_ALLOWED", lambda: reader.read("input.web", uris="moved"))
    assert "redirect" in redirected
    monkeypatch.delenv("WIKI_PASSWORD")
    refused("PROJSEG_MISSING_PARAMETER", lambda: reader.read("input.web", uris="a.csv"))
    refused("PROJSEG_HOST_NOT_ALLOWED", lambda: catalog.read("input.web", uris="a.csv"))


WRAPPED = {
    "translated.example": "64:ff9b::a9fe:a9fe", "six.example": "2002:7f00:1::",
    "old.example": "::127.0.0.1", "site.example": "fec0::1", "own.example": "64:ff9b:1::a9fe:a9fe",
    "cloud.example": "192.0.0.192",
}  # fmt: skip
"""Names of addresses that end on this machine or in a cloud, written as others."""


def test_no_request_to_where_it_was_not_allowed(open_house, catalog, web, place, monkeypatch):
    port = web.server_address[1]
    looked_up = []
    real = socket.getaddrinfo

    def lookup(host, *more, **named):
        looked_up.append(host)
        fake = {"inside.example": "127.0.0.1", "meta.example": "169.254.169.254",
                "mapped.example": "::ffff:10.0.0.1", **WRAPPED}.get(host)  # fmt: skip
        if fake:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (fake, port))]
        return real(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    hosts = [f"http://{name}.example:{port}" for name in ("inside", "meta", "mapped")]
    hosts += [f"http://{name}:{port}" for name in WRAPPED]
    reader = open_house(external_hosts=[*hosts, "http://localhost", place, "safe.example"])

    def read(uri):
        return reader.external(source="http", uris=[uri], format="csv", schema="a INT, b STRING")

    assert read(f"{place}/a.csv").read_all().num_rows == 2
    before = len(web.seen)
    for uri in (
        *(f"{host}/a.csv" for host in hosts), f"http://localhost:{port}/a.csv", "file:///etc/passwd",
        f"http://2130706433:{port}/a.csv",
        "http://safe.example/a", "https://safe.example:8443/a", f"http://127.1:{port}/a.csv",
        f"http://[::1]:{port}/a.csv", "https://",
        "a.csv",
        "gopher://safe.example/", "http://[/",
    ):  # fmt: skip
        refused("PROJSEG_HOST_NOT_ALLOWED", lambda u=uri: read(u))
    for uri in (
        f"http://safe.example@127.0.0.1:{port}/a.csv", f"http://127.0.0.1:{port}\\@safe.example/",
        f"HTTP://user:pass@127.0.0.1:{port}/a.csv", f"http://127.0.0.1:{port}/a.csv\r\nX-Evil: 1",
    ):  # fmt: skip
        refused("PROJSEG_BAD_SPEC", lambda u=uri: read(u))  # specs are listed, users' names too
    assert len(web.seen) == before


def test_a_name_is_looked_up_once(open_house, catalog, web, place, monkeypatch):
    """A name that means another address at the second look-up is never looked up again."""
    from projseg.catalog.external.allowed_places import AllowedPlaces

    port = web.server_address[1]
    answers = iter(["93.184.216.34", "127.0.0.1"])

    def lookup(host, *_, **__):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    address = AllowedPlaces(hosts=("http://x.example",)).address("http://x.example/a?b=1")
    assert (address.ip, address.target) == ("93.184.216.34", "/a?b=1")


def test_a_server_may_not_send_without_end(web, place, monkeypatch):
    from projseg.catalog.external import allowed_places
    from projseg.catalog.external.allowed_places import AllowedPlaces

    monkeypatch.setattr(allowed_places, "FETCH_BYTES_MAX", 4)
    url = f"{place}/a.csv"
    address = AllowedPlaces(hosts=(place,)).address(url)
    with (
        pytest.raises(InvalidInputError, match="4 bytes"),
        allowed_places.fetched(url, address, {}, None),
    ):
        pass


def test_the_shell_reads_a_template(catalog, files, monkeypatch, capsys, tmp_path):
    from projseg.cli import app

    words = ["catalog", "read", "input.wiki", "--uri", str(tmp_path / "house.db")]
    words += ["--external-root", str(files), "--param", "files=06-01.csv,06-02.csv", "-n", "2"]
    app(words, standalone_mode=False)
    assert [json.loads(line)["added"] for line in capsys.readouterr().out.splitlines()] == [1, None]

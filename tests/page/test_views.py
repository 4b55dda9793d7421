"""What the page shows is what the table says, as HTML and as JSON."""

from __future__ import annotations

import itertools
import random
import re
import threading
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paged_tables import HOST, HOSTILE, TOKEN, hours
from scale import tries
from starlette.testclient import TestClient

import projseg
from projseg.catalog.places import Places
from projseg.page.application import PageSettings, application


def test_tables_are_listed_with_those_that_cannot_be_opened(client, folder):
    found = client.get("/index.json").json()
    by_name = {one["name"]: one for one in found["tables"]}
    assert {*by_name} == {"edits", "empty", "geo.places", "broken", HOSTILE}
    assert by_name["broken"]["code"].startswith("PROJSEG_CORRUPT")
    table = projseg.Table(folder / "edits")
    edits = by_name["edits"]
    assert (edits["rows"], edits["segments"]) == (table.snapshot.row_count, len(table.segments()))
    stored = sum(table.projection_stats()["bytes"].to_pylist())
    assert edits["projection_share"] == pytest.approx(stored / edits["bytes"])
    assert "PROJSEG_CORRUPT" in client.get("/").text
    searched = client.get("/index.json?search=PLAC").json()
    assert [one["name"] for one in searched["tables"]] == ["geo.places"]
    assert "no table" in client.get("/?search=nothing").text


def test_a_table_that_is_not_there_is_404_and_a_damaged_one_has_its_code(client):
    assert client.get("/t/none").status_code == 404
    assert client.get("/t/none.json").json()["error"]["code"] == "PROJSEG_UNKNOWN_TABLE"
    assert client.get("/t/edits?version=99").status_code == 404
    assert "PROJSEG_CORRUPT" in client.get("/t/broken").text
    assert client.get("/t/edits/nothing").status_code == 404


def test_warnings_name_what_is_half_right_and_the_command(client):
    found = client.get("/t/edits.json").json()["warnings"]
    commands = {one["command"].split()[1]: one["text"] for one in found}
    assert {"materialize-projection", "materialize-index", "refresh-view"} <= {*commands}
    assert any("failed" in one["text"] for one in found)
    assert client.get("/t/empty.json").json()["warnings"] == []
    assert "import" in client.get("/t/empty").text


def test_projections_are_those_of_the_table(client, folder):
    table = projseg.Table(folder / "edits")
    found = client.get("/t/edits/projections.json").json()
    for shown, row in zip(found["projections"], table.projection_stats().to_pylist(), strict=True):
        for name in ("projection", "built", "missing", "skipped", "failed", "rows", "bytes"):
            assert shown[name] == row[name]
        assert shown["reasons"] == row["reasons"]
    assert [one["covered"] for one in found["indexes"]] == table.indexes()["covered"].to_pylist()
    assert found["views"][0]["segments_covered"] == table.views()["segments_covered"][0].as_py()
    text = client.get("/t/edits/projections").text
    assert "DIVIDE_BY_ZERO" in text
    assert "sum(added)" in text


def test_columns_segments_and_history_are_those_of_the_table(client, folder):
    table = projseg.Table(folder / "edits")
    columns = client.get("/t/edits/columns.json").json()["columns"]
    assert [one["bytes"] for one in columns] == table.columns()["bytes"].to_pylist()
    assert columns[1]["read_by"] == [
        "projection hourly",
        "projection late",
        "projection risky",
        "index by_country",
    ]
    assert columns[2]["read_by"] == ["projection hourly", "projection risky", "view daily"]
    found = client.get("/t/edits/segments.json").json()
    rows = table.segments().to_pylist()
    assert [one["min_time"] for one in found["segments"]] == sorted(
        row["min_time"].isoformat().replace("+00:00", "Z") for row in rows
    )
    assert {one["segment"] for one in found["segments"]} == {row["segment"] for row in rows}
    assert found["rows"] == sum(row["rows"] for row in rows)
    assert found["deleted_rows"] == sum(row["deleted_rows"] for row in rows) > 0
    part = client.get("/t/edits/segments.json?from=1970-01-03&to=1970-01-05&sort=rows").json()
    assert part["count"] == 2
    assert client.get("/t/edits/segments?sort=size").status_code == 400
    versions = client.get("/t/edits/history.json").json()["versions"]
    assert [one["version"] for one in versions] == table.history()["version"].to_pylist()
    assert versions[0]["rows_change"] < 0
    assert client.get("/t/edits/history.json").json()["tags"] == table.snapshot.tags


def test_a_segment_is_as_inspect_shows_it(client, folder):
    row = projseg.Table(folder / "edits").segments().to_pylist()[25]
    found = client.get(f"/t/edits/segments/{row['segment']}.json").json()
    assert found["segment"]["rows"] == row["rows"]
    assert found["tables"][0]["rows"] == row["rows"] + row["deleted_rows"]
    assert {one["table"] for one in found["tables"]} == {"base rows", *row["projections"]}
    assert client.get(f"/t/edits/segments/{row['segment']}").status_code == 200
    assert client.get("/t/edits/segments/data/none.pseg").status_code == 404


def test_every_view_takes_a_version_or_a_tag(client, folder):
    tagged = projseg.Table(folder / "edits", tag="before")
    for view in ("", "/projections", "/columns", "/segments", "/history", "/query"):
        for version in (str(tagged.version), "before"):
            found = client.get(f"/t/edits{view}.json?version={version}").json()
            assert found["version"] == tagged.version
            assert "not the newest" in client.get(f"/t/edits{view}?version={version}").text
    assert client.get("/t/edits.json?version=before").json()["rows"] == tagged.snapshot.row_count


def lanes(client, address):
    found = client.get(address).json()["timeline"]
    return found, {(lane["kind"], lane["name"]): lane["bins"] for lane in found["lanes"]}


def total(bins, name):
    return sum(one[name] for one in bins)


@pytest.mark.parametrize("seed", range(tries(12)))
def test_the_timeline_counts_what_the_table_does(tmp_path, seed):
    drawn = random.Random(seed)
    days = drawn.choice([3, 30, 700])
    first = pa.table({"time": hours(0, days * 24), "k": [n % 3 for n in range(days * 24)]})
    table = projseg.Table.create(
        tmp_path / "t", first.schema, time_column="time", segment_granularity="day"
    )
    table.append(first)
    for name in ("a", "b", "c")[: drawn.randrange(1, 4)]:
        projection = projseg.Projection(name, ["k"], ["count(*)"])
        table.add_projection(projection, interval=f"1970-01-0{drawn.randrange(2, 5)}/P2D")
        if drawn.random() < 0.6:
            table.materialize_projection(name)
        table.append(first.slice(0, drawn.randrange(1, 100)))
    table.create_view("v", "SELECT k, count(*) AS c FROM t GROUP BY k", refresh="deferred")
    table.view("v").refresh()
    table.append(first.slice(24, 30))
    table.delete(f"k = 1 AND time < '1970-01-0{drawn.randrange(2, 4)}'")
    page = application(Places([tmp_path / "t"]), PageSettings(TOKEN))
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        found, by_lane = lanes(client, "/t/t.json")
        text = client.get("/t/t").text
        whole = f"from={quote(found['from'])}&to={quote(found['to'])}"
        assert lanes(client, f"/t/t.json?{whole}")[1] == by_lane
    segments = table.segments().to_pylist()
    base = by_lane["base", "base"]
    assert total(base, "rows") == total(base, "covered") == table.snapshot.row_count
    assert total(base, "segments") == len(segments)
    assert total(base, "deleted") == sum(row["deleted_rows"] for row in segments)
    for row in table.projection_stats().to_pylist():
        bins = by_lane["projection", row["projection"]]
        for name in ("built", "missing", "skipped", "failed"):
            assert total(bins, name) == row[name]
        assert total(bins, "covered") == row["base_rows"]
    view = table.views().to_pylist()[0]
    assert total(by_lane["view", "v"], "built") == view["segments_covered"]
    assert (found["unit"] == "segment") == (len(segments) <= 500)
    assert all(len(bins) <= 500 for bins in by_lane.values())
    assert text.count("<rect class=") >= sum(map(len, by_lane.values()))


@pytest.fixture
def crowded(tmp_path, monkeypatch):
    """A client of a table of 60 days in three commits, of which 10 are looked at one by one."""
    rows = pa.table({"time": hours(0, 60 * 24), "k": [n % 3 for n in range(60 * 24)]})
    table = projseg.Table.create(
        tmp_path / "t", rows.schema, time_column="time", segment_granularity="day"
    )
    table.append(rows.slice(0, 20 * 24))
    table.add_projection(projseg.Projection("a", ["k"], ["count(*)"]))
    table.append(rows.slice(20 * 24, 20 * 24))
    table.append(rows.slice(40 * 24))
    table.add_index({"name": "i", "kind": "bloom", "columns": ["k"]})
    monkeypatch.setattr("projseg.page.table_view.DECODED_MAX", 10)
    page = application(Places([tmp_path / "t"]), PageSettings(TOKEN))
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield client, table, monkeypatch


def test_of_too_many_segments_manifests_are_shown(crowded):
    client, table, patched = crowded
    found, by_lane = lanes(client, "/t/t.json")
    assert (found["is_exact"], found["unit"], found["left_out"]) == (False, "manifest", ["index i"])
    references = table.snapshot.file.manifests
    base = by_lane["base", "base"]
    assert [one["rows"] for one in base] == sorted(one.row_count for one in references)
    assert total(base, "segments") == 60
    assert [one["deleted"] for one in base] == [None] * len(references)
    text = client.get("/t/t").text
    assert "at least one segment has it or says why not" in text
    assert 'class="covered-5"' not in text.split("projection a</text>")[1].split("legend")[0]
    patched.setattr("projseg.page.table_view.LISTED_MAX", 59)
    narrow, _ = lanes(client, "/t/t.json?from=1970-01-01&to=1970-03-01")
    assert not narrow["is_exact"]


def test_a_window_in_a_manifest_of_many_segments_shows_its_segments(crowded):
    client, table, _ = crowded
    assert max(one.segment_count for one in table.snapshot.file.manifests) > 10
    found, by_lane = lanes(client, "/t/t.json?from=1970-01-18&to=1970-01-24")
    assert (found["is_exact"], found["unit"], found["left_out"]) == (True, "segment", [])
    assert [one["built"] for one in by_lane["projection", "a"]] == [0, 0, 0, 1, 1, 1]
    assert total(by_lane["base", "base"], "rows") == 6 * 24
    assert total(by_lane["index", "i"], "missing") == 6


def test_segments_that_overlap_are_drawn_beside_one_another(tmp_path):
    table = projseg.Table.create(
        tmp_path / "t", pa.schema({"time": pa.timestamp("us", "UTC")}), time_column="time",
        segment_granularity="day",
    )  # fmt: skip
    for _ in range(3):
        table.append({"time": hours(0, 48)})
    page = application(Places([tmp_path / "t"]), PageSettings(TOKEN))
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        drawn = client.get("/t/t").text.split("</svg>")[0]
        places = re.findall(
            r'<rect class="covered-5" x="([0-9.]+)" y="[0-9.]+" width="([0-9.]+)"', drawn
        )
        assert len(places) == 6
        ends = [(float(x), float(x) + float(width)) for x, width in places]
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(ends))
        assert drawn.count('href="/t/t/segments/data/') == 6


def test_rows_without_a_time_have_a_bin_of_their_own(tmp_path):
    projseg.Table.create(tmp_path / "t", data={"n": [1, 2, 3]})
    page = application(Places([tmp_path / "t"]), PageSettings(TOKEN))
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        _, by_lane = lanes(client, "/t/t.json")
        (one,) = by_lane["base", "base"]
        assert (one["from"], one["rows"]) == (None, 3)
        assert "without a time" in client.get("/t/t").text


def test_a_catalogs_tables_have_their_names_and_declared_columns(tmp_path, folder):
    with projseg.Catalog(tmp_path / "house.db") as catalog:
        catalog.register("edits", str(folder / "edits"))
        catalog.hide_columns("edits", ["country"])
    page = application(Places([tmp_path / "house.db"]), PageSettings(TOKEN))
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        assert [one["name"] for one in client.get("/index.json").json()["tables"]] == ["edits"]
        columns = client.get("/t/edits/columns.json").json()["columns"]
        assert "country" not in {one["column"] for one in columns}
        asked = client.post("/t/edits/query", data={"sql": "SELECT country FROM t"})
        while asked.status_code == 202:
            asked = client.get(str(asked.url))
        assert (asked.status_code, "PROJSEG_UNKNOWN_COLUMN" in asked.text) == (400, True)
        asked = client.post("/t/edits/query", data={"sql": "SELECT count(*) AS n FROM t"})
        while asked.status_code == 202:
            asked = client.get(str(asked.url))
        assert asked.status_code == 200


def test_each_view_is_of_one_version_beside_a_writer(tmp_path):
    """Each version has ten rows more than the one before, of its own number."""
    table = projseg.Table.create(tmp_path / "t", data={"n": [0] * 10})
    page = application(Places([tmp_path / "t"]), PageSettings(TOKEN))
    is_over, seen = threading.Event(), set()

    def write():
        for version in range(1, 9):
            table.append({"n": [version] * 10})
        is_over.set()

    writer = threading.Thread(target=write)
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        writer.start()
        while not is_over.is_set():
            found = client.get("/t/t.json").json()
            by_lane = found["timeline"]["lanes"][0]["bins"]
            assert found["rows"] == total(by_lane, "rows") == 10 * (found["version"] + 1)
            assert found["segments"] == total(by_lane, "segments") == found["version"] + 1
            listed = client.get("/t/t/segments.json").json()
            assert listed["rows"] == 10 * (listed["version"] + 1)
            history = client.get("/t/t/history.json").json()
            assert history["versions"][0]["version"] >= history["version"]
            seen.add(found["version"])
        writer.join()
    assert len(seen) > 1


def test_what_fails_is_logged_and_said(client, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("where nobody looked")

    monkeypatch.setattr("projseg.page.application.columns_record", fail)
    found = client.get("/t/edits/columns.json")
    assert (found.status_code, found.json()["error"]["code"]) == (500, "PROJSEG_INTERNAL")
    assert "nobody" not in client.get("/t/edits/columns").text
    assert "where nobody looked" in caplog.text


def test_views_are_small(client):
    assert len(client.get("/t/edits").content) < 150_000
    assets = [client.get(f"/assets/{name}").content for name in ("page.css", "page.js", "icon.svg")]
    assert sum(map(len, assets)) < 40_000


def test_a_window_may_have_one_end(client, folder):
    table = projseg.Table(folder / "edits")
    every = len(table.segments())
    late = client.get("/t/edits/segments.json?from=1970-02-01").json()
    early = client.get("/t/edits/segments.json?to=1970-02-01").json()
    assert 0 < late["count"] < every
    assert late["count"] + early["count"] == every
    shown = client.get("/t/edits.json?from=1970-02-01").json()["timeline"]
    assert (shown["from"], shown["to"]) == ("1970-02-01T00:00:00Z", "1970-02-10T00:00:00Z")
    shown = client.get("/t/edits.json?to=1970-01-03").json()["timeline"]
    assert (shown["from"], shown["to"]) == ("1970-01-01T00:00:00Z", "1970-01-03T00:00:00Z")
    for one in ("from", "to"):
        assert client.get(f"/t/edits/segments?{one}=nonsense").status_code == 400
        assert client.get(f"/t/edits?{one}=nonsense").status_code == 400
    for path in ("/t/edits", "/t/edits/segments", "/t/empty"):
        assert client.get(f"{path}?from=2999-01-01").status_code == 200
        assert client.get(f"{path}?to=0002-01-01").status_code == 200


def test_columns_have_bounds_encodings_and_dictionaries(client, folder):
    found = client.get("/t/edits/columns.json").json()
    by_name = {one["column"]: one for one in found["columns"]}
    rows = projseg.Table(folder / "edits").sql("SELECT min(added), max(added), min(time) FROM t")
    low, high, first = rows.to_pylist()[0].values()
    added = by_name["added"]
    assert (added["exact"], by_name["country"]["min"], by_name["country"]["max"]) == (
        True,
        "de",
        "pl",
    )
    assert added["min"] <= low <= high <= added["max"]  # of deleted rows, too
    assert by_name["time"]["min"] == first.isoformat().replace("+00:00", "Z")
    assert (found["segments"], found["sampled"]) == (40, 8)
    assert sum(by_name["time"]["encodings"].values()) >= 8
    assert by_name["country"]["dictionary_entries"] == 4  # NULL is one
    assert by_name["country"]["dictionary_bytes"] > 0
    assert by_name["added"]["stored_names"] == ["added"]


def test_bounds_are_of_a_columns_present_type_and_name(tmp_path):
    table = projseg.Table.create(
        tmp_path / "t", data={"n": pa.array([5, 6], pa.int32()), "sum": [1, 2]}
    )
    table.rename_column("n", "m")
    table.widen_column("m", "bigint")
    table.append({"m": [2**40], "sum": [None]})
    table.add_projection(projseg.Projection("p", ["m"], ["count(*)", "max(m)"]))
    page = application(Places([tmp_path / "t"]), PageSettings(TOKEN))
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        first, second = client.get("/t/t/columns.json").json()["columns"]
    assert (first["column"], first["min"], first["max"]) == ("m", 5, 2**40)
    assert len(first["stored_names"]) == 2
    assert (second["min"], second["max"], second["read_by"]) == (1, 2, [])


def test_a_view_that_takes_too_long_says_so(client, monkeypatch):
    monkeypatch.setattr("projseg.page.application._VIEW_SECONDS", -1)
    for view in ("segments", "columns", "projections"):
        found = client.get(f"/t/edits/{view}.json")
        assert found.status_code == 504
        assert found.json()["error"]["code"] == "PROJSEG_QUERY_TIMEOUT"


def test_attached_tables_show_their_source_and_files_without_a_companion(tmp_path, monkeypatch):
    source = tmp_path / "source"
    source.mkdir()
    for number in range(3):
        rows = {"time": hours(24 * number, 24), "k": [number] * 24}
        pq.write_table(pa.table(rows), source / f"{number}.parquet")
    by_k = projseg.Projection("byk", ["k"], ["count(*)"])
    table = projseg.Table.attach(
        tmp_path / "t", f"parquet:{source}", time_column="time", projections=[by_k]
    )
    pq.write_table(pa.table({"time": hours(72, 24), "k": [3] * 24}), source / "3.parquet")
    page = application(Places([tmp_path / "t"]), PageSettings(TOKEN))
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        found, by_lane = lanes(client, "/t/t.json")
        record = client.get("/t/t.json").json()
        detail = table.newest().detail()
        assert record["source"] == {
            key: detail[key]
            for key in (
                "source", "source_version", "source_files", "source_files_without_companion",
                "left_out",
            )
        }  # fmt: skip
        assert record["source"]["source_files_without_companion"] == 1
        assert total(by_lane["projection", "byk"], "missing") == 1
        assert total(by_lane["base", "base"], "rows") == 96
        text = client.get("/t/t").text
        assert f"parquet:{source}" in text
        for view in ("projections", "columns", "segments", "history", "query"):
            shown = client.get(f"/t/t/{view}")
            assert (shown.status_code, f"parquet:{source}" in shown.text) == (200, True), view
        for name in re.findall(r'href="(/t/t/segments/[^"]+)"', text):
            assert client.get(name).status_code == 200
        assert "without a companion" in client.get(f"/t/t/segments/{source}/3.parquet").text
        monkeypatch.setattr("projseg.page.table_view.DECODED_MAX", 3)
        assert "source_files" not in client.get("/t/t.json").json()["source"]
        assert "without a companion" not in client.get("/t/t").text
    assert found["is_exact"]


def test_a_segment_that_is_gone_is_said_and_columns_are_shown_without_it(tmp_path):
    table = projseg.Table.create(tmp_path / "t", data={"k": ["a", "b"]})
    table.append({"k": ["c"]})
    files = table.segments()["segment"].to_pylist()
    (tmp_path / "t" / files[0]).unlink()
    (tmp_path / "t" / files[1]).write_bytes(b"no segment")
    page = application(Places([tmp_path / "t"]), PageSettings(TOKEN))
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        found = client.get("/t/t/columns.json").json()
        assert (found["segments"], found["sampled"]) == (2, 0)
        assert (found["columns"][0]["min"], found["columns"][0]["max"]) == ("a", "c")
        codes = [client.get(f"/t/t/segments/{file}.json").json()["error"]["code"] for file in files]
        assert codes == ["PROJSEG_SEGMENT_MISSING", "PROJSEG_SEGMENT_DIFFERS"]


def test_a_window_keeps_rows_without_a_time_and_long_bounds_enclose(tmp_path):
    projseg.Table.create(tmp_path / "t", data={"n": [1, 2], "k": ["a", "z" * 500]})
    page = application(Places([tmp_path / "t"]), PageSettings(TOKEN))
    with TestClient(page, base_url=f"http://{HOST}") as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        _, by_lane = lanes(client, "/t/t.json?from=1970-01-02&to=1970-01-05")
        assert [(one["from"], one["rows"]) for one in by_lane["base", "base"]] == [(None, 2)]
        number, key = client.get("/t/t/columns.json").json()["columns"]
    assert (number["exact"], key["exact"], key["min"]) == (True, False, "a")
    assert "z" * 60 <= key["max"] != "z" * 500

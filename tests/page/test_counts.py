"""What the page counts of drawn tables is what the table's own methods say."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paged_tables import HOST, TOKEN, hours
from scale import tries
from starlette.testclient import TestClient

import projseg
from projseg.catalog.places import Places
from projseg.page.application import PageSettings, application

DAYS = 12
STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, DAYS - 1), st.integers(1, 60)),
    st.tuples(st.just("projection"), st.booleans(), st.integers(1, DAYS)),
    st.tuples(st.just("risky")),
    st.tuples(st.just("build")),
    st.tuples(st.just("index")),
    st.tuples(st.just("view"), st.booleans()),
    st.tuples(st.just("refresh")),
    st.tuples(st.just("delete"), st.integers(0, 4), st.integers(0, DAYS * 24)),
    st.tuples(st.just("compact")),
)  # fmt: skip
QUESTIONS = [
    "SELECT k, count(*) AS n FROM t GROUP BY k",
    "SELECT sum(v) AS s FROM t WHERE time < '1970-01-04'",
    "SELECT v FROM t WHERE k = 2",
]


def rows(day, count):
    return pa.table(
        {
            "time": hours(24 * day, count),
            "k": [n % 5 for n in range(count)],
            "v": pa.array([n % 3 for n in range(count)], pa.int64()),
        }
    )


def add_projection(table, number, is_scoped, day):
    scope = {"interval": f"1970-01-01/P{day}D"} if is_scoped else {}
    table.add_projection(projseg.Projection(f"p{number}", ["k"], ["count(*)"]), **scope)


def add_view(table, number, is_refreshed):
    view = f"v{number}"
    sql = f"SELECT k, sum(v + {number}) AS s FROM t GROUP BY k"
    table.create_view(view, sql, refresh="deferred")
    if is_refreshed:
        table.view(view).refresh()


def delete(table, number, key, hour):
    after = hours(hour, 1)[0].as_py()
    table.delete(f"k = {key} AND time >= '{after:%Y-%m-%d %H:%M:%S}'")


TAKEN = {
    "append": lambda table, _, day, count: table.append(rows(day, count)),
    "projection": add_projection,
    "risky": lambda table, number: table.add_projection(
        projseg.Projection(f"r{number}", ["k", f"{number} / v AS r"], ["count(*)"])
    ),
    "build": lambda table, _: table.materialize_projection(),
    "index": lambda table, number: table.add_index(
        {"name": f"i{number}", "kind": "bloom", "columns": ["k"]}
    ),
    "view": add_view,
    "refresh": lambda table, _: [
        table.view(one).refresh() for one in table.views()["name"].to_pylist()
    ],
    "delete": delete,
    "compact": lambda table, _: table.compact(),
}


def total(bins, name):
    return sum(one[name] for one in bins)


def check_timeline(client, table):
    found = client.get("/t/t.json").json()
    lanes = {(one["kind"], one["name"]): one["bins"] for one in found["timeline"]["lanes"]}
    segments = table.segments().to_pylist()
    base = lanes.pop(("base", "base"))
    for name, key in (("rows", "rows"), ("deleted", "deleted_rows")):
        assert total(base, name) == sum(row[key] for row in segments)
    assert total(base, "segments") == len(segments)
    assert {one["file"] for one in base} == {row["segment"] for row in segments}
    for row in table.projection_stats().to_pylist():
        bins = lanes.pop(("projection", row["projection"]))
        for name in ("built", "missing", "skipped", "failed"):
            assert total(bins, name) == row[name]
        assert total(bins, "covered") == row["base_rows"]
    for row in table.indexes().to_pylist():
        bins = lanes.pop(("index", row["name"]))
        assert total(bins, "built") == row["covered"]
        assert total(bins, "segments") == row["segments"]
    for row in table.views().to_pylist(maps_as_pydicts="lossy"):
        bins = lanes.pop(("view", row["name"]))
        assert total(bins, "built") == row["segments_covered"]
    assert lanes == {}


def check_projections(client, table):
    found = client.get("/t/t/projections.json").json()
    for shown, row in itertools.zip_longest(
        found["projections"], table.projection_stats().to_pylist()
    ):
        names = (
            "projection",
            "built",
            "missing",
            "skipped",
            "failed",
            "rows",
            "bytes",
            "base_rows",
        )
        assert {name: shown[name] for name in names} == {name: row[name] for name in names}
    for kind, facts in (("indexes", table.indexes()), ("views", table.views())):
        for shown, row in itertools.zip_longest(
            found[kind], facts.to_pylist(maps_as_pydicts="lossy")
        ):
            numbers = {name: value for name, value in row.items() if isinstance(value, int)}
            assert {name: shown[name] for name in numbers} == numbers


def check_plan(client, table, sql):
    """Ask a version by its number, which this process reads itself."""
    answer = client.post(f"/t/t/query?version={table.version}", data={"sql": sql})
    while answer.status_code == 202:
        answer = client.get(str(answer.url))
    plan = client.get(f"{answer.url}.json").json()["plan"]
    explained = Places([table.location]).version("t", str(table.version)).sql(sql, explain=True)
    assert plan["sources"] == explained.sources
    assert plan["pruned_segments"] == explained.pruned_segments
    assert (plan["rows"], plan["bytes"]) == (explained.figures.rows, explained.figures.bytes)
    counts = {}
    for one in plan["rejections"]:
        if not one["source"].startswith("view "):
            codes = counts.setdefault(one["source"], {})
            code = one["reason"].split(" ")[0]
            codes[code] = codes.get(code, 0) + one["segments"]
    assert counts == explained.rejections


@settings(max_examples=tries(200, by_day=20), deadline=None)
@given(st.lists(STEPS, max_size=9), st.sampled_from(QUESTIONS))
def test_counts_are_those_of_the_table(steps, sql):
    with tempfile.TemporaryDirectory() as folder:
        table = projseg.Table.create(
            Path(folder) / "t", rows(0, 1).schema, time_column="time", segment_granularity="day"
        )
        table.append(rows(0, 72))
        add_view(table, DAYS, True)  # which appends leave behind
        for number, step in enumerate(steps):
            TAKEN[step[0]](table, number, *step[1:])
        with TestClient(
            application(Places([table.location]), PageSettings(TOKEN)), base_url=f"http://{HOST}"
        ) as client:
            client.headers["Authorization"] = f"Bearer {TOKEN}"
            check_timeline(client, table)
            check_projections(client, table)
            check_plan(client, table, sql)


@pytest.mark.slow
def test_views_of_ten_thousand_segments(tmp_path):
    pytest.importorskip("duckdb")
    from projseg.benchmarks.scenarios.table_life import table_of_segments

    table = table_of_segments(tmp_path / "t", 10_000)
    with TestClient(
        application(Places([table.location]), PageSettings(TOKEN)), base_url=f"http://{HOST}"
    ) as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        whole = client.get("/t/t.json").json()
        assert (whole["segments"], whole["timeline"]["is_exact"]) == (10_000, False)
        assert total(whole["timeline"]["lanes"][0]["bins"], "rows") == table.snapshot.row_count
        rows_of = table.segments().to_pylist()
        last = max(row["max_time"] for row in rows_of)
        start = f"{last.year}-{last.month:02}-01"
        part = client.get(f"/t/t.json?from={start}").json()["timeline"]
        within = [row for row in rows_of if row["max_time"].isoformat() >= start]
        assert part["is_exact"]
        assert total(part["lanes"][0]["bins"], "segments") == len(within)
        for name in ("hourly", "by_country"):
            lane = next(one for one in part["lanes"] if one["name"] == name)
            assert total(lane["bins"], "built") == len(within)
        stats = client.get("/t/t/projections.json").json()["projections"]
        assert [one["built"] for one in stats] == table.projection_stats()["built"].to_pylist()
        listed = client.get("/t/t/segments.json?page=100").json()
        assert (listed["count"], listed["pages"], len(listed["segments"])) == (10_000, 100, 100)
        for view in ("", "/projections", "/segments", "/history", "/query"):
            shown = client.get(f"/t/t{view}")
            assert shown.status_code == 200
            assert int(shown.headers["content-length"]) < 150_000

"""Advice for logs and statements: what it proposes, what applying it does, what is refused."""

import json
import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from advised_tables import advice_of, imagined, log_of, logging, rows_of, spread
from scale import tries
from typer.testing import CliRunner

import projseg
from projseg.advisor import needless
from projseg.advisor.advice_report import verdict
from projseg.advisor.measured_workload import read_statements
from projseg.advisor.stored_sizes import stored_size
from projseg.benchmarks.bench import same_answer
from projseg.cli import app
from projseg.errors import InvalidInputError, StorageError
from projseg.memory.deadline import Deadline, under

ROWS = 20_000
WORK = [
    "SELECT channel, sum(added) AS s FROM t GROUP BY channel",
    "SELECT date_trunc('HOUR', time) AS h, count(*) AS n FROM t GROUP BY 1",
    "SELECT channel, max(added) FROM t WHERE robot AND time >= '2024-05-02' "
    "AND time < '2024-05-03' GROUP BY channel",
    "SELECT avg(price) FROM t WHERE channel IN ('#1', '#2')",
]


def made(folder, **options):
    options = {"time_column": "time", "segment_granularity": "day"} | options
    return projseg.Table.create(folder, data=rows_of(ROWS), **options)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table that tests only read."""
    return made(tmp_path_factory.mktemp("advisor") / "t")


@pytest.fixture(scope="module")
def log(table, tmp_path_factory):
    def ask():
        for _ in range(15):
            for statement in WORK:
                table.sql(statement)
            table.sql("SELECT page FROM t WHERE page = 'p1'")
            table.sql("SELECT channel, sum(added * 2) FROM t GROUP BY channel")
            table.query("page", "count(*)", context={"noProjections": True})
        with pytest.raises(projseg.ProjsegError):
            table.sql("SELECT missing FROM t")

    return logging(tmp_path_factory.mktemp("log") / "log", ask)


def test_advice_fits_the_budget_and_names_what_is_left(table, log):
    advice = advice_of(table, log, budget="30%")
    assert advice.log["queries"] == 15 * 6
    assert (advice.log["hinted"], advice.log["failed"], advice.log["unbound"]) == (15, 1, 0)
    added = advice.items
    assert {item.kind for item in added} == {"projection", "index"}
    assert (
        sum(item.bytes for item in added) <= advice.budget_bytes == round(0.3 * advice.base_bytes)
    )
    assert advice.bytes_after == advice.bytes_before + sum(item.bytes for item in added)
    assert [one.why_not for one in advice.shapes if one.why_not] == ["LITERAL_HIDDEN"]
    groups = advice_of(table, log, budget="30%", kinds=["projection"])
    assert {"ROW_SCAN", "LITERAL_HIDDEN"} <= {shape.why_not for shape in groups.shapes}
    for item in added:
        assert item.queries >= 10
        assert item.milliseconds_after < item.milliseconds_before
        assert item.saved_seconds > 0


def test_advice_says_how_far_it_is_and_is_stopped_by_a_deadline(table, log):
    calls = []
    advice_of(table, log, on_progress=lambda *of: calls.append(of))
    assert calls == [(number, len(calls)) for number in range(len(calls))] != []
    clock = iter([0.0])
    with (
        pytest.raises(projseg.ProjsegError, match="QUERY_TIMEOUT"),
        under(Deadline(1, clock=lambda: next(clock, 2.0))),
    ):
        advice_of(table, log)

    def cancelled(done, count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        advice_of(table, log, on_progress=cancelled)


def test_a_log_whose_queries_no_longer_bind_gives_no_advice(tmp_path, log):
    table = projseg.Table.create(tmp_path / "t", data={"other": [1, 2]})
    advice = advice_of(table, log_of(log, table))
    assert (advice.items, advice.log["unbound"]) == ((), advice.log["shapes"])


def test_applied_advice_is_used_gives_the_same_answers_and_is_not_given_again(tmp_path, log):
    table = made(tmp_path / "t")
    answers = [table.sql(statement) for statement in WORK]
    advice = advice_of(table, log_of(log, table), budget="40%")
    names = {item.name for item in advice.items}
    planned = [table.explain(text, what_if=imagined(advice)).sources for text in WORK]
    commits = advice.apply(table)
    assert [commit.version for commit in commits] == [1, 2]
    projections = {one.name for one in table.properties.projections}
    assert projections | {one.name for one in table.properties.declared_indexes} == names
    assert [table.explain(text).sources for text in WORK] == planned
    assert sum("base" not in sources for sources in planned) >= 2
    for statement, answer in zip(WORK, answers, strict=True):
        assert same_answer(answer, table.sql(statement))
    for item in advice.items:
        stored = stored_size(table, item.kind, item.name)
        assert stored.rows == item.rows
        assert stored.bytes == pytest.approx(item.bytes, rel=0.15)
        kept = json.loads(table.properties.properties[f"advice.{item.name}"])
        assert (kept["rows"], kept["shapes"]) == (item.rows, list(item.shapes))
    assert advice.apply(table) == []
    again = advice_of(table, log_of(log, table), budget="60%")
    assert [item.name for item in again.items] == []
    table.drop_projection(projections.pop())
    for index in names - {one.name for one in table.properties.projections} - projections:
        if index in {one.name for one in table.properties.declared_indexes}:
            table.drop_index(index)
    kept = [key for key in table.properties.properties if key.startswith("advice.")]
    assert {key.removeprefix("advice.") for key in kept} == projections


def test_the_same_log_gives_the_same_advice(table, log):
    first, second = (
        json.loads(advice_of(table, one).to_json()) for one in (log, projseg.read_log(log))
    )
    for item in (*first["items"], *second["items"]):
        del item["build_seconds"]  # which is measured
    assert first == second


QUESTIONS = [
    ("channel", "sum(added)"), ("robot", "count(*)"), ("page", "max(added)"),
    ("date_trunc('DAY', time)", "avg(price)"), ("channel, robot", "min(price)"),
    ("date_trunc('HOUR', time), channel", "sum(price)"), ("added % 7", "count(*)"),
    ("hour(time)", "sum(added)"), ("cast(time AS date)", "count(DISTINCT channel)"),
]  # fmt: skip
CONDITIONS = ["", " WHERE channel = '#3'", " WHERE robot", " WHERE added > 50 AND robot"]


@pytest.mark.parametrize("seed", range(2))
def test_drawn_workloads_are_answered_alike_after_applying(tmp_path, seed):
    draw = random.Random(seed)
    table = made(tmp_path / "t", segment_granularity=draw.choice(["day", "all"]))
    statements = [
        f"SELECT {keys}, {call} FROM t{draw.choice(CONDITIONS)} GROUP BY {keys}"
        for keys, call in draw.sample(QUESTIONS, min(len(QUESTIONS), 3 + tries(4)))
    ]
    answers = [table.sql(text) for text in statements]
    path = tmp_path / "questions.sql"
    path.write_text(";\n".join(f"-- weight: {draw.randrange(1, 50)}\n{s}" for s in statements))
    zone = advice_of(table, path, budget=draw.choice(["5%", "20%", "100%"]))
    zone.apply(table)
    for text, answer in zip(statements, answers, strict=True):
        assert same_answer(answer, table.sql(text))


def test_buckets_fit_the_zones_of_queries(tmp_path):
    table = made(tmp_path / "t")
    kolkata = {"timezone": "Asia/Kolkata"}

    def ask():
        for _ in range(12):
            table.query("channel", "sum(added)", interval="2024-05-02/P1D", context=kolkata)
            table.query("date_trunc('DAY', time) AS d", "count(*)", context=kolkata)

    log = logging(tmp_path / "log", ask)
    advice = advice_of(table, log, budget="50%")
    assert any("PT30M" in item.sql for item in advice.items)
    advice.apply(table)
    for part in (
        {"group_by": "channel", "interval": "2024-05-02/P1D"},
        {"group_by": "date_trunc('DAY', time) AS d"},
    ):
        sources = table.explain(aggregators="count(*)", context=kolkata, **part).sources
        assert "base" not in sources


def test_a_log_without_queries_of_the_table_names_the_others(table, tmp_path, log):
    other = made(tmp_path / "other")
    advice = advice_of(other, log)
    assert advice.items == ()
    assert table.location in str(advice)


def test_an_empty_table_has_nothing_to_sample(tmp_path, log):
    empty = projseg.Table.create(tmp_path / "t", rows_of(1).schema, time_column="time")
    advice = advice_of(empty, log_of(log, empty))
    assert advice.items == ()
    assert "no rows to sample" in str(advice)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"budget": "much"}, "PROJSEG_BAD_BUDGET"),
        ({"budget": "-3%"}, "PROJSEG_BAD_BUDGET"),
        ({"kinds": ["everything"]}, "PROJSEG_BAD_ARGUMENT"),
        ({"log": 7}, "PROJSEG_BAD_LOG"),
        ({"log": pa.table({"a": [1]})}, "PROJSEG_BAD_LOG"),
        ({"log": "/nowhere"}, "PROJSEG_BAD_LOG"),
        ({"log": "/nowhere.sql"}, "PROJSEG_BAD_LOG"),
    ],
)
def test_what_cannot_be_advised_is_refused(table, log, options, code):
    with pytest.raises(InvalidInputError, match=code):
        advice_of(table, **({"log": log} | options))


def test_advice_is_stale_where_a_name_or_a_column_changed(tmp_path, log):
    table = made(tmp_path / "t")
    advice = advice_of(table, log_of(log, table), budget="40%")
    name = advice.items[0].name
    other = projseg.Table(table.location)
    other.add_projection(projseg.Projection(name, ["page"], ["count(*) AS n"]))
    with pytest.raises(InvalidInputError, match="PROJSEG_ADVICE_STALE"):
        advice.apply(table)
    other.drop_projection(name)
    other.drop_column("added")
    with pytest.raises(InvalidInputError, match="PROJSEG_ADVICE_STALE"):
        advice.apply(table)
    assert [one.name for one in other.newest().properties.projections] == []


def test_unused_and_subsumed_projections_are_dropped_and_rare_ones_kept(tmp_path, monkeypatch):
    table = made(
        tmp_path / "t",
        projections=[
            projseg.Projection("by_page", ["page"], ["sum(added) AS s"]),
            projseg.Projection("by_channel", ["channel"], ["sum(added) AS s", "count(*) AS n"]),
            projseg.Projection("same", ["channel"], ["count(*) AS n", "sum(added) AS s"]),
            projseg.Projection("by_robot", ["robot"], ["max(price) AS p"]),
        ],
    )

    def ask():
        for _ in range(120):
            table.query("channel", "sum(added)")
        table.query("robot", "max(price)")

    log = logging(tmp_path / "log", ask)
    spread(log, days=32)
    assert [item.kind for item in advice_of(table, log).items] == []  # the table is young
    old = datetime.now(UTC) - timedelta(days=60)
    monkeypatch.setattr(needless, "declared_since", lambda *_: old)
    items = {item.name: item for item in advice_of(table, log, since="90 days").items}
    assert set(items) - {"by_channel"} - {"same"} == {"by_page"}
    assert len(set(items) & {"by_channel", "same"}) == 1
    assert items["by_page"].evidence["reason"] == "no query in 32 days of python"
    short = advice_of(table, log, since="10 days")
    assert short.items == ()
    advice = advice_of(table, log, since="90 days")
    advice.apply(table)
    assert len(table.properties.projections) == 4
    advice.apply(table, drop=True)
    assert {one.name for one in table.properties.projections} & {"by_page"} == set()
    assert len(table.properties.projections) == 2


def test_declared_since_is_found_in_the_log_of_versions(tmp_path):
    table = made(tmp_path / "t")
    for number in range(5):
        table.append(rows_of(10, number))
    table.add_projection(projseg.Projection("p", ["channel"], ["count(*) AS n"]))
    declared = table.snapshot.timestamp_us
    for number in range(3):
        table.append(rows_of(10, number))
    (one,) = table.properties.projections
    found = needless.declared_since(
        table.snapshot,
        lambda properties: one.name in {declared.name for declared in properties.projections},
    )
    assert round(found.timestamp() * 1e6) == declared
    assert needless.declared_since(table.snapshot, lambda _: False) is None


def test_a_report_sets_estimates_beside_what_was_measured(tmp_path, log):
    table = made(tmp_path / "t")
    advice = advice_of(table, log_of(log, table), budget="40%")
    advice.apply(table)
    found = projseg.advice_report(table, log_of(log, table)).to_pylist()
    assert {row["name"] for row in found} == {item.name for item in advice.items}
    assert {row["verdict"] for row in found} == {"TOO EARLY"}

    def ask():
        for _ in range(60):
            for statement in (*WORK, "SELECT page FROM t WHERE page = 'p2'"):
                table.sql(statement)

    later = projseg.advice_report(table, logging(tmp_path / "later", ask)).to_pylist()
    for row in later:
        assert row["queries"] >= 60
        assert row["rows"] == row["rows_estimated"]
        assert row["verdict"] in ("KEPT", "LESS", "WORSE")
        assert row["milliseconds"] > 0


@pytest.mark.parametrize(
    ("queries", "measured", "is_used", "word"),
    [
        (49, 1.0, True, "TOO EARLY"), (50, 1.0, False, "UNUSED"), (50, 10.0, True, "WORSE"),
        (50, 7.5, True, "LESS"), (50, 2.0, True, "KEPT"), (50, None, True, "TOO EARLY"),
    ],
)  # fmt: skip
def test_verdicts(queries, measured, is_used, word):
    assert verdict(queries, 10.0, 4.0, measured, is_used=is_used) == word


def at_shell(*words):
    return CliRunner().invoke(app, ["advise", "--seconds", "3600", *map(str, words)])


def test_the_shell_prints_advice_and_applies_it_only_if_asked(tmp_path):
    table = made(tmp_path / "t")
    path = tmp_path / "questions.sql"
    path.write_text(f"-- weight: 40\n{WORK[0]};\n{WORK[1]};")
    shown = at_shell(table.location, "--queries", path, "--budget", "20%", "-o", "table")
    assert shown.exit_code == 0
    assert "add    by_" in shown.stdout
    assert "saves" in shown.stdout
    done = at_shell(table.location, "--queries", path, "--budget", "20%", "--apply", "-o", "json")
    assert json.loads(done.stdout)["items"]
    assert projseg.Table(table.location).version == 0
    csv = at_shell(table.location, "--queries", path, "--budget", "20%", "-o", "csv")
    assert csv.stdout.startswith("kind,name,sql")
    done = at_shell(table.location, "--queries", path, "--budget", "20%", "--apply", "--yes")
    assert done.exit_code == 0
    assert len(projseg.Table(table.location).properties.projections) >= 1
    assert at_shell(table.location).exit_code == 1


def test_names_of_a_log_are_escaped(tmp_path):
    schema = {"a `<b>": "string", "n": "bigint"}
    rows = {"a `<b>": ["x", "y"] * 500, "n": list(range(1000))}
    table = projseg.Table.create(tmp_path / "t", schema, data=rows)
    path = tmp_path / "questions.sql"
    path.write_text("-- weight: 9\nSELECT `a ``<b>`, sum(n) FROM t GROUP BY 1;")
    advice = advice_of(table, path, budget="200%")
    assert "<b>" not in advice._repr_html_()
    assert "`a ``<b>`" in advice.sql()
    advice.apply(table)
    assert len(table.properties.projections) == 1


def test_an_apply_that_fails_while_building_is_completed_by_another(tmp_path, log, monkeypatch):
    table = made(tmp_path / "t")
    advice = advice_of(table, log_of(log, table), budget="40%")
    with monkeypatch.context() as patch:

        def fails(*_, **__):
            raise StorageError("PROJSEG_STORAGE_FAILED", "the disk is full")

        patch.setattr(projseg.Table, "materialize_projection", fails)
        with pytest.raises(StorageError, match="is declared, and building it"):
            advice.apply(table)
    declared = (*table.properties.projections, *table.properties.declared_indexes)
    assert {one.name for one in declared} == {item.name for item in advice.items}
    (commit,) = advice.apply(projseg.Table(table.location))
    assert commit.segments == len(table.segments())
    assert advice.apply(projseg.Table(table.location)) == []


def test_advice_is_given_for_a_version_and_not_applied_to_it(tmp_path, log):
    table = made(tmp_path / "t")
    table.append(rows_of(100, 2))
    pinned = projseg.Table(table.location, version=0)
    advice = advice_of(pinned, log_of(log, table), budget="40%")
    assert (advice.version, bool(advice.items)) == (0, True)
    with pytest.raises(InvalidInputError, match="PROJSEG_PINNED_VERSION"):
        advice.apply(pinned)
    assert len(advice.apply(table, materialize=False)) == 1
    assert set(table.projection_stats()["built"].to_pylist()) == {0}
    assert set(table.indexes()["covered"].to_pylist()) == {0}


def test_nothing_is_added_where_the_budget_is_passed_already(tmp_path, log):
    all_columns = "SELECT channel, page, robot, added, price, time ORDER BY page"
    table = made(tmp_path / "t", projections=[{"name": "sorted", "sql": all_columns}])
    advice = advice_of(table, log_of(log, table), budget="10%")
    assert advice.bytes_before > advice.budget_bytes
    assert advice.items == ()


def test_deleted_rows_and_changed_columns_are_planned_as_after_building(tmp_path):
    table = made(tmp_path / "t")
    table.delete("channel = '#3' AND added < 50")
    table.rename_column("price", "cost")
    table.add_column("remark", "string")
    path = tmp_path / "questions.sql"
    statements = [
        "SELECT channel, max(cost), sum(added) FROM t GROUP BY channel",
        "SELECT robot, remark, min(cost) FROM t GROUP BY robot, remark",
    ]
    path.write_text(";".join(f"-- weight: 20\n{one}" for one in statements))
    answers = [table.sql(one) for one in statements]
    advice = advice_of(table, path, budget="80%")
    assert len(advice.items) >= 1
    planned = [table.explain(one, what_if=imagined(advice)).sources for one in statements]
    advice.apply(table)
    assert [table.explain(one).sources for one in statements] == planned
    for statement, answer in zip(statements, answers, strict=True):
        assert same_answer(answer, table.sql(statement))


HOSTILE = [
    {"group_by": "channel"},
    {"group_by": [["channel"]], "aggregators": {"a": 1}},
    {"group_by": ["channel"], "aggregators": ["sum(added"], "filter": "("},
    {"group_by": ["channel"], "filter": 7, "limit": "many"},
    {"group_by": ["channel"], "aggregators": ["count(*)"], "filter": "channel = " + "(" * 3000},
    {"group_by": ["channel"] * 3000, "aggregators": ["count(*)"]},
    {"aggregators": ["sum(added)); DROP TABLE t; --"]},
    {"group_by": ["`'; <script>"], "aggregators": ["count(*)"]},
    {"columns": ["*"], "order_by": ["?"], "having": "? ? ?"},
    {"group_by": ["?"], "aggregators": ["?"], "filter": "? = ?"},
    {"group_by": ["channel"], "filter": " AND ".join(["added = ?"] * 500)},
    {"interval": "yesterday", "aggregators": ["count(*)"]},
    {"context": "hint"},
    {"\ud800": "x", "aggregation": "odd"},
]


@pytest.mark.parametrize("query", HOSTILE, ids=lambda one: str(one)[:30])
def test_hostile_queries_of_a_log_are_counted_and_do_no_harm(table, tmp_path, query):
    record = {
        "projseg_log": 1, "time": "2026-05-01T10:00:00+00:00", "answered_ms": 5.0,
        "table_id": table.properties.table_id, "query": query, "door": "<b>",
        "interval": {"aligned": "never", "length": -1e300, "zone": "Mars/Base"},
    }  # fmt: skip
    good = record | {
        "query": {"group_by": ["channel"], "aggregators": ["count(*)"]},
        "interval": None,
    }
    lines = [json.dumps(record)] * 20 + [json.dumps(good)] * 20
    (tmp_path / "queries-1.jsonl").write_text("\n".join(lines) + "\n")
    advice = advice_of(table, tmp_path, since=None, seconds=20)
    assert any(shape.query.startswith("SELECT channel, count(*)") for shape in advice.shapes)
    assert "<b>" not in advice._repr_html_()
    assert json.loads(advice.to_json())["log"]["shapes"] >= 1
    assert str(advice)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kinds": None},
        {"kinds": 5},
        {"kinds": "drop"},
        {"seconds": "x"},
        {"seconds": None},
        {"seconds": float("nan")},
        {"since": 5},
    ],
    ids=str,
)
def test_arguments_of_other_types_are_refused(table, log, wrong):
    with pytest.raises(InvalidInputError) as caught:
        advice_of(table, log, **wrong)
    assert caught.value.code == "PROJSEG_BAD_ARGUMENT"


def test_texts_of_a_log_steer_no_terminal(table, log, tmp_path):
    record = next(iter(log.glob("*.jsonl"))).read_text().splitlines()[0]
    for name, key in (("door.jsonl", "door"), ("place.jsonl", "location")):
        changed = json.loads(record) | {key: "a\x1b[31m\rb\u202e"}
        if key == "location":
            changed["table_id"] = "other"
        (tmp_path / name).write_text(json.dumps(changed) + "\n")
        run = CliRunner().invoke(
            app, ["advise", table.location, "--log", str(tmp_path / name), "-o", "table"]
        )
        assert run.exit_code == 0, run.output
        assert "a\\x1b[31m\\rb\\u202e" in run.output.replace("\n", "")
        assert "\x1b[31m" not in run.output


def test_statements_end_outside_of_comments_and_quotes(tmp_path):
    (tmp_path / "q.sql").write_text(
        "-- weight: 7 \n-- one; two\nSELECT 1 /* a; b */ FROM t -- c; d\n"
        " WHERE x = ';--' AND y = \";\";/* no ; statement */;\nSELECT 2 - 1 / 3"
    )
    found = read_statements(tmp_path / "q.sql")
    assert [(" ".join(text.split()), weight) for text, weight in found] == [
        ("""SELECT 1 FROM t WHERE x = ';--' AND y = ";\"""", 7),
        ("SELECT 2 - 1 / 3", 1),
    ]

"""Advice of each kind: what it proposes, what planning says before and after, and the answers."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from advised_tables import advice_of, imagined, log_of, logging, rows_of, spread, written
from scale import tries
from typer.testing import CliRunner

import projseg
from projseg.advisor import needless
from projseg.advisor.advising import Advising
from projseg.advisor.sizing import Sizing
from projseg.advisor.spent_time import SpentTime
from projseg.advisor.stored_sizes import stored_bytes, stored_size
from projseg.advisor.workload import LoggedWorkload
from projseg.benchmarks.bench import same_answer
from projseg.cli import app
from projseg.errors import InvalidInputError
from projseg.maintenance import materialize_projections

DAYS = 80
ROWS = 12_000


def made(folder, count=ROWS, days=DAYS, **options):
    options = {"time_column": "time", "segment_granularity": "day"} | options
    return projseg.Table.create(folder, data=rows_of(count, days=days), **options)


def questions(rows):
    """Return a question for each kind of advice, about a row that is there."""
    row = rows.slice(7, 1).to_pylist()[0]
    return {
        "bloom": f"SELECT count(*) AS n, max(added) AS a FROM t WHERE visit = '{row['visit']}'",
        "token": f"SELECT visit FROM t WHERE text_match(note, '{row['note'].split()[-1]}')",
        "ngram": f"SELECT visit, price FROM t WHERE note LIKE '%{row['note'][-9:]}'",
        "view": "SELECT channel, sum(added) AS s, count(*) AS n FROM t GROUP BY channel",
        "groups": "SELECT date_trunc('DAY', time) AS d, robot, max(price) FROM t GROUP BY 1, 2",
    }


@pytest.fixture(scope="module")
def rows():
    return rows_of(ROWS, days=DAYS)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of many small segments, which tests only read."""
    return made(tmp_path_factory.mktemp("kinds") / "t")


@pytest.mark.parametrize(
    ("kind", "asked", "label"),
    [
        ("index", "bloom", "bloom index on visit"), ("index", "token", "token index on note"),
        ("index", "ngram", "ngram index on note"), ("view", "view", "by_channel_view"),
        ("projection", "groups", "by_day_robot"),
    ],
)  # fmt: skip
def test_each_kind_is_proposed_planned_and_answered_alike(tmp_path, rows, kind, asked, label):
    table = made(tmp_path / "t")
    question = questions(rows)[asked]
    path = written(tmp_path / "q.sql", [question])
    before = table.sql(question)
    advice = advice_of(table, path, budget="1000%", kinds=[kind])
    (item,) = advice.items
    assert (item.kind, item.label) == (kind, label)
    assert f"add    {label}" in str(advice)
    assert item.name in item.statement
    (shape,) = advice.shapes
    assert shape.planned_then < shape.planned_now
    assert shape.why_not == ""
    if kind != "view":
        planned = table.explain(question, what_if=imagined(advice))
    advice.apply(table)
    found = table.explain(question)
    if kind == "view":
        assert found.sources == {f"view:{item.name}": found.segments.num_rows}
    else:
        assert set(found.sources) == set(planned.sources)
        assert found.pruned_segments == pytest.approx(planned.pruned_segments, abs=8)
    if kind == "index":
        assert found.pruned_segments > 0.7 * DAYS
        assert item.evidence["segments_left"] < 0.3 * DAYS
    assert same_answer(before, table.sql(question))
    oracle = duckdb.connect()
    oracle.register("t", rows)
    if asked != "token":
        answer = oracle.sql(question).arrow().read_all()
        assert sorted(map(str, answer.to_pylist())) == sorted(
            map(str, table.sql(question).cast(answer.schema).to_pylist())
        )
    stored = stored_size(table, kind, item.name)
    assert stored.rows == pytest.approx(item.rows, rel=0.1)
    assert stored.bytes == pytest.approx(item.bytes, rel=0.15 if kind != "view" else 0.5)
    assert advice.apply(table) == []
    assert advice_of(table, path, budget="2000%", kinds=[kind]).items == ()


def test_rows_in_another_order_are_proposed_for_what_no_groups_serve(tmp_path):
    table = made(tmp_path / "t", 30_000, days=4)
    question = "SELECT sum(added) AS s, min(note) AS n FROM t WHERE visit = 'v0000007'"
    path = written(tmp_path / "q.sql", [question])
    before = table.sql(question)
    advice = advice_of(table, path, budget="300%", kinds=["rows"])
    (item,) = advice.items
    assert (item.kind, item.name, item.rows) == ("rows", "rows_by_visit", 30_000)
    planned = table.explain(question, what_if=imagined(advice)).sources
    advice.apply(table)
    assert table.explain(question).sources == planned == {"rows_by_visit": 4}
    assert same_answer(before, table.sql(question))
    assert advice.apply(table) == []


def test_all_kinds_share_one_budget_with_what_is_there(tmp_path, rows):
    table = made(tmp_path / "t")
    asked = questions(rows)
    path = written(tmp_path / "q.sql", asked.values())
    answers = {text: table.sql(text) for text in asked.values()}
    for budget in ("5%", "40%", "400%"):
        advice = advice_of(table, path, budget=budget)
        assert sum(item.bytes for item in advice.items) <= advice.budget_bytes
    commits = advice.apply(table)
    assert commits
    assert stored_bytes(table) == pytest.approx(advice.bytes_after, rel=0.15)
    after = advice_of(table, path, budget=str(stored_bytes(table)))
    assert after.bytes_before == stored_bytes(table)
    assert not any(item.kind in ("projection", "rows", "index", "view") for item in after.items)
    for text, answer in answers.items():
        assert same_answer(answer, table.sql(text))


def test_a_time_that_is_over_gives_what_was_found_and_says_what_is_left(table, rows, tmp_path):
    path = written(tmp_path / "q.sql", questions(rows).values())
    advice = advice_of(table, path, seconds=0)
    assert advice.items == ()
    assert advice.not_examined


def test_small_segments_are_merged_where_queries_spend_their_time_on_them(tmp_path):
    table = made(tmp_path / "t", 100, days=1)
    for number in range(40):
        table.append(rows_of(100, number, days=1))
    question = "SELECT channel, sum(added) AS s FROM t GROUP BY channel"
    path = written(tmp_path / "q.sql", [question])
    before = table.sql(question)
    advice = advice_of(table, path, kinds=["compact"])
    (item,) = advice.items
    assert (item.kind, item.evidence) == ("compact", {"segments": 41, "segments_left": 1})
    assert item.statement.startswith("OPTIMIZE projseg.`")
    assert "compact segments" in str(advice)
    assert "41 segments to 1" in str(advice)
    assert advice.apply(table, materialize=False) == []
    (commit,) = advice.apply(table)
    assert (commit.segments, len(table.segments())) == (1, 1)
    assert same_answer(before, table.sql(question))
    assert advice_of(table, path, kinds=["compact"]).items == ()


def test_an_index_that_no_query_uses_is_dropped(tmp_path, monkeypatch):
    indexes = [projseg.Index("visits", "visit"), projseg.Index("notes", "note", kind="token")]
    table = made(tmp_path / "t", 2000, days=8, indexes=indexes)

    def ask():
        for number in range(120):
            table.query((), "count(*)", f"visit = 'v{number:07}'")

    log = spread_log(tmp_path / "log", ask)
    assert advice_of(table, log, kinds=["drop"], since=None).items == ()
    old = datetime.now(UTC) - timedelta(days=60)
    monkeypatch.setattr(needless, "declared_since", lambda *_: old)
    advice = advice_of(table, log, kinds=["drop"], since=None)
    (item,) = advice.items
    assert (item.name, item.evidence["kind"]) == ("notes", "index")
    assert item.statement.startswith("DROP INDEX `notes` ON TABLE")
    assert item.bytes > 0
    advice.apply(table)
    assert len(table.properties.declared_indexes) == 2
    advice.apply(table, drop=True)
    assert [one.name for one in table.properties.declared_indexes] == ["visits"]


def spread_log(folder, ask):
    log = logging(folder, ask)
    spread(log, days=40)
    return log


@pytest.mark.parametrize("kind", ["projection", "index", "view"])
def test_what_made_its_queries_slower_is_dropped_in_the_next_advice(tmp_path, rows, kind):
    table = made(tmp_path / "t")
    text = questions(rows)[{"projection": "groups", "index": "bloom", "view": "view"}[kind]]
    log = logging(tmp_path / "log", lambda: [table.sql(text) for _ in range(60)])
    advice = advice_of(table, log_of(log, table), budget="300%", kinds=[kind])
    (item,) = advice.items
    advice.apply(table)
    later = logging(tmp_path / "later", lambda: [table.sql(text) for _ in range(60)])
    slow = projseg.read_log(later)
    place = slow.column_names.index("answered_ms")
    slow = slow.set_column(place, "answered_ms", pa.array([1e4] * len(slow)))
    (row,) = projseg.advice_report(table, slow).to_pylist()
    assert (row["kind"], row["verdict"]) == (kind, "WORSE")
    assert (row["rows"], row["queries"]) == (stored_size(table, kind, item.name).rows, 60)
    (drop,) = advice_of(table, slow, kinds=["drop"]).items
    assert (drop.kind, drop.name, drop.evidence["kind"]) == ("drop", item.name, kind)
    assert "ms before" in drop.evidence["reason"]
    next_one = advice_of(table, slow, kinds=["drop"])
    next_one.apply(table, drop=True)
    if kind == "projection":  # segments hold it until they are written again
        assert table.properties.projections == ()
    else:
        assert stored_size(table, kind, item.name) == (0, 0)
    assert f"advice.{item.name}" not in table.properties.properties
    assert projseg.advice_report(table, slow).num_rows == 0


def test_advice_is_stale_where_an_index_or_a_view_means_another(tmp_path, rows):
    table = made(tmp_path / "t")
    asked = questions(rows)
    path = written(tmp_path / "q.sql", [asked["bloom"], asked["view"]])
    index = advice_of(table, path, budget="300%", kinds=["index"])
    view = advice_of(table, path, budget="300%", kinds=["view"])
    table.add_index(projseg.Index(index.items[0].name, "page"))
    table.create_view(view.items[0].name, "SELECT robot, count(*) AS n FROM t GROUP BY robot")
    version = table.version
    for advice in (index, view):
        with pytest.raises(InvalidInputError, match="PROJSEG_ADVICE_STALE"):
            advice.apply(table)
    assert table.newest().version == version
    table.drop_index(index.items[0].name)
    table.drop_column("visit")
    with pytest.raises(InvalidInputError, match=r"PROJSEG_ADVICE_STALE.*no longer fits"):
        index.apply(table)


def test_an_advised_table_with_indexes_deletes_and_views_is_advised_as_it_is(tmp_path, rows):
    table = made(tmp_path / "t", indexes=[projseg.Index("visits", "visit")])
    table.delete("channel = '#3' AND added < 50")
    table.create_view("channels", "SELECT channel, sum(added) AS s FROM t GROUP BY channel")
    asked = questions(rows)
    path = written(tmp_path / "q.sql", asked.values())
    answers = {text: table.sql(text) for text in asked.values()}
    advice = advice_of(table, path, budget="400%")
    assert not any("visit" in item.label for item in advice.items)
    advice.apply(table)
    for text, answer in answers.items():
        assert same_answer(answer, table.sql(text))


CHOICES = [
    "SELECT channel, sum(added) FROM t GROUP BY channel",
    "SELECT date_trunc('DAY', time), count(*) FROM t GROUP BY 1",
    "SELECT count(*) FROM t WHERE visit = 'v0000007'",
    "SELECT added FROM t WHERE price = 7",
    "SELECT robot, channel, max(price) FROM t GROUP BY 1, 2",
    "SELECT visit FROM t WHERE note LIKE '%note 12 %'",
    "SELECT page, added FROM t WHERE page = 'p7' AND robot",
]


def test_greedy_choices_of_all_kinds_are_near_the_best_of_all_sets(tmp_path_factory):
    """The benefit of a set is what planning says of all of it, and not of its members."""
    table = made(tmp_path_factory.mktemp("brute") / "t", 8000, days=70)
    shares = []
    for seed in range(tries(500) // 10 or 5):
        draw = random.Random(seed)
        asked = draw.sample(CHOICES, draw.randrange(2, 5))
        path = written(table_folder(tmp_path_factory) / "q.sql", asked, draw.randrange(20, 90))
        advising, options, shapes = everything(table, path)
        budget = draw.uniform(0.02, 0.8) * sum(one.bytes for one in options)
        saved = np.array([advising._saved(one, shapes) for one in options])
        chosen = advising._search(
            saved.reshape(-1, len(shapes)), [o.bytes for o in options], budget
        )
        gained = benefit(advising, shapes, [options[place] for place in chosen])
        best = max(
            benefit(advising, shapes, several)
            for size in range(len(options) + 1)
            for several in combinations(options, size)
            if sum(one.bytes for one in several) <= budget
        )
        shares.append(gained / best if best else 1.0)
    assert min(shares) >= 0.63
    assert np.median(shares) >= 0.98


def table_folder(factory):
    return factory.mktemp("statements")


def everything(table, path):
    """Return at most seven candidates of all kinds for some statements."""
    from projseg.advisor.known_shapes import known_shapes
    from projseg.advisor.log_records import workload_of
    from projseg.maintenance.sampled_segments import SampledSegments

    spent = SpentTime(600)
    kinds = frozenset(("projection", "rows", "index", "view"))
    work = workload_of(table, path, None)
    assert isinstance(work, LoggedWorkload)
    advising = Advising(table, work, {}, kinds, spent)
    sample = SampledSegments(table.snapshot)
    shapes, _ = known_shapes(work, advising._planning, sample.entries[0], spent)
    options = Sizing(table, sample, shapes, kinds, spent).candidates()
    by_kind = sorted(options, key=lambda one: (one.candidate.kind, one.candidate.name))
    step = max(len(by_kind) / 7, 1)
    return advising, [by_kind[int(n * step)] for n in range(min(7, len(by_kind)))], shapes


def benefit(advising, shapes, several):
    then = advising._then(shapes, several)
    return sum(
        known.total * max(1 - then[known.shape.id].cost / max(known.now.cost, 1), 0.0)
        for known in shapes
    )


def test_measured_advice_is_asked_with_and_without_it_and_leaves_nothing(tmp_path, rows):
    table = made(tmp_path / "t", projections=[projseg.Projection("by_page", ["page"])])
    path = written(tmp_path / "q.sql", questions(rows).values())
    advice = advice_of(table, path, budget="1000%", measure=True)
    assert advice._differing == ()
    for shape in advice.shapes:
        assert shape.is_same_answer is True
        assert min(shape.measured_before, shape.measured_after) > 0
    assert "measured on some segments: " in str(advice)
    assert table.version == 0
    assert advice_of(table, path, budget="1000%").shapes[0].is_same_answer is None


def test_a_wrong_projection_is_found_by_measuring(tmp_path, rows, monkeypatch):
    table = made(tmp_path / "t")
    path = written(tmp_path / "q.sql", [questions(rows)["groups"]])
    built = materialize_projections.build_from_segment

    def without_a_group(*given):
        found = built(*given)
        grouping = {name: one.slice(0, 1) for name, one in found.grouping.items()}
        states = {name: one.slice(0, 1) for name, one in found.states.items()}
        return replace(found, row_count=1, grouping=grouping, states=states)

    monkeypatch.setattr(materialize_projections, "build_from_segment", without_a_group)
    advice = advice_of(table, path, budget="100%", kinds=["projection"], measure=True)
    assert len(advice._differing) == 1
    assert "ANSWERS DIFFER: SELECT" in str(advice)
    words = [table.location, "--queries", str(path), "--budget", "100%", "--measure"]
    run = CliRunner().invoke(app, ["advise", *words, "--seconds", "3600", "--apply", "--yes"])
    assert run.exit_code == 3
    assert "answers differ" in run.output
    assert table.newest().version == 0

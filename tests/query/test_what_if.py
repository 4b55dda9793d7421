"""What-if plans name the sources that would answer if the projections were built or dropped."""

import json
import random

import pytest
from advised_tables import rows_of
from scale import tries
from typer.testing import CliRunner

import projseg
from projseg.cli import app
from projseg.errors import InvalidInputError
from projseg.memory.cache import KEPT

KEYS = [
    "channel", "robot", "date_trunc('HOUR', time)", "date_trunc('DAY', time)", "upper(page)",
    "added % 3",
]  # fmt: skip
CALLS = ["sum(added)", "count(*)", "max(added)", "avg(added)", "min(page)", "count_if(robot)"]
FILTERS = [None, "channel = '#1'", "robot", "added > 50", "channel IN ('#1', '#2') AND NOT robot"]
INTERVALS = [None, "2024-05-01/P2D", "2024-05-01T06:00/PT30H", "2024-05-02T03:10/P1D"]


def made(folder, seed, **options):
    return projseg.Table.create(
        folder,
        data=rows_of(3000, seed, pages=40),
        time_column="time",
        segment_granularity="day",
        **options,
    )


def drawn_projection(draw, name):
    keys = draw.sample(KEYS, draw.randrange(1, 4))
    calls = draw.sample(CALLS, draw.randrange(1, 5))
    where = draw.choice([None, None, None, "robot"])
    return projseg.Projection(
        name,
        [f"{key} AS k{place}" for place, key in enumerate(keys)],
        [f"{call} AS c{place}" for place, call in enumerate(calls)],
        where=where,
    )


def drawn_query(draw):
    return {
        "group_by": draw.sample(KEYS, draw.randrange(3)),
        "aggregators": draw.sample(CALLS, draw.randrange(1, 4)),
        "filter": draw.choice(FILTERS),
        "interval": draw.choice(INTERVALS),
    }


def figures(explained):
    rows = explained.segments.select(["interval", "source", "rows", "rejected"]).to_pylist()
    return sorted(map(str, rows))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(20))
def test_drawn_projections_are_planned_as_after_building(tmp_path, seed):
    draw = random.Random(seed)
    own = [drawn_projection(draw, "own")]
    table = made(tmp_path / "t", seed, projections=own)
    candidates = [drawn_projection(draw, f"candidate{n}") for n in range(3)]
    queries = [drawn_query(draw) for _ in range(max(12, tries(25)))]
    without = draw.choice([[], ["own"]])
    before = [
        figures(table.explain(**query, what_if=candidates, without=without)) for query in queries
    ]
    plain = [figures(table.explain(**query)) for query in queries]
    for candidate in candidates:
        table.add_projection(candidate)
    for name in without:
        table.drop_projection(name)
    table.materialize_projection()
    after = [figures(table.explain(**query)) for query in queries]
    assert before == after
    assert plain != after


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return made(
        tmp_path_factory.mktemp("what_if") / "t",
        1,
        projections=[projseg.Projection("by_page", ["page"], ["sum(added) AS added"])],
        indexes=[projseg.Index("visits", "visit")],
    )


HOURS = projseg.Projection(
    "by_hour", ["date_trunc('HOUR', time) AS h", "channel"], ["max(added) AS most"]
)


def test_nothing_of_it_is_written_kept_or_found(table):
    question = {"group_by": "channel", "aggregators": "max(added)"}
    segments = len(table.segments())
    first = table.explain(**question)
    imagined = table.explain(**question, what_if=[HOURS])
    assert imagined.sources == {"by_hour": segments}
    assert table.explain(**question).sources == first.sources == {"base": segments}
    assert table.query(**question).num_rows == 6
    KEPT.clear()
    assert table.explain(**question, what_if=[HOURS]).sources == {"by_hour": segments}
    assert table.query(**question).num_rows == 6
    assert table.explain(**question).sources == {"base": segments}
    assert projseg.Table(table.location).version == table.version


def test_sources_that_are_not_there_are_marked_in_every_form(table):
    select = "SELECT channel, max(added) FROM t GROUP BY channel"
    found = table.explain(select, what_if=[HOURS])
    assert found.is_hypothetical
    assert "by_hour (what if)" in str(found)
    assert "by_hour (what if)" in repr(found)
    assert "by_hour (what if)" in found._repr_html_()
    assert json.loads(found.to_json())["what_if"] == ["by_hour"]
    pages = "SELECT page, sum(added) FROM t GROUP BY page"
    gone = table.explain(pages, without=["by_page"])
    assert gone.is_hypothetical
    assert set(gone.sources) == {"base"}
    assert "without by_page" in str(gone)
    assert json.loads(gone.to_json())["without"] == ["by_page"]
    assert not table.explain(pages).is_hypothetical


def test_a_question_that_is_covered_already_is_reported(table):
    pages = {"group_by": "page", "aggregators": "sum(added)"}
    same = projseg.Projection("by_page", ["page"], ["sum(added) AS added"])
    assert set(table.explain(**pages, what_if=[same]).sources) == {"by_page"}
    again = projseg.Projection("again", ["page"], ["sum(added) AS added"])
    assert set(table.explain(**pages, what_if=[again]).sources) <= {"by_page", "again"}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"without": ["by_pag"]}, "PROJSEG_UNKNOWN_PROJECTION.*did you mean 'by_page'"),
        ({"what_if": [projseg.Projection("x", ["nothing"])]}, "PROJSEG_BAD_PROJECTION|UNKNOWN"),
        ({"what_if": [projseg.Projection("by_page", ["page"])]}, "PROJSEG_PROJECTION_EXISTS"),
        ({"what_if": [HOURS], "analyze": True}, "PROJSEG_BAD_ARGUMENT"),
        ({"what_if": [projseg.Index("i", "nothing")]}, "PROJSEG_UNKNOWN_COLUMN"),
        ({"what_if": [projseg.Index("i", "added", kind="token")]}, "PROJSEG_BAD_INDEX"),
        ({"what_if": [projseg.Index("visits", "page")]}, "PROJSEG_INDEX_EXISTS"),
    ],
)
def test_what_cannot_be_planned_is_refused(table, options, code):
    with pytest.raises(InvalidInputError, match=code):
        table.explain("channel", "count(*)", **options)


INDEXES = [
    projseg.Index("of_visits", "visit"), projseg.Index("of_pages", "page"),
    projseg.Index("of_prices", ["price", "added"]), projseg.Index("of_lower", "upper(page)"),
    projseg.Index("words", "note", kind="token"), projseg.Index("parts", "note", kind="ngram"),
]  # fmt: skip


def drawn_condition(draw, row):
    """Return a condition that a row fulfils, or one that none does, though no bounds say so.

    Where bounds leave no segment, what-if plans ask no index, and plans ask indexes first.
    """
    value = draw.choice([row["visit"], "v5000000x"])
    several = ", ".join(f"'{one}'" for one in {value, "v0000000", row["page"]})
    return draw.choice(
        [
            f"visit = '{value}'", f"visit IN ({several})", f"page = '{row['page']}'",
            f"price = {row['price']} AND visit = '{value}'", f"upper(page) = 'P{row['page'][1:]}'",
            f"visit = '{value}' OR page = '{row['page']}'", f"price IN ({row['price']}, 5000)",
            f"text_match(note, '{row['note'].split()[1]}')", f"note LIKE '%{row['note'][-8:]}'",
            f"text_match(note, 'word{draw.randrange(9000)}') OR visit = '{value}'",
            f"note LIKE '%{row['note'][5:9]}%' AND added < 50", f"added = {row['added']}",
        ]
    )  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(10))
def test_drawn_indexes_leave_the_segments_that_they_leave_after_building(tmp_path, seed):
    draw = random.Random(seed)
    rows = rows_of(4000, seed, pages=300)
    table = projseg.Table.create(
        tmp_path / "t", data=rows, time_column="time", segment_granularity="day"
    )
    indexes = draw.sample(INDEXES, draw.randrange(1, len(INDEXES) + 1))
    conditions = [
        drawn_condition(draw, rows.slice(draw.randrange(4000), 1).to_pylist()[0])
        for _ in range(tries(60, by_day=20))
    ]
    selects = [
        f"SELECT channel, count(*) FROM t WHERE {one} GROUP BY channel" for one in conditions
    ]
    before = [table.explain(one, what_if=indexes) for one in selects]
    for index in indexes:
        table.add_index(index, materialize=True)
    after = [table.explain(one) for one in selects]
    same = [
        figures(one) == figures(other) and used(one) == used(other)
        for one, other in zip(before, after, strict=True)
    ]
    assert sum(same) >= 0.95 * len(same) - 1  # a filter may hold what its segment does not
    assert all(len(figures(o)) >= len(figures(b)) for b, o in zip(before, after, strict=True))
    assert any(one.figures.pruned_segments for one in before)


def used(explained):
    return sorted(
        (use["index"], use["condition"], use["used"]) for use in explained.indexes.to_pylist()
    )


def test_indexes_that_are_not_there_are_marked_and_asked_as_the_context_says(table):
    wanted = projseg.Index("of_pages", "page")
    select = "SELECT count(*) FROM t WHERE page = 'p7'"
    found = table.explain(select, what_if=[wanted])
    assert found.is_hypothetical
    (line,) = [one for one in str(found).splitlines() if "index of_pages" in one]
    assert line.endswith("(what if)")
    assert "index of_pages on page" in found._repr_html_()
    assert json.loads(found.to_json())["indexes"][0]["index"] == "of_pages"
    without = table.explain(select, what_if=[wanted], context={"noIndexes": True})
    assert without.indexes.num_rows == 0
    same = projseg.Index("visits", "visit")
    assert not table.explain(select, what_if=[same]).hypothetical
    assert table.explain(select).indexes.num_rows == 0


def at_shell(*words):
    return CliRunner().invoke(app, ["explain", *words])


def test_the_shell_takes_it(table):
    sql = "SELECT date_trunc('DAY', time) AS d, channel, max(added) AS m GROUP BY ALL"
    select = "SELECT channel, max(added) FROM t GROUP BY channel"
    for words in ([select], ["--group-by", "channel", "--agg", "max(added)"]):
        done = at_shell(
            table.location, *words, "--what-if", f"days={sql}", "--without", "by_page"
        )  # fmt: skip
        assert done.exit_code == 0
        assert '"source":"days"' in done.stdout.replace(" ", "")
    assert at_shell(table.location, select, "--what-if", sql[:6]).exit_code == 1

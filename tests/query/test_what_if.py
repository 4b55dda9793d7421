"""What-if plans name the sources that would answer if the projections were built or dropped."""

import json
import random
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from scale import tries
from typer.testing import CliRunner

import projseg
from projseg.cli import app
from projseg.errors import InvalidInputError, UnsupportedFeatureError
from projseg.memory.cache import KEPT

START = datetime(2024, 5, 1, tzinfo=UTC)
KEYS = [
    "channel", "robot", "date_trunc('HOUR', time)", "date_trunc('DAY', time)", "upper(page)",
    "added % 3",
]  # fmt: skip
CALLS = ["sum(added)", "count(*)", "max(added)", "avg(added)", "min(page)", "count_if(robot)"]
FILTERS = [None, "channel = '#1'", "robot", "added > 50", "channel IN ('#1', '#2') AND NOT robot"]
INTERVALS = [None, "2024-05-01/P2D", "2024-05-01T06:00/PT30H", "2024-05-02T03:10/P1D"]


def rows_of(count, seed):
    draw = random.Random(seed)
    return pa.table(
        {
            "time": pa.array(
                [START + timedelta(seconds=draw.randrange(4 * 86_400)) for _ in range(count)]
            ),
            "channel": [f"#{draw.randrange(6)}" for _ in range(count)],
            "page": [f"p{draw.randrange(40)}" for _ in range(count)],
            "robot": [draw.random() < 0.3 for _ in range(count)],
            "added": [draw.randrange(100) for _ in range(count)],
        }
    )


def made(folder, seed, **options):
    return projseg.Table.create(
        folder, data=rows_of(3000, seed), time_column="time", segment_granularity="day", **options
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
        ({"what_if": [projseg.Index("i", "page")]}, "PROJSEG_UNSUPPORTED_FUNCTION"),
    ],
)
def test_what_cannot_be_planned_is_refused(table, options, code):
    with pytest.raises((InvalidInputError, UnsupportedFeatureError), match=code):
        table.explain("channel", "count(*)", **options)


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

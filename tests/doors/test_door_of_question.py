"""A question has the door by which it came first, in whatever thread or process it is answered."""

import pyarrow as pa
import pytest

import projseg
from projseg import dbapi
from projseg.cli import app
from projseg.memory.door import door_of_question, through
from projseg.query_pool.messages import TableQuestion
from projseg.spark_engine.engine import reply_to
from projseg.table import version_reader

SELECT = "SELECT channel, sum(added) FROM t GROUP BY channel"


@pytest.fixture
def table(tmp_path):
    rows = {"channel": ["a", "b", "a"], "added": [1, 2, 3]}
    return projseg.Table.create(tmp_path / "t", data=pa.table(rows))


@pytest.fixture
def doors(monkeypatch):
    """The doors of the questions that were planned."""
    seen = []
    plan = version_reader.plan_query

    def planned(*arguments, **named):
        seen.append(door_of_question())
        return plan(*arguments, **named)

    monkeypatch.setattr(version_reader, "plan_query", planned)
    asked = version_reader.plan_asked

    def planned_asked(*arguments, **named):
        seen.append(door_of_question())
        return asked(*arguments, **named)

    monkeypatch.setattr(version_reader, "plan_asked", planned_asked)
    return seen


def test_the_outermost_door_is_the_question_s():
    assert door_of_question() == "python"
    with through("dbapi"), through("duckdb"):
        assert door_of_question() == "dbapi"
        with through("sql"):
            pass
        assert door_of_question() == "dbapi"
    assert door_of_question() == "python"
    with pytest.raises(ZeroDivisionError), through("shell"):
        raise ZeroDivisionError
    assert door_of_question("dataset") == "dataset"


def by_duckdb(table):
    pytest.importorskip("duckdb")
    projseg.duckdb({"t": table}).sql(SELECT)


def by_shell(table):
    from typer.testing import CliRunner

    assert CliRunner().invoke(app, ["sql", table.location, SELECT]).exit_code == 0
    words = ["query", table.location, "--group-by", "channel", "--agg", "count(*)"]
    assert CliRunner().invoke(app, words).exit_code == 0


@pytest.mark.parametrize(
    ("door", "ask"),
    [
        ("python", lambda table: table.query("channel", "sum(added)")),
        ("sql", lambda table: table.sql(SELECT)),
        ("sql", lambda table: projseg.sql(SELECT, {"t": table})),
        ("dataset", lambda table: table.dataset().to_table()),
        ("dataset", lambda table: table.dataset().count_rows()),
        ("dbapi", lambda table: dbapi.connect(table.location).cursor().execute(SELECT)),
        ("duckdb", by_duckdb),
        ("shell", by_shell),
    ],
)
def test_each_door_names_itself(table, doors, door, ask):
    ask(table)
    assert set(doors) == {door}


def test_a_pool_sends_the_door_with_the_question(table, doors):
    with through("dbapi"):
        question = TableQuestion.of_thread(None, "sql", SELECT, {"context": None, "args": None})
    question.answer(table, 1)
    TableQuestion.of_thread(None, "query", "channel", {}).answer(table, 1)
    TableQuestion.of_thread(None, "sql", SELECT, {}).answer(table, 1)
    assert doors == ["dbapi", "python", "sql"]


def test_requests_of_the_engine_come_from_spark(monkeypatch):
    from projseg.spark_engine import engine

    monkeypatch.setitem(engine._OPERATIONS, "door", lambda _: ({"door": door_of_question()}, b""))
    assert reply_to(b'{"op": "door"}') == ({"door": "spark"}, b"")
    assert door_of_question() == "python"

"""A pool answers and refuses as its table does, whoever asks and however workers are started."""

import random
import threading
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pytest

import projseg
from projseg.algebra.time.interval import Interval
from projseg.errors import InvalidInputError

EAST = timezone(timedelta(hours=2))
DAY = (datetime(1970, 1, 1, 2, tzinfo=UTC), datetime(1970, 1, 1, 5, tzinfo=UTC))
BY_NAME = {"group_by": "name", "aggregators": "sum(v) AS v, count(*) AS n"}


class Column(StrEnum):
    NAME = "name"


QUESTIONS = {
    "covered": BY_NAME,
    "filtered": {**BY_NAME, "filter": "name > 'name 3'", "order_by": ["v DESC"], "limit": 7},
    "not covered": {"group_by": ["v % 7 AS k"], "aggregators": ["avg(v) AS m", "max(text)"]},
    "having": {**BY_NAME, "having": "sum(v) > 1590000"},
    "metadata": {"aggregators": "count(*) AS n"},
    "rows": {"columns": "name, list, v", "limit": 100},
    "all rows": {},
    "no rows": {"columns": "name, list", "filter": "v < 0"},
    "no groups": {**BY_NAME, "filter": "v < 0"},
    "rollup": {"group_by": "ROLLUP(v % 2, v % 3)", "aggregators": "count(*) AS n"},
    "text interval": {**BY_NAME, "interval": "1970-01-01T02/1970-01-01T05"},
    "interval": {**BY_NAME, "interval": DAY},
    "interval of a list": {**BY_NAME, "interval": [DAY[0].astimezone(EAST), DAY[1]]},
    "interval of naive times": {**BY_NAME, "interval": [t.replace(tzinfo=None) for t in DAY]},
    "interval of days": {**BY_NAME, "interval": (date(1970, 1, 1), date(1970, 1, 3))},
    "Interval": {**BY_NAME, "interval": Interval.parse("1970-01-01T02/PT3H")},
    "context": {**BY_NAME, "context": {"noProjections": True, "Threads": 2}},
    "set in a context": {**BY_NAME, "context": {"excludeProjections": {"by_name"}}},
    "Query": {"group_by": projseg.Query(**BY_NAME, filter="name = 'name 5'", granularity="hour")},
    "states": {"group_by": projseg.Query("name", "avg(v) AS m", aggregation="partial")},
    "long": {**BY_NAME, "filter": f"name <> '{'x' * 100_000}'"},
    "texts of a class": {"group_by": Column.NAME, "aggregators": "count(*) AS n"},
    "names of a mapping": {"group_by": {"name": 0}.keys(), "aggregators": "count(*) AS n"},
    "context of a view": {**BY_NAME, "context": MappingProxyType({"noProjections": True})},
    "unknown column": {"group_by": "nmae", "aggregators": "count(*)"},
    "bad expression": {"filter": "name >"},
    "bad text": {"filter": "name = '\ud800'"},
    "bad limit": {"limit": "many"},
    "broken limit": {"limit": 2.5},
    "NumPy's limit": {"columns": "v", "limit": np.int64(3)},
    "bad interval": {"interval": "yesterday"},
    "number as interval": {"interval": 3},
    "number as group": {"group_by": 3},
    "object as group": {"group_by": [object]},
    "bad context": {"context": {"thread": 1}},
    "bad context value": {"context": {"threads": 0}},
    "text as context": {"context": "threads"},
    "object as filter": {"filter": object},
    "object in a context": {"context": {"useProjection": object}},
    "division": {"aggregators": "max(v / (v - 5)) AS x"},
    "projection not usable": {
        "aggregators": "max(text) AS t",
        "context": {"forceProjections": True},
    },
    "Query and more": {"group_by": projseg.Query(**BY_NAME), "limit": 3},
    "Query and context": {"group_by": projseg.Query(**BY_NAME), "context": {"threads": 1}},
}
STATEMENTS = [
    "SELECT name, sum(v) AS v FROM t GROUP BY name ORDER BY v DESC LIMIT 3",
    "SELECT count(*) FROM whatever",
    "SELECT max(v) FROM t VERSION AS OF 1",
    "SELECT max(v) FROM t VERSION AS OF 7",
    "SELECT nmae FROM t",
    "SELECT * FROM t JOIN t",
    "DELETE FROM t",
    "SELECT",
    projseg.Query(**BY_NAME),
    3,
]


def outcome(ask, *arguments, **others):
    """Return the rows of an answer in the order of their texts, or the error."""
    try:
        rows = ask(*arguments, **others)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other must raise it, too
        return type(error), getattr(error, "code", None), str(error)
    return rows.schema, sorted(map(str, rows.to_pylist()))


@pytest.fixture(scope="module")
def table(location):
    return projseg.Table(location)


@pytest.fixture(scope="module", params=["fork", "spawn"])
def pool(request, table):
    with projseg.QueryPool(table, workers=2, start_method=request.param) as pool:
        yield pool


@pytest.fixture(autouse=True)
def no_processes():
    """The pool of this module outlives its tests."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_a_pool_answers_and_refuses_as_its_table(pool, table, question):
    expected = outcome(table.query, **question)
    assert outcome(pool.query, **question) == expected
    assert outcome(pool.submit(**question).result) == expected


@pytest.mark.parametrize("statement", STATEMENTS, ids=str)
def test_a_pool_answers_and_refuses_statements_as_its_table(pool, table, statement):
    assert outcome(pool.sql, statement) == outcome(table.sql, statement)
    context = {"timezone": "Asia/Tokyo", "excludeProjections": {"by_name"}}
    expected = outcome(table.sql, statement, context=context)
    assert outcome(pool.sql, statement, context=context) == expected
    assert outcome(pool.sql, statement, context=MappingProxyType(context)) == expected


def test_a_statement_can_be_submitted(pool, table):
    text = "SELECT count(*) FROM t"
    assert pool.submit(text).result() == table.sql(text)
    with pytest.raises(InvalidInputError, match="beside a whole statement"):
        pool.submit(text, limit=3)


def test_a_question_joins_a_dimension(pool, table, tmp_path):
    names = pa.table({"name": ["name 1", "name 2"], "kind": ["odd", "even"]})
    kinds = projseg.Table.create(tmp_path / "kinds", names.schema, data=names)
    join = projseg.Join(kinds, "kinds.name = name", "kinds")
    question = {"group_by": "kinds.kind", "aggregators": "count(*) AS n", "joins": [join]}
    assert pool.query(**question).equals(table.query(**question))


def test_rows_come_in_the_order_that_the_table_gives(pool, table):
    question = {"columns": "v, text, list", "order_by": "text"}
    assert pool.query(**question) == table.query(**question)


def test_many_threads_ask_at_once(pool, table):
    questions = [QUESTIONS[name] for name in ("covered", "filtered", "metadata", "bad limit")]
    expected = [outcome(table.query, **question) for question in questions]
    wrong = []

    def ask(seed):
        chosen = random.Random(seed)
        for _ in range(12):
            number = chosen.randrange(len(questions))
            if outcome(pool.query, **questions[number]) != expected[number]:
                wrong.append(number)

    askers = [threading.Thread(target=ask, args=(seed,)) for seed in range(16)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert wrong == []


def test_large_answers_are_kept_without_open_files(pool, table):
    """Each is memory of its own, which stays as long as any of its columns is used."""
    columns = "text, concat(text, text, text) AS longer"
    expected = table.query(columns=columns)
    assert expected.nbytes > 5 << 20
    answers = [pool.query(columns=columns) for _ in range(8)]
    longer = [answer["longer"] for answer in answers]
    del answers
    assert all(column == expected["longer"] for column in longer)


def test_an_answer_of_many_chunks_and_a_dictionary_arrives_whole(tmp_path):
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, None] * 50_000), ["a", "b" * 90])
    rows = pa.table({"word": words, "n": pa.array(range(150_000))})
    table = projseg.Table.create(tmp_path / "t", rows.schema, target_segment_rows=50_000)
    table.append(rows)
    expected = table.query()
    assert expected.nbytes > 5 << 20
    assert expected["n"].num_chunks > 1
    with projseg.QueryPool(table, workers=1) as pool:
        assert pool.query() == expected


def test_tables_have_names(location, tmp_path):
    other = projseg.Table.create(tmp_path / "other", {"x": "long"}, data={"x": [1, 2]})
    with projseg.QueryPool({"edits": location, "other": other}, workers=1) as pool:
        assert pool.tables["other"] is other
        assert pool.query(table="other").num_rows == 2
        assert pool.sql("SELECT sum(x) AS x FROM t", table="other")["x"].to_pylist() == [3]
        assert pool.submit(aggregators="max(v) AS v", table="edits").result()["v"][0].as_py() > 2
        for asked in ({}, {"table": "othr"}):
            with pytest.raises(InvalidInputError, match="edits, other") as refused:
                pool.query(**asked)
            assert refused.value.code == "PROJSEG_BAD_ARGUMENT"


@pytest.mark.parametrize(
    "arguments",
    [
        {"workers": 0},
        {"workers": 257},
        {"workers": "2"},
        {"workers": True},
        {"threads": 0},
        {"start_method": "forkserver"},
        {"tables": {}},
    ],
    ids=str,
)
def test_arguments_outside_their_range_are_refused(location, arguments):
    with pytest.raises(InvalidInputError) as refused:
        projseg.QueryPool(**{"tables": location, **arguments})
    assert refused.value.code == "PROJSEG_BAD_ARGUMENT"


def test_a_table_by_name_is_refused_as_workers_would_show_its_hidden_columns(location, tmp_path):
    pytest.importorskip("sqlalchemy")
    catalog = projseg.Catalog(tmp_path / "catalog.db")
    catalog.register("edits", location)
    catalog.hide_columns("edits", ["added"])
    with pytest.raises(InvalidInputError, match="hidden columns"):
        projseg.QueryPool(catalog.table("edits"), workers=1)


def test_a_place_without_a_table_is_refused(tmp_path):
    with pytest.raises(InvalidInputError) as refused:
        projseg.QueryPool(tmp_path / "nothing")
    assert refused.value.code == "PROJSEG_NOT_A_TABLE"

"""What a process that asks one question does without, and that the rest comes when it is asked for.

How long a first answer takes is measured by `projseg bench run first-answer`.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import projseg

_NOT_FOR_READING = (
    "numba",
    "pandas",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "rich",
    "typer",
    "hashlib",
    "projseg.declarations",
    "projseg.explain",
    "projseg.maintenance",
    "projseg.input_rows",
    "projseg.spark_datasource",
    "projseg.table.writes",
    "projseg.writer",
    "projseg.algebra.projection.druid_expressions",
    "projseg.algebra.projection.druid_projection",
    "projseg.algebra.projection.parse",
    "projseg.algebra.projection.sql",
    "projseg.aggregation.hash_sketches",
    "projseg.algebra.expressions.patterns.java_regex",
    "projseg.segment_format.column_writer",
    "projseg.segment_format.file.segment_encoder",
    "projseg.segment_format.file.verify_file",
    "projseg.table_layer.commits.commit",
)
_ASK = """
import json, sys
import projseg
location, question, needed = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
answer = projseg.Table(location).query(**question).to_pylist()
print(json.dumps([answer, [name for name in needed if name in sys.modules]]))
"""


@pytest.fixture(scope="module")
def location(tmp_path_factory):
    """A table of three segments; its projection covers questions of channels."""
    location = str(tmp_path_factory.mktemp("first") / "t")
    table = projseg.Table.create(
        location,
        {"channel": "string", "user": "string", "added": "bigint"},
        projections=[projseg.Projection("p", ["channel"], ["sum(added)"])],
    )
    for start in (0, 10, 20):
        numbers = range(start, start + 10)
        table.append(
            [{"channel": "ab"[n % 2], "user": f"user {n % 3}", "added": n} for n in numbers]
        )
    return location


def ask(location, question):
    """Return the answer of a new process, and which of `_NOT_FOR_READING` it imported."""
    arguments = [location, json.dumps(question), json.dumps(_NOT_FOR_READING)]
    told = subprocess.run(
        [sys.executable, "-c", _ASK, *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(told.stdout)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            {"group_by": "channel", "aggregators": "sum(added) AS s"},
            [{"channel": "a", "s": 210}, {"channel": "b", "s": 225}],
        ),
        (
            {"group_by": "user", "aggregators": "count(*) AS n", "filter": "added < 9"},
            [{"user": f"user {k}", "n": 3} for k in range(3)],
        ),
        (
            {"columns": "added", "filter": "user LIKE '%2' AND channel = 'a'", "limit": 2},
            [{"added": 2}, {"added": 8}],
        ),
    ],
    ids=["projection", "base rows", "row scan"],
)
def test_a_question_imports_nothing_that_only_others_need(location, question, answer):
    assert ask(location, question) == [answer, []]


@pytest.mark.parametrize(
    ("question", "answer", "imported"),
    [
        (
            {"aggregators": "count(*) AS n", "filter": "user RLIKE '[12]$'"},
            [{"n": 20}],
            ["projseg.algebra.expressions.patterns.java_regex"],
        ),
        (
            {"aggregators": "approx_count_distinct(user) AS n"},
            [{"n": 3}],
            [
                "projseg.aggregation.hash_sketches",
            ],
        ),
    ],
    ids=["regular expression", "sketch"],
)
def test_what_a_question_needs_is_imported_for_it(location, question, answer, imported):
    found, loaded = ask(location, question)
    assert found == answer
    assert set(imported) <= set(loaded)

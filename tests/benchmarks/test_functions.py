"""Each function is measured by being in the records, and an answer that differs is a problem."""

import json

import pyarrow as pa
import pytest

from projseg.benchmarks.bench import run_scenario
from projseg.benchmarks.scenarios import SCENARIOS, function_costs

NOT_ALONE = {
    "field": "structs are no column here",
    "hll_sketch_estimate": "it reads what an aggregate makes",
    "join_found": "over the rows of a dimension",
    "join_position": "over the rows of a dimension",
    "join_value": "over the rows of a dimension",
    "make_timestamp_ntz": "it takes six arguments",
    "time_bucket": "intervals are no column here",
}


def _run(tmp_path, **arguments):
    scenario = SCENARIOS["functions"]
    given = {**scenario.arguments, **scenario.small, **arguments}
    return run_scenario(scenario, given, lambda line: None, tmp_path)


@pytest.mark.slow
def test_every_function_has_a_case():
    assert function_costs.uncovered_functions() == set(NOT_ALONE)


def test_each_shape_and_role_of_a_function_has_a_figure(tmp_path):
    results = _run(tmp_path, functions="pmod,corr", peers="", rows=60)
    tables = {figure.table for figure in results.figures}
    roles = ("aggregate", "filter", "group", "sort")
    shapes = ("columns", "column and constants")
    expected = {f"{role}, {shape}" for role in roles for shape in shapes}
    assert tables == {*expected, "aggregate, constants", "summary", "worst"}
    assert not results.problems


def test_an_answer_that_differs_is_a_problem(tmp_path, monkeypatch):
    wrong = pa.table({"n": pa.array([0]), "e": pa.array([0])})
    monkeypatch.setitem(function_costs._PEERS, "duckdb", lambda *given: lambda text: wrong)
    results = _run(tmp_path, functions="pmod", roles="aggregate", rows=60)
    assert results.has_wrong_answers
    assert results.problems[0].startswith("differs: duckdb, SELECT count(pmod(")


def test_the_table_of_costs_has_what_is_called_over_columns(tmp_path):
    place = tmp_path / "work.json"
    _run(tmp_path, functions="upper,hash,+", peers="", roles="aggregate", rows=60, work=str(place))
    found = json.loads(place.read_text())
    assert [*found] == ["hash of decimals", "hash of others", "hash of texts", "upper of texts"]
    assert all(len(one) == 1 and one[0] >= 1 for one in found.values())


def test_cases_are_spread_over_all(tmp_path):
    results = _run(tmp_path, functions="pmod,corr", peers="", roles="aggregate", rows=60, cases=3)
    assert len({figure.case for figure in results.figures if figure.table != "summary"}) >= 3
    (summary,) = (figure for figure in results.figures if figure.table == "summary")
    assert summary.values["calls"] + summary.values["refused"] < 8

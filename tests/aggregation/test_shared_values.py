"""An expression that several aggregates read is computed once for the rows of each."""

from collections import Counter

import pyarrow as pa
import pytest

import projseg
from projseg.aggregation import inputs

ROWS = 500
SCHEMA = pa.schema([("k", pa.int32()), ("a", pa.string()), ("b", pa.string())])


@pytest.fixture
def table(tmp_path):
    made = projseg.Table.create(tmp_path / "table", SCHEMA)
    texts = [f"t{n}" for n in range(ROWS)]
    made.append(pa.table({"k": [n % 7 for n in range(ROWS)], "a": texts, "b": texts}, SCHEMA))
    return made


@pytest.fixture
def computed(monkeypatch):
    """How often each expression was computed."""
    counts = Counter()

    def counted(expression, rows, evaluate=inputs.evaluate_over):
        counts[str(expression)] += 1
        return evaluate(expression, rows)

    monkeypatch.setattr(inputs, "evaluate_over", counted)
    return counts


CALLS = ["count(concat(a, b))", "max(concat(a, b))", "min(concat(a, b))", "count(DISTINCT a, b)"]


@pytest.mark.parametrize("group_by", [(), ("k",)])
def test_several_aggregates_share_what_they_read(table, computed, group_by):
    together = table.query(group_by=list(group_by), aggregators=CALLS, order_by=list(group_by))
    assert max(computed.values()) == 1
    apart = [
        table.query(group_by=list(group_by), aggregators=[call], order_by=list(group_by)).columns[
            -1
        ]
        for call in CALLS
    ]
    assert together.columns[len(group_by) :] == apart


def test_rows_of_a_filter_are_computed_by_themselves(table, computed):
    calls = ["count(concat(a, b)) FILTER (WHERE k < 3) AS n", "max(concat(a, b)) AS m"]
    (row,) = table.query(aggregators=calls).to_pylist()
    assert row == {"n": sum(n % 7 < 3 for n in range(ROWS)), "m": "t9t9"}


def test_an_error_is_raised_as_by_one(table):
    with pytest.raises(projseg.errors.EvaluationError):
        table.query(
            aggregators=["max(CAST(concat(a, b) AS int))", "min(CAST(concat(a, b) AS int))"]
        )

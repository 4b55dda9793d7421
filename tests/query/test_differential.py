"""Projections, base rows and a Python oracle give one answer, whatever the mix of segments."""

import tempfile

import pyarrow as pa
import pytest
import rows_oracle
from answers_agree import assert_same
from asking import ask, declare
from hypothesis import given, settings
from query_cases import CASE, SCHEMA
from scale import tries

import projseg
from projseg.errors import EvaluationError

CASES = tries(800, 30)
OVERFLOWS = object()


def make_table(location, case):
    """One append a batch; projection n is declared after batch n, so sources are mixed."""
    table = projseg.Table.create(
        location, SCHEMA, time_column="time", segment_granularity="day", target_segment_rows=20
    )
    for number, rows in enumerate(case.batches):
        if number < len(case.projections):
            declare(table, f"p{number}", case.projections[number])
        table.append(pa.Table.from_pylist(rows, SCHEMA))
    return table


def expected_answer(rows, query):
    keys = [key.of for key in query.keys]
    calls = [aggregate.call for aggregate in query.aggregates]
    having = None if query.having is None else query.having.call
    answer = rows_oracle.answer(rows, keys, calls, query.keep, having)
    for values in answer.values():
        for value, aggregate in zip(values, query.aggregates, strict=True):
            overflows = isinstance(value, int) and not -(2**63) <= value < 2**63
            if aggregate.call[0] == "sum" and overflows:
                return OVERFLOWS
    return answer


@settings(max_examples=CASES)
@given(CASE)
def test_every_source_gives_the_oracles_answer(case):
    rows = [row for batch in case.batches for row in batch]
    with tempfile.TemporaryDirectory() as location:
        table = make_table(location, case)
        for query in case.queries:
            expected = expected_answer(rows, query)
            for context in ({}, {"noProjections": True}):
                if expected is OVERFLOWS:
                    with pytest.raises(EvaluationError, match="PROJSEG_OVERFLOW"):
                        ask(table, query, **context)
                else:
                    assert_same(ask(table, query, **context), expected)
        assert table.verify(deep=True) == []

"""Projections, base rows and a Python oracle give one answer, whatever the mix of segments."""

import tempfile

import pyarrow as pa
import rows_oracle
from answers_agree import assert_same
from hypothesis import given, settings
from query_cases import CASE, SCHEMA
from scale import IS_NIGHTLY

import projseg
from projseg.errors import EvaluationError

CASES = 20_000 if IS_NIGHTLY else 300


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


def declare(table, name, projection):
    table.add_projection(
        projseg.Projection(
            name,
            [f"{key.sql} AS k{n}" for n, key in enumerate(projection.keys)],
            [f"{a.sql} AS a{n}" for n, a in enumerate(projection.aggregates)],
            where=None if projection.condition is None else projection.condition.sql,
        )
    )


def ask(table, query, **context):
    try:
        result = table.query(
            group_by=[f"{key.sql} AS k{n}" for n, key in enumerate(query.keys)],
            aggregators=[f"{a.sql} AS a{n}" for n, a in enumerate(query.aggregates)],
            filter=None if query.condition is None else query.condition.sql,
            interval=query.interval,
            context=context,
        )
    except EvaluationError as error:
        return str(error.code)
    width = len(query.keys)
    rows = [tuple(row.values()) for row in result.to_pylist()]
    answer = {tuple(map(rows_oracle.normal, row[:width])): row[width:] for row in rows}
    assert len(answer) == len(rows), "a group stands twice in the answer"
    return answer


def expected_answer(rows, query):
    keys = [key.of for key in query.keys]
    answer = rows_oracle.answer(rows, keys, [a.call for a in query.aggregates], query.keep)
    for values in answer.values():
        for value, aggregate in zip(values, query.aggregates, strict=True):
            overflows = isinstance(value, int) and not -(2**63) <= value < 2**63
            if aggregate.call[0] == "sum" and overflows:
                return "PROJSEG_OVERFLOW"
    return answer


@settings(max_examples=CASES)
@given(CASE)
def test_every_source_gives_the_oracles_answer(case):
    rows = [row for batch in case.batches for row in batch]
    with tempfile.TemporaryDirectory() as location:
        table = make_table(location, case)
        for query in case.queries:
            expected = expected_answer(rows, query)
            with_projections = ask(table, query)
            from_base = ask(table, query, noProjections=True)
            if isinstance(expected, str):
                assert with_projections == from_base == expected
            else:
                assert_same(from_base, expected)
                assert_same(with_projections, expected)
        assert table.verify(deep=True) == []

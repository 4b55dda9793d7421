"""`Table.sql` and DuckDB give the same rows for the same statements."""

import pytest
from answers_agree import same
from scale import one_of
from sql_statements import (
    OF_ALL,
    duckdb_over,
    in_duckdb,
    statement_rows,
    statement_table,
    values_of,
)


@pytest.fixture(scope="module")
def rows():
    return statement_rows()


@pytest.fixture(scope="module")
def table(rows, tmp_path_factory):
    return statement_table(tmp_path_factory.mktemp("sql") / "edits", rows)


@pytest.fixture(scope="module")
def peer(rows):
    with duckdb_over(rows) as connection:
        yield connection


@pytest.mark.parametrize("statement", one_of(3, OF_ALL))
@pytest.mark.parametrize(
    "context",
    [{}, pytest.param({"noProjections": True}, marks=pytest.mark.slow)],
    ids=["any", "base"],
)
def test_duckdb_agrees(statement, context, table, peer):
    expected = values_of(peer.sql(in_duckdb(statement)).to_arrow_table())
    found = values_of(table.sql(statement, context=context))
    assert len(found) == len(expected)
    for row, other in zip(found, expected, strict=True):
        assert all(map(same, row, other)), (row, other)

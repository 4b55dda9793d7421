"""The lists of queries are well formed, and every dialect's text says the same."""

from __future__ import annotations

import pytest
import sqlglot

from projseg.benchmarks.engine_comparison import ENGINES, select_engines
from projseg.benchmarks.peers.statements import (
    rollup_definition,
    rollup_statement,
    spark_statement,
    statement,
)
from projseg.benchmarks.written_workloads import EDITS, HOURLY_EDITS, LINEITEM
from projseg.errors import InvalidInputError

WORKLOADS = [EDITS, LINEITEM, HOURLY_EDITS]
QUERIES = [*EDITS.queries, *LINEITEM.queries]


def test_names_are_unique_and_projections_exist():
    assert len({query.name for query in QUERIES}) == len(QUERIES)
    assert len({engine.name for engine in ENGINES}) == len(ENGINES)
    for workload in WORKLOADS:
        projections = {projection.name for projection in workload.projections}
        assert {query.covered_by for query in workload.queries} - {None} == projections
        assert {query.table for query in workload.queries} == {workload.name}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_every_statement_parses_with_the_query_s_outputs(query):
    for dialect in ("duckdb", "clickhouse"):
        tree = sqlglot.parse_one(statement(query, dialect), read=dialect)
        assert tuple(tree.named_selects) == query.output_names
    assert tuple(sqlglot.parse_one(spark_statement(query), read="spark").named_selects) == (
        query.output_names
    )


def test_limited_answers_are_totally_ordered():
    for query in QUERIES:
        if query.limit is not None:
            assert query.order_by[-1] in query.group_by


def test_a_rollup_answers_exactly_the_covered_queries():
    for query in EDITS.queries:
        assert (rollup_statement(query) is None) == (query.covered_by is None)
    (hours,) = EDITS.select(["by_hour_channel"])
    assert rollup_statement(hours) == (
        "SELECT hour AS hour, channel, sum(total_added) AS total_added, sum(edits) AS edits"
        " FROM by_hour_channel_country GROUP BY hour, channel"
    )
    assert "hll_sketch_agg(user) AS users" in rollup_definition(EDITS.projections[2])


def test_selection_keeps_the_list_s_order_and_refuses_unknown_names():
    assert [query.name for query in EDITS.select(["by_page", "total"])] == ["total", "by_page"]
    assert EDITS.select([]) == EDITS.queries
    with pytest.raises(InvalidInputError, match="did you mean 'by_page'"):
        EDITS.select(["by_pages"])
    duckdb, clickhouse = select_engines(["clickhouse", "duckdb"])
    assert (duckdb.name, clickhouse.name) == ("duckdb", "clickhouse")
    with pytest.raises(InvalidInputError, match="did you mean 'duckdb'"):
        select_engines(["duckd"])

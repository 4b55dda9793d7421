"""The list of queries is well formed, and every dialect's text says the same."""

from __future__ import annotations

import pytest
import sqlglot

from projseg.benchmarks.peers.registry import ENGINES, select_engines
from projseg.benchmarks.peers.statements import (
    rollup_definition,
    rollup_statement,
    spark_statement,
    statement,
)
from projseg.benchmarks.queries import PROJECTIONS, QUERIES, select_queries
from projseg.errors import InvalidInputError


def test_names_are_unique_and_projections_exist():
    assert len({query.name for query in QUERIES}) == len(QUERIES)
    assert len({engine.name for engine in ENGINES}) == len(ENGINES)
    projections = {projection.name for projection in PROJECTIONS}
    assert {query.covered_by for query in QUERIES} - {None} == projections


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
    for query in QUERIES:
        assert (rollup_statement(query) is None) == (query.covered_by is None)
    (hours,) = select_queries(["by_hour_channel"])
    assert rollup_statement(hours) == (
        "SELECT hour AS hour, channel, sum(total_added) AS total_added, sum(edits) AS edits"
        " FROM by_hour_channel_country GROUP BY hour, channel"
    )
    assert "hll_sketch_agg(user) AS users" in rollup_definition(PROJECTIONS[2])


def test_selection_keeps_the_list_s_order_and_refuses_unknown_names():
    assert [query.name for query in select_queries(["by_page", "total"])] == ["total", "by_page"]
    assert select_queries([]) == QUERIES
    assert select_engines([]) == ENGINES
    with pytest.raises(InvalidInputError, match="did you mean 'by_page'"):
        select_queries(["by_pages"])
    with pytest.raises(InvalidInputError, match="did you mean 'duckdb'"):
        select_engines(["duckd"])

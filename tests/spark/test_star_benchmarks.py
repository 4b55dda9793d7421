"""TPC-H and the star-schema benchmark: every query of projseg tables answers as of Parquet."""

from __future__ import annotations

import pytest

from projseg.benchmarks.bench import Bench
from projseg.benchmarks.scenarios.star_queries import ask_star_queries
from projseg.errors import MissingPackageError

PLANTED = {"tpch Q1", "tpch Q4", "tpch Q6", "tpch Q12", "tpch Q15"}
BELOW_JOINS = {"tpch Q14", "tpch Q18"}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_queries_answer_as_of_parquet(spark, tmp_path):
    bench = Bench({"scale": 0.01, "rounds": 1}, tmp_path, lambda line: None)
    before = {table.name for table in spark.catalog.listTables()}
    spark.conf.set("spark.projseg.enabled", "true")
    try:
        ask_star_queries(bench, spark)
    except MissingPackageError as error:
        pytest.skip(str(error))
    finally:
        spark.conf.set("spark.projseg.enabled", "false")
        for table in spark.catalog.listTables():
            if table.isTemporary and table.name not in before:
                spark.catalog.dropTempView(table.name)
    assert bench.problems == []
    how = {one.case: one.values["answered"] for one in bench.figures if one.way == "projseg"}
    assert [sum(name.startswith(kind) for name in how) for kind in ("tpch", "ssb")] == [22, 13]
    stars = {name for name in how if name.startswith("ssb")}
    assert {name for name in how if how[name] == "planted"} >= PLANTED | stars
    assert {name for name in how if "below a join" in how[name]} >= BELOW_JOINS

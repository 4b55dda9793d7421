"""TPC-H and the star-schema benchmark: every query of projseg tables answers as of Parquet."""

from __future__ import annotations

import pytest

from projseg.benchmarks import tpch_sql
from projseg.errors import MissingPackageError

PLANTED = {"Q1", "Q6", "Q15"}
BELOW_JOINS = {"tpch Q14", "tpch Q18", "ssb Q1.1", "ssb Q1.2", "ssb Q1.3"}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_queries_answer_as_of_parquet(spark, tmp_path):
    spark.conf.set("spark.projseg.enabled", "true")
    try:
        found = tpch_sql.run(spark, tmp_path, scale=0.01, runs=1)
    except MissingPackageError as error:
        pytest.skip(str(error))
    finally:
        spark.conf.set("spark.projseg.enabled", "false")
    assert len(found["tpch"]) == 22
    assert len(found["ssb"]) == 13
    different = [
        q for name in ("tpch", "ssb") for q, one in found[name].items() if not one["equal"]
    ]
    assert different == []
    assert {q for q, one in found["tpch"].items() if one["how"] == ["planted"]} >= PLANTED
    assert set(found["below_joins"]) >= BELOW_JOINS

"""Every spelling of an equality of floats has Spark's answer over Parquet, and changes its rows."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow.parquet as pq
import pytest
from float_cases import LAYOUTS, WIDTHS, drawn_rows, make_table, same, spellings
from scale import tries
from spark_sql import using

CASES = [(width, seed) for seed in range(tries(8, 1)) for width in sorted(WIDTHS)]


def answer(spark, text):
    """Return the rows of a statement as tuples, floats as what is equal for equal ones."""
    return [tuple(map(same, row)) for row in spark.sql(text).collect()]


@pytest.mark.parametrize(("width", "seed"), CASES)
def test_spark_and_projseg_know_one_equality(spark, tmp_path, width, seed):
    r = random.Random(seed)
    rows, plain = drawn_rows(r, 60, width)
    pq.write_table(rows, tmp_path / "rows.parquet")
    spark.read.parquet(str(tmp_path / "rows.parquet")).createOrReplaceTempView("floats_parquet")
    layout = r.choice(LAYOUTS)
    place = tmp_path / "t"
    make_table(place, layout, rows, width)
    spark.read.format("projseg").load(str(place)).createOrReplaceTempView("floats_projseg")
    cases = [(text, truth) for text, given, truth in spellings(r, width) if given is None]
    asked = r.sample(cases, 8)
    for text, truth in asked:
        expected = Counter(truth(row["v"], row["w"]) for row in plain)
        true = sorted(row["id"] for row in plain if truth(row["v"], row["w"]) is True)
        for table in ("floats_parquet", "floats_projseg"):
            for enabled in ("true", "false"):
                why = (layout, text, table, enabled)
                with using(spark, enabled=enabled):
                    found = answer(spark, f"SELECT id FROM {table} WHERE {text}")
                    assert sorted(found) == [(one,) for one in true], why
                    found = answer(spark, f"SELECT ({text}), count(*) FROM {table} GROUP BY 1")
                    assert dict(found) == dict(expected), why
    keys = "SELECT DISTINCT w FROM floats_parquet WHERE id % 3 = 0"
    joined = f"{{}} JOIN ({keys}) AS k ON t.v = k.w"
    for text in (
        "SELECT v, count(*), min(w), max(w), count(DISTINCT w) FROM {} AS t GROUP BY v",
        f"SELECT t.v, count(*), sum(t.id) FROM {joined.format('{} AS t')} GROUP BY t.v",
        f"SELECT count(*) FROM {{}} AS t WHERE v IN ({keys})",
        f"SELECT count(*) FROM {{}} AS t WHERE NOT EXISTS (SELECT 1 FROM ({keys}) k WHERE k.w = v)",
        "SELECT count(*), sum(a.id) FROM {} AS a JOIN floats_parquet AS b ON a.v <=> b.w",
    ):
        with using(spark, enabled="true"):
            found = answer(spark, text.format("floats_projseg"))
        assert Counter(found) == Counter(answer(spark, text.format("floats_parquet"))), text


@pytest.mark.parametrize(("width", "seed"), CASES)
def test_statements_change_the_rows_that_are_equal(spark, tmp_path, width, seed):
    r = random.Random(seed)
    rows, plain = drawn_rows(r, 60, width)
    make_table(tmp_path / "t", "grouped", rows, width)
    table = f"projseg.`{tmp_path / 't'}`"
    cases = [(text, truth) for text, given, truth in spellings(r, width) if given is None]
    (updated, to_update), (deleted, to_delete) = r.sample(cases, 2)
    new_keys = {same(value) for value in rows["w"].to_pylist()[:6]}
    pq.write_table(rows.slice(0, 6), tmp_path / "keys.parquet")
    keys = spark.read.parquet(str(tmp_path / "keys.parquet"))
    keys.dropDuplicates(["w"]).createOrReplaceTempView("float_keys")
    expected = [
        (row["id"] + 1000 * (to_update(row["v"], row["w"]) is True), row["v"])
        for row in plain
        if to_delete(row["v"], row["w"]) is not True
    ]
    with using(spark, enabled="true"):
        spark.sql(f"UPDATE {table} SET id = id + 1000 WHERE {updated}")
        spark.sql(f"DELETE FROM {table} WHERE {deleted}")
        found = answer(spark, f"SELECT id, v FROM {table}")
        assert Counter(found) == Counter(expected), (updated, deleted)
        spark.sql(
            f"MERGE INTO {table} AS t USING float_keys AS s ON t.v = s.w "
            "WHEN MATCHED THEN UPDATE SET id = -1"
        )
        found = answer(spark, f"SELECT v, count(*), count_if(id = -1) FROM {table} GROUP BY v")
    groups = Counter(value for _, value in expected)
    assert {row[0]: row[1:] for row in found} == {
        value: (count, count if value is not None and value in new_keys else 0)
        for value, count in groups.items()
    }

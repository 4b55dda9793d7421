"""The first groups in the order of a key, as DuckDB has them: rows behind them are left out."""

import decimal
import math

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import projseg
from projseg.errors import EvaluationError
from projseg.reader.plan import reduced_fold

ROWS = 20_000
BRANDS = 7


def made_rows(seed):
    random = np.random.default_rng(seed)
    number = random.permutation(ROWS)
    numbers = number.tolist()
    doubles = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, *(number / 3 - 100.0).tolist()]
    return pa.table(
        {
            "time": pa.array(np.arange(ROWS) * 1_000_000, pa.timestamp("us", "UTC")),
            "id": pa.array(number * 7919 % (1 << 40) - 1000),
            "part": pa.array(number // 3, mask=number % 11 == 0),
            "real": pa.array(doubles[:ROWS], mask=number % 13 == 0),
            "price": pa.array([decimal.Decimal(n).scaleb(-2) for n in numbers]),
            "wide": pa.array([decimal.Decimal(n - 50) * 10**30 for n in numbers]),
            "name": pa.array([f"name {n * 7919 % ROWS}" if n % 17 else None for n in numbers]),
            "brand": pa.array([f"brand {n % BRANDS}" for n in numbers]),
            "v": pa.array(random.integers(0, 50, ROWS)),
        }
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Two segments of the same groups with some deleted rows, and DuckDB with the others."""
    folder = tmp_path_factory.mktemp("groups") / "t"
    rows = made_rows(1)
    table = projseg.Table.create(folder, rows.schema, time_column="time")
    for part in (rows, made_rows(2)):
        table.append(part)
    table.delete("v = 0")
    peer = duckdb.connect()
    peer.register("every", pa.concat_tables([rows, made_rows(2)]))
    peer.execute("CREATE TABLE kept AS SELECT * FROM every WHERE v <> 0")
    return table, peer


KEYS = ["id", "part", "real", "price", "wide", "name", "part, name", "brand, id", "id, brand, real"]
FILTERS = [None, "v > 20", "v = 7", "id < 0", "v > 1000"]


@pytest.fixture(autouse=True)
def small_samples(monkeypatch):
    monkeypatch.setattr(reduced_fold, "_SAMPLE_ROWS", 1 << 8)


@pytest.mark.parametrize("order", ["", "DESC", "NULLS LAST", "DESC NULLS FIRST", None])
@pytest.mark.parametrize("keys", KEYS)
def test_first_groups_are_duckdbs(tables, keys, order):
    table, peer = tables
    names = keys.split(", ")
    spark_order = order or ""
    if order is not None and "NULLS" not in order:
        spark_order += " NULLS LAST" if "DESC" in order else " NULLS FIRST"
    ascending = [f"{name} ASC NULLS FIRST" for name in names]
    terms = ", ".join(ascending if order is None else [f"{names[0]} {spark_order}", *ascending])
    for condition in FILTERS:
        for limit in (1, 10, 300):
            found = table.query(
                group_by=names,
                aggregators=["count(*) AS n", "sum(v) AS s"],
                filter=condition,
                order_by=[] if order is None else [f"{names[0]} {order}"],
                limit=limit,
            )
            where = f"WHERE {condition}" if condition else ""
            expected = peer.sql(
                f"SELECT {keys}, count(*) AS n, sum(v)::BIGINT AS s FROM kept {where}"
                f" GROUP BY {keys} ORDER BY {terms} LIMIT {limit}"
            ).to_arrow_table()
            assert plain(found) == plain(expected)


def plain(table):
    """Return rows in which NaN equals itself, and zeros are one."""
    rows = []
    for row in table.to_pylist():
        values = (0.0 if value == 0 else value for value in row.values())
        rows.append(["nan" if value != value else value for value in values])
    return rows


def test_rows_behind_the_first_groups_are_not_grouped(tables, monkeypatch):
    table, _ = tables
    left = []
    narrowed = reduced_fold.narrowed

    def recorded(selected, mask):
        found = narrowed(selected, mask)
        left.append(len(found.compact()) / len(mask))
        return found

    monkeypatch.setattr(reduced_fold, "narrowed", recorded)
    asked = {"aggregators": ["count(*) AS n"], "limit": 3}
    for keys in (["id"], ["name", "brand"]):
        table.query(group_by=keys, **asked)
    assert len(left) == 4
    assert max(left) < 0.1
    left.clear()
    table.query(group_by=["brand"], **asked)  # groups so few that all cost less
    table.query(group_by=["id"], order_by=["n"], **asked)
    table.query(group_by=["id"], having="n > 1", **asked)
    table.query(group_by=["id + 1 AS more"], **asked)
    with pytest.raises(EvaluationError):
        table.query(group_by=["id"], aggregators=["sum(1 DIV (v - 7)) AS s"], limit=3)
    assert left == []

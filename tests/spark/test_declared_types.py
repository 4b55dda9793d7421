"""Declared against stored types: each pair that Spark casts gives Spark's values and errors."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import projseg
from projseg.errors import EvaluationError, ProjsegError

pytest.importorskip("sqlalchemy")

VALUES = {
    "boolean": ["true", "false"],
    "tinyint": ["0", "1", "-128", "127"],
    "smallint": ["0", "-32768", "32767", "128"],
    "int": ["0", "1", "-2147483648", "2147483647", "32768"],
    "bigint": ["0", "-1", "-9223372036854775808", "9223372036854775807", "2147483648"],
    "float": ["0.0", "-1.5", "3.4e38", "1e-3", "'NaN'", "'Infinity'", "127.9"],
    "double": ["0.0", "2.5", "1e300", "-1e-7", "'NaN'", "'-Infinity'", "9.3e18"],
    "decimal(10,2)": ["0", "1.25", "-99999999.99", "127.5"],
    "decimal(38,0)": ["0", "1", "99999999999999999999999999999999999999"],
    "string": [
        "'1'",
        "' 12 '",
        "'-1.5'",
        "'1e3'",
        "'true'",
        "'x'",
        "''",
        "'2024-02-29'",
        "'2024-02-29 12:34:56.789'",
        "'128'",
        "'NaN'",
        "'9999999999'",
    ],
    "binary": ["X'31'", "X'C3A4'", "X''"],
    "date": ["'1970-01-01'", "'2024-02-29'", "'0001-01-01'", "'9999-12-31'"],
    "timestamp": ["'1970-01-01 00:00:00'", "'2024-02-29 23:59:59.999999'", "'1900-01-01'"],
    "timestamp_ntz": ["'1970-01-01 00:00:00'", "'2024-02-29 23:59:59.999999'"],
}


CLASS = "org.apache.spark.sql.projseg.ProjsegCatalog"
OUTSIDE = "a time that projseg does not keep: outside years 1 to 9999"


def shown(column, type_):
    """What is compared of a value; texts of floats differ between releases of Java."""
    if type_ in ("float", "double"):
        return column
    return f"hex({column})" if type_ == "binary" else f"CAST({column} AS STRING)"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    folder = tmp_path_factory.mktemp("types")
    with projseg.Catalog(folder / "house.db", warehouse=folder / "warehouse") as made:
        made.init()
        yield made


def oracle(spark, path, own):
    """What Spark makes of each row for each type: a value, None, or `ERROR`; None: no cast."""
    frame, found = spark.read.parquet(path), {}
    for wanted in VALUES:
        try:
            cast = frame.selectExpr("i", f"CAST(c AS {wanted}) AS c")
        except Exception:  # noqa: BLE001 - whatever Spark's analysis raises
            found[wanted] = None
            continue
        tried = f"try_cast(c AS {wanted})"
        parts = ("i", "c IS NULL AS e", f"{tried} IS NULL AS n", f"{shown(tried, wanted)} AS t")
        rows = {}
        for row in frame.selectExpr(*parts).collect():
            rows[row.i] = repr(row.t)
            if row.n and not row.e:  # an error, or NaN as a decimal, which is null
                try:
                    cast.where(f"i = {row.i}").collect()
                except Exception:  # noqa: BLE001 - whatever Spark's task raises
                    rows[row.i] = "ERROR"
            is_late = wanted.startswith(("timestamp", "date")) and str(row.t)[:1] in ("+", "-")
            # Of a decimal beyond a long Spark takes the low bits as microseconds.
            if is_late or (own, wanted, row.i) == ("decimal(38,0)", "timestamp", 2):
                rows[row.i] = OUTSIDE
        found[wanted] = rows
    return found


def declared(spark, house, folder, own):
    """Yield the name of a table of each other type with and without a projection, and its pair
    with what Spark makes of each row."""
    texts = [*VALUES[own], "NULL"]
    listed = ", ".join(f"({i}, CAST({text} AS {own}))" for i, text in enumerate(texts))
    spark.sql(f"SELECT * FROM VALUES {listed} AS v (i, c)").coalesce(1).write.parquet(
        str(folder / "rows")
    )
    rows = pq.read_table(folder / "rows")
    if own.startswith("timestamp"):  # which Spark writes without its zone
        kind = pa.timestamp("us", "UTC" if own == "timestamp" else None)
        rows = rows.set_column(1, "c", rows["c"].cast(kind))
    name = folder.name + str(list(VALUES).index(own))
    by_value = {"name": "p", "sql": "SELECT c, count(*) AS n GROUP BY ALL"}
    plain = projseg.Table.create(folder / "plain", rows.schema)
    summed = projseg.Table.create(folder / "summed", rows.schema, projections=[by_value])
    for start in range(0, rows.num_rows, 3):  # several segments, of which some cannot be cast
        plain.append(rows.slice(start, 3))
        summed.append(rows.slice(start, 3))
    for number, (wanted, expected) in enumerate(oracle(spark, str(folder / "rows"), own).items()):
        for place in ("plain", "summed"):
            full = f"{name}_{number}_{place}"
            columns = [{"name": "i"}, {"name": "c", "sqlType": wanted}]
            house.register(full, folder / place, {"columns": columns})
            yield full, (own, wanted, place), expected


@pytest.mark.parametrize("own", VALUES)
def test_each_pair_is_sparks_cast(spark, house, tmp_path, own):
    for full, pair, expected in declared(spark, house, tmp_path, own):
        if expected is None:
            with pytest.raises(ProjsegError, match="PROJSEG_DECLARED_TYPE"):
                house.sql(f"SELECT c FROM {full}")
            continue
        good = [i for i, text in expected.items() if text not in ("ERROR", OUTSIDE)]
        ids, key = ", ".join(map(str, good)), shown("c", pair[1])
        found = house.sql(f"SELECT i, {key} AS t FROM {full} WHERE i IN ({ids})")
        assert {row["i"]: repr(row["t"]) for row in found.to_pylist()} == {
            i: expected[i] for i in good
        }, pair
        for bad in set(expected) - set(good):
            with pytest.raises(EvaluationError):
                house.sql(f"SELECT c FROM {full} WHERE i = {bad}")
        if len(good) < len(expected):
            with pytest.raises(EvaluationError):
                house.sql(f"SELECT c, count(*) AS n FROM {full} GROUP BY c")
        else:
            groups = house.sql(f"SELECT {key} AS t, count(*) AS n FROM {full} GROUP BY {key}")
            found = {repr(row["t"]): row["n"] for row in groups.to_pylist()}
            assert found == Counter(expected.values()), pair


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("own", VALUES)
def test_each_pair_is_the_same_through_every_door(spark, house, tmp_path, own):
    """Spark by name, from its rows and from answers, and DuckDB; the shell asks `Catalog.sql`."""
    spark.conf.set("spark.sql.catalog.types", CLASS)
    spark.conf.set("spark.sql.catalog.types.uri", str(house.store.database.path))
    for full, pair, expected in declared(spark, house, tmp_path, own):
        named = f"types.default.{full}"
        if expected is None:
            with pytest.raises(Exception, match=r"DATATYPE_MISMATCH|PROJSEG_DECLARED_TYPE"):
                spark.sql(f"SELECT c FROM {named}").collect()
            with pytest.raises(Exception, match="PROJSEG_DECLARED_TYPE"):
                house.duckdb([full]).execute(f'SELECT c FROM "default".{full}').fetchall()
            continue
        good = [i for i, text in expected.items() if text not in ("ERROR", OUTSIDE)]
        ids, key = ", ".join(map(str, good)), shown("c", pair[1])
        for is_enabled in ("true", "false"):
            spark.conf.set("spark.projseg.enabled", is_enabled)
            found = spark.sql(f"SELECT i, {key} AS t FROM {named} WHERE i IN ({ids})").collect()
            assert {row.i: repr(row.t) for row in found} == {i: expected[i] for i in good}, pair
            groups = f"SELECT {key} AS t, count(*) AS n FROM {named} GROUP BY 1"
            if len(good) == len(expected):
                counts = {repr(row.t): row.n for row in spark.sql(groups).collect()}
                assert counts == Counter(expected.values()), pair
                continue
            is_refused = "ERROR" in expected.values()  # times of other years are Spark's own
            for text in (groups, f"SELECT c FROM {named}") if is_refused else ():
                with pytest.raises(Exception, match=r"CAST_|OVERFLOW|NUMERIC|PROJSEG_|DATETIME"):
                    spark.sql(text).collect()
        opened = house.duckdb([full])
        if len(good) == len(expected):
            wanted = house.sql(f"SELECT i, c FROM {full}")
            found = opened.sql(f'SELECT i, c FROM "default".{full} ORDER BY i')
            found, wanted = found.cast(wanted.schema), wanted.sort_by("i")
            assert repr(found.to_pylist()) == repr(wanted.to_pylist()), pair
        else:
            with pytest.raises(Exception, match="PROJSEG_"):
                opened.execute(f'SELECT c FROM "default".{full}').fetchall()
        opened.close()
    spark.conf.set("spark.projseg.enabled", "false")

"""Spark over a catalog in PostgreSQL, and over one behind a server."""

from __future__ import annotations

import pytest
from catalog_servers import started_postgres, started_server

import projseg

pytestmark = pytest.mark.slow
pytest.importorskip("sqlalchemy")
CLASS = "org.apache.spark.sql.projseg.ProjsegCatalog"


@pytest.fixture
def postgres(tmp_path):
    with started_postgres() as uri:
        uri = uri.replace(":@", "@")  # it has no password
        options = {"uri": uri, "warehouse": str(tmp_path / "warehouse")}
        with projseg.Catalog(**options) as beside:
            yield beside, options


@pytest.fixture
def server(tmp_path):
    pytest.importorskip("starlette")
    with projseg.Catalog(tmp_path / "house.db", warehouse=tmp_path / "warehouse") as beside:
        beside.admin.create_tenant("acme", str(tmp_path / "warehouse"), [str(tmp_path)])
        own = projseg.Catalog(tmp_path / "house.db", tenant="acme")
        own.admin.create_principal("ada")
        own.admin.grant("ada", "WRITE", r"s\..*")
        own.admin.grant("ada", "EXTERNAL", r"s\..*", "inline")
        own.create_namespace("s")
        own.create("private", {})
        _, token = own.admin.create_token("ada")
        with started_server(beside) as port:
            yield own, {"uri": f"http://127.0.0.1:{port}", "token": token}
        own.close()


@pytest.mark.parametrize("kind", ["postgres", "server"])
def test_statements_and_rows(spark, request, kind, tmp_path):
    beside, options = request.getfixturevalue(kind)
    name = f"far_{kind}"
    spark.conf.set(f"spark.sql.catalog.{name}", CLASS)
    for key, value in options.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    spark.conf.set("spark.projseg.enabled", "true")
    try:
        _all_of_it(spark.sql, beside, name, tmp_path)
        if kind == "server":
            # Of what no grant gives, nothing is seen.
            with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
                spark.sql(f"SELECT * FROM {name}.default.private")
            assert spark.sql(f"SHOW TABLES IN {name}.default").collect() == []
            with pytest.raises(Exception, match="PROJSEG_PERMISSION_DENIED"):
                spark.sql(f"CREATE TABLE {name}.default.mine (a INT)")
            assert options["token"] not in str(spark.sql("SET -v").collect())
            assert "redacted" in str(spark.sql(f"SET spark.sql.catalog.{name}.token").collect())
    finally:
        spark.conf.set("spark.projseg.enabled", "false")


def _all_of_it(sql, beside, name, tmp_path):
    if "s" not in beside.namespaces():
        sql(f"CREATE NAMESPACE {name}.s")
    sql(
        f"CREATE TABLE {name}.s.t (time TIMESTAMP, k STRING, n BIGINT) PARTITIONED BY (days(time)) "
        "TBLPROPERTIES ('projections' = "
        """'[{"name": "p", "sql": "SELECT k, sum(n) AS n GROUP BY ALL"}]')"""
    )
    assert sql(f"SELECT * FROM {name}.s.t").collect() == []
    sql(
        f"INSERT INTO {name}.s.t VALUES (TIMESTAMP'2024-05-01', 'a', 1), "
        "(TIMESTAMP'2024-05-02', 'b', 2)"
    )
    assert beside.table("s.t").segments().num_rows == 2
    grouped = sql(f"SELECT k, sum(n) AS n FROM {name}.s.t GROUP BY k")
    assert "ProjsegAnswer" in grouped._jdf.queryExecution().optimizedPlan().toString()
    assert sorted(tuple(row) for row in grouped.collect()) == [("a", 1), ("b", 2)]
    sql(f"ALTER TABLE {name}.s.t ADD COLUMN city STRING AFTER k")
    sql(f"ALTER TABLE {name}.s.t RENAME COLUMN n TO m")
    assert sql(f"SELECT * FROM {name}.s.t").columns == ["time", "k", "city", "m"]
    sql(f"CREATE TABLE {name}.s.made AS SELECT k, m FROM {name}.s.t WHERE m > 1")
    assert beside.sql("SELECT m FROM s.made").to_pylist() == [{"m": 2}]
    sql(f"ALTER TABLE {name}.s.made RENAME TO s.other")
    sql(f"UPDATE {name}.s.other SET m = 5 WHERE k = 'b'")
    assert sql(f"SELECT m FROM {name}.s.other").first()[0] == 5
    sql(f"DROP TABLE {name}.s.other")
    sql(f"UNDROP TABLE {name}.s.other")
    assert {row.tableName for row in sql(f"SHOW TABLES IN {name}.s").collect()} == {"t", "other"}
    columns = sql(
        f"SELECT column_name FROM {name}.information_schema.columns WHERE table_name = 't' "
        "ORDER BY ordinal_position"
    )
    assert [row[0] for row in columns.collect()] == ["time", "k", "city", "m"]
    sql(f"CREATE TABLE {name}.s.i (z BIGINT) USING csv OPTIONS (source 'inline', data '7')")
    assert sql(f"SELECT z FROM {name}.s.i").first()[0] == 7
    sql(f"DROP TABLE {name}.s.t PURGE")
    assert not beside.exists("s.t")

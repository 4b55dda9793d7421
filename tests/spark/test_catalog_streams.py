"""Streams from and to tables of `ProjsegCatalog`, which know where they lie."""

from __future__ import annotations

import pytest

import projseg

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_tables_of_the_catalog_are_streamed_by_name(spark, tmp_path):
    spark.conf.set("spark.sql.catalog.flow", "org.apache.spark.sql.projseg.ProjsegCatalog")
    spark.conf.set("spark.sql.catalog.flow.warehouse", str(tmp_path / "house"))
    spark.conf.set("spark.projseg.enabled", "true")
    try:
        spark.sql("CREATE NAMESPACE flow.here")
        for name in ("source", "sink"):
            spark.sql(f"CREATE TABLE flow.here.{name} (s STRING, n INT) USING projseg")
        spark.sql("INSERT INTO flow.here.source VALUES ('a', 1), ('b', 2)")
        rows = spark.readStream.option("filter", "n > 1").table("flow.here.source")
        assert rows.isStreaming
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).toTable("flow.here.sink").awaitTermination()
        sink = projseg.Table(tmp_path / "house" / "here" / "sink")
        assert sink.query().to_pylist() == [{"s": "b", "n": 2}]
        assert "queryId" in dict(sink.history().to_pylist()[0]["operationParameters"])
    finally:
        spark.conf.set("spark.projseg.enabled", "false")

"""What other catalogs take for the same definitions: pyiceberg's SqlCatalog, folders, and Spark."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sized
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import projseg
from projseg.benchmarks.bench import Bench

ICEBERG: Final = "pyiceberg's SqlCatalog"
FOLDERS: Final = "folders"


def add_iceberg(bench: Bench, widths: list[int]) -> None:
    """Measure pyiceberg's catalog in a SQLite file: definitions of so many columns each."""
    if find_spec("pyiceberg") is None:
        bench.progress("pyiceberg is not there: pip install 'pyiceberg[sql-sqlite]'")
        return
    folder = bench.folder / "iceberg"
    folder.mkdir()
    catalog = import_module("pyiceberg.catalog.sql").SqlCatalog(
        "peer", uri=f"sqlite:///{folder}/peer.db", warehouse=f"file://{folder}"
    )
    catalog.create_namespace("default")
    case = f"{len(widths):,} definitions, SQLite"
    with bench.timed("defining", case, ICEBERG):
        for number, width in enumerate(widths):
            catalog.create_table(f"default.t{number}", _schema(width))
    bench.progress(f"{ICEBERG}: defined")
    _add_asked(
        bench,
        "SQLite",
        ICEBERG,
        widths,
        lambda: catalog.list_tables("default"),
        lambda: catalog.load_table("default.t0").schema().fields,
    )


def add_folders(bench: Bench, widths: list[int]) -> None:
    """Measure a warehouse of folders, each a table without rows."""
    from projseg.spark_engine.warehouse import Warehouse  # its packages are no extra's

    folder = bench.folder / "folders"
    made: dict[int, Path] = {}
    case = f"{len(widths):,} definitions, {FOLDERS}"
    with bench.timed("defining", case, FOLDERS):
        for number, width in enumerate(widths):
            place = folder / "default" / f"t{number}"
            if width in made:  # a table is what its folder holds
                shutil.copytree(made[width], place)
            else:
                projseg.Table.create(place, _schema(width))
                made[width] = place
    warehouse = Warehouse(folder)
    names = partial(warehouse.tables, "default")
    first = folder / "default" / "t0"
    _add_asked(bench, FOLDERS, FOLDERS, widths, names, lambda: projseg.Table(first).schema)


def _add_asked(
    bench: Bench,
    database: str,
    way: str,
    widths: list[int],
    names: Callable[[], Sized],
    columns: Callable[[], Sized],
) -> None:
    """Measure the list of names, and one definition."""
    case = f"{len(widths):,} definitions, {database}"
    bench.repeat("all names", case, way, lambda _: len(names()), 10, len(widths))
    case = f"{widths[0]:,} columns, {database}"
    bench.repeat("one definition", case, way, lambda _: len(columns()), 20, widths[0])


def add_spark(bench: Bench, uri: str, tables: int, columns: int, database: str) -> None:
    """Measure lists in a process of Spark over a catalog of definitions."""
    bench.progress(f"{database}: Spark")
    words = [sys.executable, "-c", _SPARK, uri, str(bench.folder / database)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if ran.returncode:
        bench.problems.append(f"failed: Spark: {ran.stderr[-300:]}")
        return
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    for kind, wanted in (("SHOW TABLES", tables), ("count of columns", columns)):
        if found[kind].pop("rows") != wanted:
            bench.problems.append(f"differs: {kind} in Spark")
        bench.add(kind, f"{wanted:,}, {database}", "Spark", found[kind])


def _schema(columns: int) -> pa.Schema:
    return pa.schema([(f"c{number}", pa.int64()) for number in range(columns)])


_SPARK: Final = """
import json, sys, time
import projseg
from pyspark.sql import SparkSession
uri, warehouse = sys.argv[1:]
name = "spark.sql.catalog.house"
builder = projseg.configure(SparkSession.builder.master("local[2]"))
builder = builder.config(name, "org.apache.spark.sql.projseg.ProjsegCatalog")
builder = builder.config(name + ".uri", uri).config(name + ".warehouse", warehouse)
builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
spark = builder.getOrCreate()
spark.sql("SHOW NAMESPACES IN house").collect()

def best(act):
    found = []
    for _ in range(3):
        start = time.perf_counter()
        rows = act()
        found.append(time.perf_counter() - start)
    return {"rows": rows, "ms": min(found) * 1000}

shown = best(lambda: spark.sql("SHOW TABLES IN house.default").count())
columns = "SELECT count(*) FROM house.information_schema.columns"
counted = best(lambda: spark.sql(columns).first()[0])
heap = spark._jvm.java.lang.Runtime.getRuntime().maxMemory() / 2**20
print(json.dumps({"SHOW TABLES": shown, "count of columns": {**counted, "heap MB": heap}}))
"""

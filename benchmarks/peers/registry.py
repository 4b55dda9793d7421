"""The closed list of engines, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from projseg.benchmarks.peers.clickhouse_peer import ClickHouse, ClickHouseProjections
from projseg.benchmarks.peers.duckdb_peer import DuckDbNative, DuckDbParquet
from projseg.benchmarks.peers.engine import Engine
from projseg.benchmarks.peers.projseg_engine import ProjsegBase, ProjsegPool, ProjsegProjections
from projseg.benchmarks.peers.projseg_on_spark import (
    ProjsegSparkOptions,
    ProjsegSparkPlain,
    ProjsegSparkShared,
    ProjsegSparkSql,
    SparkParquetExtended,
)
from projseg.benchmarks.peers.spark_peer import SparkParquet, SparkPrepared, SparkRollup
from projseg.benchmarks.workloads.question import require_known

ENGINES: Final[tuple[type[Engine], ...]] = (
    ProjsegProjections,
    ProjsegBase,
    ProjsegPool,
    DuckDbNative,
    DuckDbParquet,
    ClickHouse,
    ClickHouseProjections,
    SparkParquet,
    SparkParquetExtended,
    SparkRollup,
    SparkPrepared,
    ProjsegSparkSql,
    ProjsegSparkShared,
    ProjsegSparkPlain,
    ProjsegSparkOptions,
)


def select_engines(names: Iterable[str]) -> tuple[type[Engine], ...]:
    """Return the engines of these names in the list's order; refuse a name that is not in it."""
    wanted, known = list(names), [engine.name for engine in ENGINES]
    for name in wanted:
        require_known(name, known, "an engine")
    return tuple(engine for engine in ENGINES if engine.name in wanted)

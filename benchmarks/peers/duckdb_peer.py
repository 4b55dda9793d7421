"""DuckDB over its own table, and over Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from projseg.benchmarks.peers.engine import Engine
from projseg.benchmarks.peers.statements import statement
from projseg.benchmarks.question import Question
from projseg.benchmarks.staging import Source
from projseg.benchmarks.workload import Workload

__all__ = ["DuckDbNative", "DuckDbParquet"]

_BATCHES_PER_GROUP = 8  # a million rows, pyarrow's own default


class _DuckDb(Engine):
    _database: ClassVar[str]

    def __init__(self, folder: Path, thread_count: int, workload: Workload) -> None:
        super().__init__(folder, thread_count, workload)
        import duckdb  # optional: extra [bench]

        self._duckdb = duckdb
        self._connection: Any = None

    def version(self) -> str:
        return str(self._duckdb.__version__)

    def open(self) -> None:
        database = self._database.format(folder=self.folder, name=self.workload.name)
        self._connection = self._duckdb.connect(database)
        self._connection.execute(f"SET threads = {self.thread_count}")
        self._connection.execute("SET TimeZone = 'UTC'")

    def run(self, query: Question) -> pa.Table:
        return self._connection.sql(statement(query, "duckdb")).to_arrow_table()

    def drain(self, query: Question) -> None:
        for _ in self._connection.sql(statement(query, "duckdb")).to_arrow_reader(100_000):
            pass

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class DuckDbNative(_DuckDb):
    """A table in a database file. Times are plain timestamps: its zoned ones are slower here."""

    name = "duckdb"
    title = "DuckDB"
    _database = "{folder}/{name}.duckdb"

    def load(self, source: Source) -> None:
        """Insert the Arrow stream and write the checkpoint."""
        self.open()
        rows = source.reader()
        self._connection.register("arriving", rows)
        plain = [
            f"{field.name} AT TIME ZONE 'UTC' AS {field.name}"
            for field in self.workload.dataset.schema
            if pa.types.is_timestamp(field.type)
        ]
        columns = f"* REPLACE ({', '.join(plain)})" if plain else "*"
        self._connection.execute(
            f"CREATE TABLE {self.workload.name} AS SELECT {columns} FROM arriving"
        )
        self._connection.execute("CHECKPOINT")


class DuckDbParquet(_DuckDb):
    """The same engine over Parquet that pyarrow writes, snappy as Spark's default is."""

    name = "duckdb-parquet"
    title = "DuckDB on Parquet"
    _database = ":memory:"

    def load(self, source: Source) -> None:
        """Write the batches as one Parquet file."""
        batches: list[pa.RecordBatch] = []
        with pq.ParquetWriter(self._path, source.schema(), compression="snappy") as writer:
            for batch in source.batches():
                batches.append(batch)
                if len(batches) == _BATCHES_PER_GROUP:
                    writer.write_table(pa.Table.from_batches(batches))
                    batches = []
            if batches:
                writer.write_table(pa.Table.from_batches(batches))

    def open(self) -> None:
        """Define the view over the file."""
        super().open()
        self._connection.execute(
            f"CREATE VIEW {self.workload.name} AS SELECT * FROM '{self._path}'"
        )

    @property
    def _path(self) -> Path:
        return self.folder / f"{self.workload.name}.parquet"

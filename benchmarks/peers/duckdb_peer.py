"""DuckDB over its own table, and over Parquet files."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from projseg.benchmarks.generator import SCHEMA
from projseg.benchmarks.peers.engine import Engine
from projseg.benchmarks.peers.statements import statement
from projseg.benchmarks.queries import Question
from projseg.benchmarks.staging import Source

__all__ = ["DuckDbNative", "DuckDbParquet"]

_BATCHES_PER_GROUP = 8  # a million rows, pyarrow's own default


class _DuckDb(Engine):
    _database: ClassVar[str]

    def __init__(self, folder: Any, thread_count: int) -> None:
        super().__init__(folder, thread_count)
        import duckdb  # optional: extra [bench]

        self._duckdb = duckdb
        self._connection: Any = None

    def version(self) -> str:
        return str(self._duckdb.__version__)

    def open(self) -> None:
        database = self._database.format(folder=self.folder)
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
    _database = "{folder}/edits.duckdb"

    def load(self, source: Source) -> None:
        """Insert the Arrow stream and write the checkpoint."""
        self.open()
        rows = source.reader()
        self._connection.register("arriving", rows)
        self._connection.execute(
            "CREATE TABLE edits AS SELECT * REPLACE (time AT TIME ZONE 'UTC' AS time) FROM arriving"
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
        path = self.folder / "edits.parquet"
        with pq.ParquetWriter(path, SCHEMA, compression="snappy") as writer:
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
            f"CREATE VIEW edits AS SELECT * FROM '{self.folder / 'edits.parquet'}'"
        )

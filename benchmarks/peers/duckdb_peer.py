"""DuckDB over its own table, and over Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from projseg.benchmarks.peers.engine import Client, Engine
from projseg.benchmarks.peers.statements import statement
from projseg.benchmarks.workload import Question, Source, Workload, write_parquet


class DuckDbNative(Engine):
    """A table in a database file. Times are plain timestamps: its zoned ones are slower here."""

    name = "duckdb"
    has_projections = False

    def __init__(self, folder: Path, thread_count: int, workload: Workload) -> None:
        super().__init__(folder, thread_count, workload)
        import duckdb  # optional: extra [bench]

        self._duckdb = duckdb
        self._connection: Any = None

    def load(self, source: Source) -> None:
        """Insert the Arrow stream and write the checkpoint."""
        self.open()
        rows = source.reader()
        self._connection.register("arriving", rows)
        plain = [
            f"{field.name} AT TIME ZONE 'UTC' AS {field.name}"
            for field in self.workload.schema
            if pa.types.is_timestamp(field.type)
        ]
        columns = f"* REPLACE ({', '.join(plain)})" if plain else "*"
        self._connection.execute(
            f"CREATE TABLE {self.workload.name} AS SELECT {columns} FROM arriving"
        )
        self._connection.execute("CHECKPOINT")

    def open(self) -> None:
        """Connect."""
        self._connection = self._duckdb.connect(self._database)
        self._connection.execute(f"SET threads = {self.thread_count}")
        self._connection.execute("SET TimeZone = 'UTC'")

    def run(self, query: Question) -> pa.Table:
        """Return the answer as Arrow."""
        return self._connection.sql(statement(query, "duckdb")).to_arrow_table()

    def client(self) -> Client:
        """Return a cursor, as a connection serves one query at a time; all share the threads."""
        cursor = self._connection.cursor()
        return lambda query: cursor.sql(statement(query, "duckdb")).to_arrow_table()

    def drain(self, query: Question) -> None:
        """Read batches."""
        for _ in self._connection.sql(statement(query, "duckdb")).to_arrow_reader(100_000):
            pass

    def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            self._connection.close()

    @property
    def _database(self) -> str:
        return f"{self.folder}/{self.workload.name}.duckdb"


class DuckDbParquet(DuckDbNative):
    """The same engine over Parquet that pyarrow writes."""

    name = "duckdb-parquet"

    def load(self, source: Source) -> None:
        """Write the batches as one Parquet file."""
        write_parquet(source.reader(), self._path)

    def open(self) -> None:
        """Define the view over the file."""
        super().open()
        self._connection.execute(
            f"CREATE VIEW {self.workload.name} AS SELECT * FROM '{self._path}'"
        )

    @property
    def _database(self) -> str:
        return ":memory:"

    @property
    def _path(self) -> Path:
        return self.folder / f"{self.workload.name}.parquet"

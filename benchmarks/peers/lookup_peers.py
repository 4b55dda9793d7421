"""Other engines over rows that come in pieces, for lookups: DuckDB over Parquet, and ClickHouse."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


class ParquetFiles:
    """DuckDB over Parquet files that it writes, one for each piece.

    Parameters
    ----------
    folder : Path
        A new folder.
    pieces : iterable of pa.Table
        The rows.
    options : str
        Of COPY, each with a comma before it.
    """

    def __init__(self, folder: Path, pieces: Iterable[pa.Table], options: str = "") -> None:
        import duckdb  # optional: extra [bench]

        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 2")
        self._files = f"'{folder}/*.parquet'"
        folder.mkdir()
        for number, piece in enumerate(pieces):
            self.connection.register("piece", piece)
            copy = f"COPY piece TO '{folder}/{number}.parquet' (FORMAT parquet{options})"
            self.connection.execute(copy)

    def select(self, outputs: str, condition: str) -> list[tuple[Any, ...]]:
        """Return the rows that fulfil a condition."""
        text = f"SELECT {outputs} FROM {self._files} WHERE {condition}"
        return list(self.connection.execute(text).fetchall())


class ClickHouseTable:
    """A MergeTree table ordered by time, whose parts are merged into one.

    Parameters
    ----------
    folder : Path
        A new folder.
    pieces : iterable of pa.Table
        The rows.
    columns : str
        Columns and indexes, as of CREATE TABLE.
    settings : str
        Of the table.
    """

    def __init__(
        self, folder: Path, pieces: Iterable[pa.Table], columns: str, settings: str = ""
    ) -> None:
        from chdb import session  # optional and large: installed by hand

        library: Any = session  # chdb has no type hints
        self._session = library.Session(str(folder))
        self._session.query("CREATE DATABASE IF NOT EXISTS bench ENGINE = Atomic")
        self._session.query(
            f"CREATE TABLE bench.rows ({columns}) ENGINE = MergeTree ORDER BY time {settings}"
        )
        arriving = folder.with_suffix(".parquet")
        for piece in pieces:
            pq.write_table(piece, arriving)
            insert = f"INSERT INTO bench.rows SELECT * FROM file('{arriving}', 'Parquet')"
            self._session.query(insert)
        self._session.query("OPTIMIZE TABLE bench.rows FINAL")

    def select(self, outputs: str, condition: str) -> list[str]:
        """Return the rows that fulfil a condition, as lines of CSV."""
        text = f"SELECT {outputs} FROM bench.rows WHERE {condition}"
        return str(self._session.query(text, "CSV")).splitlines()

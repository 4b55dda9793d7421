"""ClickHouse in this process through chdb, without and with its own projections.

Columns of at most 200 values are LowCardinality, as its users would have them, and rows are ordered
by time. The parts are merged into one before anything is measured.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from projseg.benchmarks.peers.engine import Client, Engine
from projseg.benchmarks.peers.statements import clickhouse_text, statement
from projseg.benchmarks.workload import Question, Rollup, Source, Workload

_COLUMNS = {
    "edits": (
        "time DateTime64(6, 'UTC'), channel LowCardinality(String), page String, user String,"
        " country LowCardinality(String), device LowCardinality(String), robot Bool,"
        " added Int32, deleted Int32, price Float64"
    ),
    "lineitem": (
        "l_orderkey Int64, l_partkey Int64, l_suppkey Int64, l_linenumber Int32,"
        " l_quantity Decimal(15, 2), l_extendedprice Decimal(15, 2), l_discount Decimal(15, 2),"
        " l_tax Decimal(15, 2), l_returnflag LowCardinality(String),"
        " l_linestatus LowCardinality(String), l_shipdate Date, l_commitdate Date,"
        " l_receiptdate Date, l_shipinstruct LowCardinality(String),"
        " l_shipmode LowCardinality(String), l_comment String"
    ),
}
# Of other workloads.
_TYPES: Final = {
    pa.string(): "String",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.float64(): "Float64",
    pa.timestamp("us", tz="UTC"): "DateTime64(6, 'UTC')",
}


class ClickHouse(Engine):
    """A MergeTree table ordered by time."""

    name = "clickhouse"
    has_projections = False

    def __init__(self, folder: Path, thread_count: int, workload: Workload) -> None:
        super().__init__(folder, thread_count, workload)
        from chdb import session  # optional and large: installed by hand

        library: Any = session  # chdb has no type hints
        self._session = library.Session(str(folder / "clickhouse"))
        self._session.query("CREATE DATABASE IF NOT EXISTS bench ENGINE = Atomic")
        self._settings = f"SETTINGS max_threads = {thread_count}, session_timezone = 'UTC'"

    def load(self, source: Source) -> None:
        """Insert from the mapped Arrow table."""
        definitions = "".join(f", {_projection(spec)}" for spec in self.projections)
        self._session.query(
            f"CREATE TABLE {self._table} ({self._columns}{definitions})"
            f" ENGINE = MergeTree ORDER BY {self.workload.time_column}"
        )
        arriving = source.table()  # chdb's Python() finds it by this name
        self._session.query(
            f"INSERT INTO {self._table} SELECT * FROM Python(arriving)"
            f" {self._settings}, max_insert_threads = {self.thread_count}"
        )
        del arriving

    def settle(self) -> None:
        """Merge the parts into one."""
        self._session.query(f"OPTIMIZE TABLE {self._table} FINAL")

    def sizes(self) -> tuple[int, int]:
        """Return the bytes of the active parts."""
        everything = self._number("sum(bytes_on_disk)", "system.parts")
        projections = self._number("sum(bytes_on_disk)", "system.projection_parts")
        return everything - projections, projections

    def open(self) -> None:
        """Touch the table, which loads its parts."""
        self._session.query(f"SELECT count() FROM {self._table}")

    def run(self, query: Question) -> pa.Table:
        """Return the answer as ClickHouse's own Arrow stream."""
        return pa.ipc.open_stream(self._answer(query).bytes()).read_all()

    def drain(self, query: Question) -> None:
        """Send the rows to ClickHouse's own sink that drops them."""
        self._answer(query, "Null")

    def work(self, query: Question) -> dict[str, Any]:
        """Return rows and uncompressed bytes that the query read from parts."""
        answer = self._answer(query)
        return {"rows read": answer.storage_rows_read(), "read bytes": answer.storage_bytes_read()}

    def client(self) -> Client:
        """Return a connection."""
        import chdb

        library: Any = chdb
        connection = library.connect(str(self.folder / "clickhouse"))
        settings = "SETTINGS max_threads = 1, session_timezone = 'UTC'"

        def ask(query: Question) -> pa.Table:
            answer = connection.query(f"{self._text(query)} {settings}", "ArrowStream")
            return pa.ipc.open_stream(answer.bytes()).read_all()

        return ask

    def close(self) -> None:
        """End the session."""
        self._session.close()

    @property
    def _columns(self) -> str:
        known = _COLUMNS.get(self.workload.name)
        return known or ", ".join(map(_column, self.workload.schema))

    @property
    def _table(self) -> str:
        return f"bench.{self.workload.name}"

    def _answer(self, query: Question, output_format: str = "ArrowStream") -> Any:
        return self._session.query(f"{self._text(query)} {self._settings}", output_format)

    def _text(self, query: Question) -> str:
        return statement(query, "clickhouse").replace(f"FROM {query.table}", f"FROM {self._table}")

    def _number(self, expression: str, table: str) -> int:
        answer = self._session.query(
            f"SELECT {expression} FROM {table}"
            f" WHERE database = 'bench' AND table = '{self.workload.name}' AND active",
            "TSV",
        )
        return int(str(answer).strip())


class ClickHouseProjections(ClickHouse):
    """The same table with the workload's projections."""

    name = "clickhouse-projections"
    has_projections = True


def _column(field: pa.Field) -> str:
    kind = field.type
    plain = (
        f"Decimal({kind.precision}, {kind.scale})" if pa.types.is_decimal(kind) else _TYPES[kind]
    )
    return f"{field.name} {f'Nullable({plain})' if field.nullable else plain}"


def _projection(spec: Rollup) -> str:
    keys = ", ".join(text.rsplit(" AS ", 1)[0] for text in spec.group_by)
    outputs = ", ".join(spec.group_by + spec.aggregators)
    return f"PROJECTION {spec.name} ({clickhouse_text(f'SELECT {outputs} GROUP BY {keys}')})"

"""TPC-H's `lineitem`: the rows of orders, with decimals, dates and texts that are nearly unique.

The same scale gives the same rows everywhere. They come in the order of their orders, so that no
date is sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from projseg.benchmarks.tpch_tables import generate

__all__ = ["SCHEMA", "LineitemRows"]

_ROWS_PER_BATCH: Final = 131_072
_MONEY: Final = pa.decimal128(15, 2)
SCHEMA: Final = pa.schema(
    [
        ("l_orderkey", pa.int64()),
        ("l_partkey", pa.int64()),
        ("l_suppkey", pa.int64()),
        ("l_linenumber", pa.int32()),
        ("l_quantity", _MONEY),
        ("l_extendedprice", _MONEY),
        ("l_discount", _MONEY),
        ("l_tax", _MONEY),
        ("l_returnflag", pa.string()),
        ("l_linestatus", pa.string()),
        ("l_shipdate", pa.date32()),
        ("l_commitdate", pa.date32()),
        ("l_receiptdate", pa.date32()),
        ("l_shipinstruct", pa.string()),
        ("l_shipmode", pa.string()),
        ("l_comment", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class LineitemRows:
    """The rows of one scale, in a Parquet file."""

    path: Path
    seed: int = 0  # TPC-H's rows have none to choose

    @classmethod
    def made(cls, folder: Path, scale: float) -> LineitemRows:
        """Make the rows: 60 bytes each.

        Raises
        ------
        MissingPackageError
            PROJSEG_MISSING_PACKAGE if tpchgen-cli is not installed.
        """
        folder.mkdir(parents=True, exist_ok=True)
        generate(folder, scale, ["lineitem"])
        return cls(folder / "lineitem.parquet")

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return SCHEMA

    @property
    def row_count(self) -> int:
        """Number of rows: about 6 million times the scale."""
        count: int = pq.read_metadata(self.path).num_rows
        return count

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order."""
        with pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(_ROWS_PER_BATCH):
                yield batch.cast(SCHEMA)

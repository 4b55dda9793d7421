"""TPC-H's rows, made by the program tpchgen-cli of the extra [bench].

The same scale gives the same rows everywhere. Rows of `lineitem` come in the order of their orders,
so that no date is sorted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from projseg.errors import MissingPackageError
from projseg.extras import installing

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


def generate_tpch(folder: Path, scale: float, tables: Sequence[str] = ()) -> None:
    """Make TPC-H's tables, all if none is named, as one Parquet file each.

    Raises
    ------
    MissingPackageError
        PROJSEG_MISSING_PACKAGE if tpchgen-cli is not installed.
    """
    beside = str(Path(sys.executable).parent)
    command = shutil.which("tpchgen-cli", path=os.pathsep.join([beside, os.environ["PATH"]]))
    if command is None:
        raise MissingPackageError(
            "PROJSEG_MISSING_PACKAGE",
            "TPC-H's rows are made by tpchgen-cli, which is not installed; run: "
            + installing("tpchgen-cli"),
        )
    words = [command, "parquet", "-s", f"{scale:g}", "--output-dir", str(folder)]
    if tables:
        words.append(f"--tables={','.join(tables)}")
    subprocess.run(words, check=True, capture_output=True)  # noqa: S603 - a program of the extra


@dataclass(frozen=True, slots=True)
class LineitemRows:
    """The rows of `lineitem` in a Parquet file."""

    path: Path

    @classmethod
    def made(cls, folder: Path, scale: float) -> LineitemRows:
        """Make about 6 million rows times the scale, 60 bytes each."""
        folder.mkdir(parents=True, exist_ok=True)
        generate_tpch(folder, scale, ["lineitem"])
        return cls(folder / "lineitem.parquet")

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return SCHEMA

    @property
    def row_count(self) -> int:
        """Number of rows."""
        count: int = pq.read_metadata(self.path).num_rows
        return count

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order."""
        with pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(_ROWS_PER_BATCH):
                yield batch.cast(SCHEMA)

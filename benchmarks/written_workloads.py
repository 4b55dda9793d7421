"""The workloads whose queries and projections stand in files beside this module; TPC-H's rows.

The rows are made by the program tpchgen-cli of the extra [bench].
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from projseg.algebra.expressions.dialect import split_list
from projseg.benchmarks import generator
from projseg.benchmarks.workload import Question, Rollup, Workload
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

_LISTS: Final = ("group_by", "aggregators", "columns", "order_by")


def _read(name: str, schema: pa.Schema) -> Workload:
    """Read a workload's file; a name in braces stands for one of its texts."""
    text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
    file = tomllib.loads(text)
    texts = {"all": ", ".join(schema.names), **file.get("texts", {})}

    def parts(written: dict[str, Any]) -> dict[str, Any]:
        found = {key: _part(key, value, texts) for key, value in written.items()}
        if "interval" in found:
            found["interval"] = tuple(found["interval"].split("/"))
        return found

    def rollups(section: str) -> tuple[Rollup, ...]:
        return tuple(Rollup(one, **parts(p)) for one, p in file.get(section, {}).items())

    return Workload(
        file["table"],
        schema,
        file["time_column"],
        rollups("projections"),
        tuple(Question(one, **parts(p), table=file["table"]) for one, p in file["queries"].items()),
        file.get("granularity"),
        rollups("tempting"),
    )


def _part(key: str, value: Any, texts: dict[str, str]) -> Any:
    filled = value.format_map(texts) if isinstance(value, str) else value
    return tuple(split_list(filled)) if key in _LISTS else filled


EDITS: Final = _read("edits", generator.SCHEMA)
HOURLY_EDITS: Final = _read("hourly_edits", generator.SCHEMA)
LINEITEM: Final = _read("lineitem", SCHEMA)


def generate_tpch(folder: Path, scale: float, tables: Sequence[str] = ()) -> None:
    """Make TPC-H's tables by tpchgen-cli, all if none is named, as one Parquet file each."""
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
    def in_folder(cls, folder: Path, scale: float) -> LineitemRows:
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

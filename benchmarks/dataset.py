"""The tables of rows that a run is made over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from projseg.benchmarks import generator, lineitem

__all__ = ["DATASETS", "EDITS", "LINEITEM", "Dataset"]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table by its name in SQL.

    Parameters
    ----------
    name : str
        Every engine calls its table so.
    schema : pa.Schema
        Of the staged rows.
    time_column : str
        The column that intervals are about and that rows are arranged by, where an engine does so.
    """

    name: str
    schema: pa.Schema
    time_column: str


EDITS: Final = Dataset("edits", generator.SCHEMA, "time")
LINEITEM: Final = Dataset("lineitem", lineitem.SCHEMA, "l_shipdate")
DATASETS: Final = {dataset.name: dataset for dataset in (EDITS, LINEITEM)}

"""Write TPC-H's and TPC-DS' tables and statements with DuckDB's extensions.

`benchmarks/scenarios/tpc.py` runs this file in an environment of its own, since extensions are
published for fewer releases of DuckDB than there are: it imports nothing of projseg.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Final

import duckdb

_GENERATORS: Final = {"tpch": "dbgen", "tpcds": "dsdgen"}


def write_tables(folder: Path, scale: float) -> None:
    """Write a folder of Parquet files for each suite, and `statements.json` beside them."""
    for suite, generator in _GENERATORS.items():
        (folder / suite).mkdir(parents=True)
        with duckdb.connect() as connection:
            connection.execute(f"LOAD '{_extension(suite)}'")
            connection.execute(f"CALL {generator}(sf = {scale})")
            for (name,) in connection.execute("SHOW TABLES").fetchall():
                path = folder / suite / f"{name}.parquet"
                connection.execute(f"COPY {name} TO '{path}' (FORMAT parquet)")
            found = connection.execute(f"FROM {suite}_queries()").fetchall()
            statements = {f"Q{number}": text for number, text in found}
            (folder / suite / "statements.json").write_text(json.dumps(statements))


def _extension(suite: str) -> Path:
    package = importlib.util.find_spec(f"duckdb_extension_{suite}")
    assert package is not None, f"duckdb-extension-{suite} is not installed"
    (path,) = Path(str(package.origin)).parent.glob(f"**/{suite}.duckdb_extension")
    return path


if __name__ == "__main__":
    write_tables(Path(sys.argv[1]), float(sys.argv[2]))

"""TPC-H's tables, made by the program tpchgen-cli of the extra [bench]."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from projseg.errors import MissingPackageError
from projseg.extras import installing

__all__ = ["generate"]


def generate(folder: Path, scale: float, tables: Sequence[str] = ()) -> None:
    """Make TPC-H's tables as Parquet files of a folder.

    Parameters
    ----------
    folder : Path
        Gets one file for each table.
    scale : float
        TPC-H's scale factor: 1 is 6 million rows of `lineitem`.
    tables : sequence of str
        Those to make; all of them for none.

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
    asked = [command, "parquet", "-s", f"{scale:g}", "--output-dir", str(folder)]
    if tables:
        asked.append(f"--tables={','.join(tables)}")
    subprocess.run(asked, check=True, capture_output=True)  # noqa: S603 - a program of the extra

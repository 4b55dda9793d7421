"""Spark's daemon of Python workers, with the engine imported before it forks.

With `spark.python.daemon.module` set to `projseg.spark_datasource.daemon`, Spark starts this in
place of `pyspark.daemon` on every executor. `pyspark.daemon` still serves Spark. This module only
imports the engine first, so that workers are forked with everything that each would import, and
compile or load, by itself.

A fork copies only the thread that forks, so nothing here may leave a thread behind that the engine
would wait for: the query pools in particular are not touched.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LOGGER: Final = logging.getLogger("projseg.spark")

# Modules that tasks run, by the names that Spark's pickles and its daemon import, and modules that
# a query imports only where it needs them.
_MODULES: Final = (
    "projseg.aggregation.hash_sketches",
    "projseg.algebra.expressions.patterns.java_regex",
    "projseg.spark_datasource.batch_reader",
    "projseg.spark_datasource.write_job",
    "projseg.writer.table_writer",
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
)
_SPARK_ARCHIVES: Final = ("pyspark.zip", "py4j-*-src.zip")
_NOT_INSTALLED: Final = frozenset({"tests", "benchmark"})  # folders that only the archives have


def main() -> None:
    """Import the engine, then serve Spark until it closes standard input.

    If the import fails, workers repeat it and tell Spark why.
    """
    with _standard_output_kept():
        prefer_unpacked_spark(sys.path)
        try:
            import_engine()
        except Exception:  # any broken installation: tasks that do not need the engine still run
            LOGGER.warning("workers start without the engine", exc_info=True)
    # Everything imported lives as long as the workers. Frozen, it is skipped by the garbage
    # collection after each task, which would otherwise copy its pages.
    gc.freeze()
    importlib.import_module("pyspark.daemon").manager()


def import_engine() -> None:
    """Import what tasks need, and do once what numba and pyarrow put off until their first use."""
    for name in _MODULES:
        importlib.import_module(name)
    # Imported here: the path of a daemon is set right first.
    import numpy as np
    import pyarrow as pa

    from projseg.kernels.integer_codes import accumulate
    from projseg.kernels.runtime.kernel import interpreter

    interpreter.retire()
    accumulate(np.zeros(2, np.int64))
    np.asarray(pa.nulls(1, pa.int64()).fill_null(0))


def prefer_unpacked_spark(path: list[str]) -> None:
    """Move Spark's zipped sources behind the rest of `path` where the same ones are installed.

    Spark puts them first. Python keeps no compiled modules of a zip file, so every daemon would
    compile all that it imports, which takes longer than the engine's import. Archives that differ
    from what is installed stay where they are.
    """
    archives = [
        entry
        for entry in path
        if any(Path(entry).match(pattern) for pattern in _SPARK_ARCHIVES)
        and any(_holds(Path(folder), entry) for folder in path if folder != entry)
    ]
    path[:] = [entry for entry in path if entry not in archives] + archives


def _holds(folder: Path, archive: str) -> bool:
    """Whether an installation has every module of an archive, of the same size."""
    if not folder.is_dir():
        return False
    try:
        with zipfile.ZipFile(archive) as opened:
            modules = [
                info
                for info in opened.infolist()
                if info.filename.endswith(".py")
                and _NOT_INSTALLED.isdisjoint(info.filename.split("/"))
            ]
        return bool(modules) and all(
            (folder / info.filename).stat().st_size == info.file_size for info in modules
        )
    except (OSError, zipfile.BadZipFile):
        return False


@contextlib.contextmanager
def _standard_output_kept() -> Iterator[None]:
    """Send what is printed meanwhile to standard error: Spark reads its port from the other."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


if __name__ == "__main__":
    main()

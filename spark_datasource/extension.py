"""The extension of Spark's optimizer: its jar for the Spark that is there, configured; its log.

A wheel brings a jar for each release of Spark that it was built beside. Elsewhere it is compiled
from its Scala sources, in `catalyst/`: PySpark ships the compiler, so a Java runtime is all that it
takes. That jar is kept in the user's cache, by Spark's version and the sources' hash.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import DataFrame, SparkSession

from projseg.errors import MissingPackageError, ProjsegError
from projseg.extras import shipped_jar, spark_release
from projseg.kernels.runtime.cache_folder import cache_folder
from projseg.spark_datasource.shared_lists import shared_lists

EXTENSIONS: Final = "org.apache.spark.sql.projseg.ProjsegExtensions"
DAEMON: Final = "projseg.spark_datasource.daemon"
_SOURCE: Final = "org.apache.spark.sql.projseg.ProjsegSource"
_SERVICE: Final = "org.apache.spark.sql.sources.DataSourceRegister"
_COMPILE_SECONDS_MAX: Final = 600
_OUTPUT_SHOWN: Final = 2000


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Make sessions answer plain SQL over projseg tables from projections.

    Where the install brought no jar of the extension for this release of Spark, it is compiled at
    the first call, in about half a minute. Jars and extensions that the builder has already stay.
    Spark's workers run the Python that PYSPARK_PYTHON names; a warning says if it is not set and
    they would run another one.

    Parameters
    ----------
    builder : SparkSession.Builder
        Before its session starts.

    Returns
    -------
    SparkSession.Builder
        The same.

    Raises
    ------
    MissingPackageError
        PROJSEG_MISSING_PACKAGE if there is no Java runtime.
    ProjsegError
        PROJSEG_EXTENSION_NOT_BUILT if the extension does not compile with this Spark.
    """
    _warn_of_workers()
    given = builder._options  # noqa: SLF001 - the only way to what was set before
    for name, value in settings(extension_jar()).items():
        kept = [part for part in str(given.get(name, "")).split(",") if part]
        is_list = name in ("spark.jars", "spark.sql.extensions")
        parts = [*kept, value] if is_list and value not in kept else [value]
        builder = builder.config(name, ",".join(parts))
    return builder


def _warn_of_workers() -> None:
    """Warn if Spark's workers would run a Python that is not this one, and nobody chose it."""
    if "PYSPARK_PYTHON" in os.environ:
        return
    found = shutil.which("python3")
    if found is None or Path(found).parent != Path(sys.executable).parent:
        warnings.warn(
            f"PYSPARK_PYTHON is not set, so Spark's workers run {found or 'python3'}, and not "
            f"{sys.executable}, which has projseg; set it to that before the session starts",
            stacklevel=3,
        )


def settings(jar: Path) -> dict[str, str]:
    """Return the settings of a session that uses the extension, for `spark-defaults.conf` too."""
    return {
        "spark.jars": str(jar),
        "spark.sql.extensions": EXTENSIONS,
        "spark.python.daemon.module": DAEMON,
        "spark.projseg.python": sys.executable,
    }


def extension_jar(folder: Path | None = None) -> Path:
    """Return the extension's jar for the Spark that is installed, compiled if there is none yet.

    Without a folder, it is where the install brought it, else in the user's cache.
    """
    shipped = shipped_jar(spark_release(pyspark.__version__))
    if shipped and folder is None:
        return shipped
    kept_in = (folder or cache_folder() or Path(tempfile.mkdtemp(prefix="projseg-"))).absolute()
    jar = kept_in / f"projseg-spark-{pyspark.__version__}-{_source_hash()}.jar"
    if not jar.exists():
        kept_in.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept_in) as work:
            made = Path(work) / "made.jar"
            if shipped:
                shutil.copyfile(shipped, made)
            else:
                sys.stderr.write(
                    f"projseg: compiling its extension for Spark {pyspark.__version__}\n"
                )
                compile_jar(made)
            os.replace(made, jar)  # of two processes that compile at once, either's jar will do
    return jar


def _sources() -> dict[str, str]:
    folder = files("projseg.spark_datasource") / "catalyst"
    found = (one for room in folder.iterdir() if room.is_dir() for one in room.iterdir())
    named = {one.name: one for one in found if one.name.endswith(".scala")}
    release = spark_release(pyspark.__version__)
    for name in [name for name in named if "-" in name]:
        # What some releases have other types for: it is compiled there, in place of the general.
        stem, *releases = name.removesuffix(".scala").split("-")
        own = named.pop(name)
        if release in releases:
            named[f"{stem}.scala"] = own
    return {name: named[name].read_text("utf-8") for name in sorted(named)}


def _resources() -> dict[str, str]:
    """Return the resources of the classes: the lists of records, and the table of characters."""
    characters = files("projseg.segment_format") / "indexes" / "characters.json"
    return {"characters.json": characters.read_text("utf-8"), "lists.json": shared_lists()}


def _source_hash() -> str:
    return hashlib.sha256(repr((_sources(), _resources(), _SOURCE)).encode()).hexdigest()[:16]


def compile_jar(jar: Path) -> None:
    """Compile the extension for the Spark that is imported, beside whose jars it runs.

    Raises ProjsegError (PROJSEG_EXTENSION_NOT_BUILT).
    """
    with tempfile.TemporaryDirectory(dir=jar.parent) as work:
        _compile(Path(work))
        _pack(Path(work) / "classes", jar)


def _compile(work: Path) -> None:
    paths = []
    for name, text in _sources().items():
        paths.append(work / name)
        paths[-1].write_text(text, "utf-8")
    (work / "classes").mkdir()
    jars = Path(pyspark.__file__).parent / "jars"
    command = [_java(), "-cp", f"{jars}/*", "scala.tools.nsc.Main", "-usejavacp", "-nowarn"]
    command += ["-release", "17", "-d", str(work / "classes"), *map(str, paths)]
    ran = subprocess.run(  # noqa: S603 - the Java that Spark would run, over our own sources
        command, capture_output=True, text=True, timeout=_COMPILE_SECONDS_MAX, check=False
    )
    if ran.returncode:
        raise ProjsegError(
            "PROJSEG_EXTENSION_NOT_BUILT",
            f"the extension does not compile with Spark {pyspark.__version__}: "
            + " ".join((ran.stdout + ran.stderr).split())[:_OUTPUT_SHOWN],
        )


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if java is None:
        raise MissingPackageError(
            "PROJSEG_MISSING_PACKAGE",
            "the extension needs a Java runtime to be compiled, and there is none; install Java 17 "
            "or set JAVA_HOME",
        )
    return java


def _pack(classes: Path, jar: Path) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(classes.rglob("*.class")):
            packed.write(path, path.relative_to(classes))
        packed.writestr(f"META-INF/services/{_SERVICE}", _SOURCE)
        package = EXTENSIONS.rpartition(".")[0].replace(".", "/")
        for name, content in _resources().items():
            packed.writestr(f"{package}/{name}", content)


def query_log(spark: SparkSession) -> DataFrame:
    """Return the latest queries over projseg tables that the extension planned, oldest first.

    The driver keeps them in memory, of all its sessions. SQL has the same rows as
    `SELECT * FROM projseg_query_log()`.

    Parameters
    ----------
    spark : SparkSession
        Configured by `projseg.configure`.

    Returns
    -------
    DataFrame
        time, location, version, request (JSON, with `?` for literals), answered (`planted`,
        `shared`, `scanned` or `not`), sources, reasons (why projections or projseg are not used),
        rows and bytes (read, at most), planning_milliseconds, answering_milliseconds.
    """
    return spark.sql("SELECT * FROM projseg_query_log()")

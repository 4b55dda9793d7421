"""The verb `doctor`: what this machine lacks for projseg and Spark, and what to do about it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import typer

from projseg import __version__
from projseg.cli.output import Ended, Found
from projseg.cli.shared_arguments import declared
from projseg.errors import InvalidInputError, ProjsegError
from projseg.extras import (
    SPARK_RELEASES,
    installing,
    is_known_spark,
    require_spark,
    shipped_jar,
    spark_release,
)
from projseg.kernels.runtime.cache_folder import SETTING, cache_folder

JAVA_RELEASE_MIN: Final = 17
_SECONDS_MAX: Final = 60

# Does what Spark's own look-up does, but survives and names the module that breaks it.
_LOOK_UP: Final = """
import importlib, json, pkgutil
found = {}
for info in pkgutil.iter_modules():
    if info.name.startswith("pyspark_"):
        try:
            source = getattr(importlib.import_module(info.name), "DefaultSource", None)
            found[info.name] = ["ok", source.name() if source else "no DefaultSource"]
        except BaseException as error:
            found[info.name] = ["problem", f"{type(error).__name__}: {error}"]
print(json.dumps(found))
"""
_IMPORT_SOURCE: Final = "import projseg.spark_datasource.datasource"


class Verdict(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    ADVICE = "advice"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Outcome:
    """One line of the report; `advice` is empty where nothing is to be done."""

    check: str
    verdict: Verdict
    found: str
    advice: str = ""


def doctor() -> Ended:
    """Check Python, Java, PySpark, Spark's look-up of formats and the cache of kernels."""
    checks = CHECKS if find_spec("pyspark") else CHECKS_WITHOUT_SPARK
    findings = [finding for check in checks for finding in check()]
    found = [asdict(finding) for finding in findings]
    return Ended(found, int(any(one.verdict is Verdict.PROBLEM for one in findings)))


def _python() -> list[Outcome]:
    version = sys.version.split()[0]
    return [
        Outcome("python", Verdict.OK, f"{version} at {sys.executable}"),
        Outcome("projseg", Verdict.OK, f"{__version__} at {Path(__file__).parents[1]}"),
    ]


def _packages() -> list[Outcome]:
    names = ("pyarrow", "numpy", "numba", "pyspark")
    return [_package(name) for name in names]


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _package(name: str) -> Outcome:
    version = _version_of(name)
    if version is None:
        if name == "pyspark":
            advice = f"to use Spark, run: {installing('pyspark')}"
            return Outcome(name, Verdict.OK, "not installed", advice)
        advice = f"pip install {name}, with the Python that runs projseg"
        return Outcome(name, Verdict.PROBLEM, "not installed", advice)
    if name == "pyspark" and not is_known_spark(version):
        advice = f"projseg works with PySpark {SPARK_RELEASES[0]} to {SPARK_RELEASES[-1]}"
        return Outcome(name, Verdict.PROBLEM, version, advice)
    return Outcome(name, Verdict.OK, version)


def _java() -> list[Outcome]:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"install a Java runtime, release {JAVA_RELEASE_MIN} or later, or set JAVA_HOME"
    if java is None or not Path(java).exists():
        return [Outcome("java", Verdict.PROBLEM, f"not found ({java or 'not on PATH'})", advice)]
    done = _run([java, "-version"])
    release = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    if release is None or int(release[1]) < JAVA_RELEASE_MIN:
        first = done.stderr.strip().splitlines()[:1]
        return [Outcome("java", Verdict.PROBLEM, "".join(first) or "says no version", advice)]
    return [Outcome("java", Verdict.OK, f"{release[1]} at {java}")]


def _worker_python() -> list[Outcome]:
    named = os.environ.get("PYSPARK_PYTHON")
    found = shutil.which(named or "python3")
    shown = f"PYSPARK_PYTHON={named}" if named else f"PYSPARK_PYTHON is not set; python3 is {found}"
    advice = f"export PYSPARK_PYTHON={sys.executable}"
    if found is None:
        return [Outcome("worker python", Verdict.PROBLEM, shown, advice)]
    if os.path.abspath(found) == os.path.abspath(sys.executable):
        return [Outcome("worker python", Verdict.OK, shown)]
    if _run([found, "-c", _IMPORT_SOURCE]).returncode == 0:
        return [Outcome("worker python", Verdict.OK, shown)]
    found_text = f"{shown}, which cannot import projseg"
    return [Outcome("worker python", Verdict.PROBLEM, found_text, advice)]


def _format_look_up() -> list[Outcome]:
    done = _run([sys.executable, "-c", _LOOK_UP])
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        return [Outcome("format look-up", Verdict.PROBLEM, "".join(last), "reinstall pyspark")]
    modules: dict[str, list[str]] = json.loads(done.stdout)
    findings = []
    for name, (verdict, found) in sorted(modules.items()):
        advice = f"uninstall or repair {name}: Spark finds no Python format while it fails"
        is_broken = verdict == "problem"
        findings.append(Outcome(name, Verdict(verdict), found, advice if is_broken else ""))
    if modules.get("pyspark_projseg", ["", ""])[1] != "projseg":
        why = _run([sys.executable, "-c", _IMPORT_SOURCE]).stderr.strip().splitlines()
        found = "format('projseg') will not be found" + (f": {why[-1]}" if why else "")
        advice = "reinstall projseg, or call projseg.register(spark)"
        findings.append(Outcome("format look-up", Verdict.PROBLEM, found, advice))
    return findings


def _kernel_cache() -> list[Outcome]:
    advice = f"set {SETTING} to a directory that this user can write"
    folder = cache_folder()
    if folder is None:
        found = "compiled kernels cannot be kept; each process compiles them anew"
        return [Outcome("kernel cache", Verdict.PROBLEM, found, advice)]
    if not os.environ.get(SETTING) and folder.parent == Path(tempfile.gettempdir()).resolve():
        found = f"{folder}, until temporary files are removed"
        return [Outcome("kernel cache", Verdict.ADVICE, found, advice)]
    return [Outcome("kernel cache", Verdict.OK, str(folder))]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own interpreter, or the Java that Spark would run
        command, capture_output=True, text=True, check=False, timeout=_SECONDS_MAX
    )


CHECKS_WITHOUT_SPARK: Final[tuple[Callable[[], list[Outcome]], ...]] = (
    _python,
    _packages,
    _kernel_cache,
)
CHECKS: Final[tuple[Callable[[], list[Outcome]], ...]] = (
    _python,
    _packages,
    _java,
    _worker_python,
    _format_look_up,
    _kernel_cache,
)

extension = typer.Typer(help="The extension that makes plain Spark SQL use projections.")


@extension.callback()
def _group() -> None:
    pass


def build(
    *,
    folder: Annotated[Path | None, "Where to put the jar; default: where it is."] = None,
) -> Found:
    """Print the settings that use it, compiled if this install brought no jar for this Spark."""
    require_spark("projseg extension")
    # Imported here: the verb is listed where PySpark is not installed.
    from projseg.spark_datasource.extension import extension_jar, settings

    found = settings(extension_jar(folder))
    return [{"setting": name, "value": value} for name, value in found.items()]


def jar(
    *,
    spark: Annotated[
        str | None, "The release of Spark, such as 4.3; default: of the PySpark that is installed."
    ] = None,
) -> None:
    """Print the path of its jar, for spark-submit and for an image of a cluster."""
    typer.echo(_jar_for(spark))


def _jar_for(spark: str | None) -> Path:
    if spark is not None and not is_known_spark(spark):
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"projseg has no extension for Spark {spark}; it works with {SPARK_RELEASES[0]} to "
            f"{SPARK_RELEASES[-1]}",
        )
    if spark is not None and (shipped := shipped_jar(spark_release(spark))):
        return shipped
    installed = _version_of("pyspark")
    if spark is not None and (
        installed is None or spark_release(installed) != spark_release(spark)
    ):
        raise ProjsegError(
            "PROJSEG_EXTENSION_NOT_BUILT",
            f"this install of projseg brought no jar for Spark {spark}, and has "
            f"{f'PySpark {installed}' if installed else 'no PySpark'} to compile one; install "
            f"PySpark {spark} beside it, or a wheel that was built with that release",
        )
    require_spark("projseg extension")
    # Imported here: the verb is listed where PySpark is not installed.
    from projseg.spark_datasource.extension import extension_jar

    return extension_jar()


extension.command("build")(declared(build))
extension.command("jar")(declared(jar))

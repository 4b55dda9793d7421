"""Refuses to build from a checkout without symbolic links; adds compiled parts to a wheel.

`src/projseg` holds links to the folders at the top level. Git and some unpackers write a small text
file in place of each link where links are off, and the wheel would be nearly empty. Everything else
is said by pyproject.toml.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PACKAGE = Path(__file__).parent / "src" / "projseg"
WITHOUT_KERNELS = "PROJSEG_WITHOUT_KERNELS"  # a quick build, whose first queries compile
# Folders in which `pip install --target` put releases of PySpark, separated as in PATH.
SPARKS = "PROJSEG_SPARKS"
COMPILE_JAR = """
import sys
from pathlib import Path
from pyspark import __version__
from projseg.extras import spark_release
from projseg.spark_datasource.extension import compile_jar
compile_jar(Path(sys.argv[1]) / f"projseg-spark-{spark_release(__version__)}.jar")
"""


def refuse_without_links() -> None:
    """Stop the build if a link is missing its folder."""
    broken = sorted(
        path.name for path in PACKAGE.iterdir() if not path.is_dir() and not path.suffix
    )
    if broken:
        raise SystemExit(
            f"projseg cannot be built here: {', '.join(broken)} in src/projseg should be symbolic "
            "links to folders and are not. In a clone, run `git config core.symlinks true` and "
            "`git checkout -- src`; unpack an archive with a tool that keeps links, such as tar."
        )


class BuildCompiledParts(build_py):
    """Copies modules, and puts beside them what a fresh machine would have to compile."""

    def run(self) -> None:
        """Build; an editable install compiles its parts when they are first used."""
        super().run()
        if not self.editable_mode:
            package = Path(self.build_lib).absolute() / "projseg"
            self.add_kernels(package / "kernels/runtime/shipped.code")
            self.add_jars(package / "spark_jars")

    def add_kernels(self, file: Path) -> None:
        """Add the machine code of kernels, where it can be made."""
        if WITHOUT_KERNELS in os.environ:
            return
        words = ["-m", "projseg.kernels.runtime.shipped_code", "make", str(file)]
        if python(words, PACKAGE.parent).returncode:
            print("without compiled kernels: a fresh machine compiles them at their first call")

    def add_jars(self, folder: Path) -> None:
        """Add the extension's jar for each release of Spark that is there."""
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier build
        sparks = [Path(one) for one in os.environ.get(SPARKS, "").split(os.pathsep) if one]
        for spark in sparks:
            if not (spark / "pyspark/jars").is_dir():
                print(f"without the jar for Spark of {spark}, which holds no PySpark")
                continue
            folder.mkdir(exist_ok=True)
            if python(["-c", COMPILE_JAR, str(folder)], PACKAGE.parent, spark).returncode:
                raise SystemExit(f"the extension does not compile for the Spark in {spark}")
        if not sparks:
            print(f"without jars for Spark ({SPARKS} names none): a fresh machine compiles its own")


def python(words: list[str], *path: Path) -> subprocess.CompletedProcess[bytes]:
    """Run this very Python with folders from which it imports.

    Pip names the packages of its build environment in PYTHONPATH, too.
    """
    folders = [*map(str, path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
    return subprocess.run([sys.executable, *words], env=environment)  # noqa: S603


refuse_without_links()
setup(cmdclass={"build_py": BuildCompiledParts})

"""Install a release's wheel and source distribution where nothing else is, and use them.

`make release-check` builds both into dist/ and runs `python .ci/check_release.py dist` over them,
with each Python that projseg supports and this machine has.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
SPARKS = ("4.0", "4.1", "4.2", "4.3")
# What a stranger does first; the demo compares its answers with those of base rows.
USE = """
import projseg, sys
rows = {"kind": ["a", "b", "a"], "size": [1, 2, 3]}
by_kind = projseg.Projection("by_kind", ["kind"], ["sum(size)"])
table = projseg.Table.create("events", data=rows, projections=[by_kind])
plan = table.sql("SELECT kind, sum(size) FROM events GROUP BY kind", explain=True)
assert plan.sources == {"by_kind": 1}, plan.sources
assert projseg.__version__ == sys.argv[1], projseg.__version__
"""


def release() -> str:
    """Return the release that the code states, the one place where it stands."""
    text = (ROOT / "src/projseg/__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit("src/projseg/__init__.py states no __version__")
    return found[1]


def faults_of_documents(version: str) -> list[str]:
    """Return what the changelog lacks of a release."""
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    faults = []
    if headings[:2] != ["Unreleased", version]:
        faults.append(f"CHANGELOG.md begins with {headings[:2]}, not with Unreleased and {version}")
    return faults


def faults_of_wheel(wheel: Path) -> list[str]:
    """Return what a wheel lacks that a fresh machine would have to compile."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    parts = ["kernels/runtime/shipped.code"]
    parts += [f"spark_jars/projseg-spark-{spark}.jar" for spark in SPARKS]
    return [f"{wheel.name} lacks {part}" for part in parts if f"projseg/{part}" not in names]


def use(python: str, distribution: Path, version: str) -> None:
    """Install a distribution into an environment of its own, and do what a stranger does first."""
    with tempfile.TemporaryDirectory() as folder:
        run([python, "-m", "venv", "venv"], folder)
        own = str(Path(folder) / "venv/bin/python")
        run([own, "-m", "pip", "install", "--quiet", str(distribution)], folder)
        run([own, "-c", USE, version], folder)
        run([own, "-m", "projseg", "demo", "--rows", "1000", "-o", "json"], folder)
        run([own, "-m", "projseg", "verify", "projseg-demo", "--deep"], folder)
        run([own, "-m", "pip", "check"], folder)


def run(words: list[str], folder: str) -> None:
    """Run a command in a folder, with a home of its own, and stop at its failure."""
    others = ("PYTHON", "PROJSEG_")
    environment = {name: os.environ[name] for name in os.environ if not name.startswith(others)}
    environment |= {"HOME": folder, "NUMBA_CACHE_DIR": folder, "PROJSEG_WITHOUT_KERNELS": "1"}
    done = subprocess.run(  # noqa: S603 - commands of this file
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)[:200]} failed:\n{done.stdout}{done.stderr}")


def has(python: str) -> bool:
    """Whether a Python is on this machine; a shim of pyenv may be there without one."""
    return (
        bool(shutil.which(python))
        and not subprocess.run(  # noqa: S603
            [python, "--version"], capture_output=True, check=False
        ).returncode
    )


def main(folder: Path) -> None:
    """Check the distributions of the release in a folder."""
    version = release()
    [wheel], [source] = folder.glob(f"projseg-{version}-*.whl"), folder.glob(f"*-{version}.tar.gz")
    faults = faults_of_documents(version) + faults_of_wheel(wheel)
    if faults:
        raise SystemExit("\n".join(faults))
    for python in (f"python{one}" for one in PYTHONS):
        if not has(python):
            print(f"{python} is not on this machine: not tried")
            continue
        for distribution in (wheel, source):
            use(python, distribution.absolute(), version)
            print(f"{python}: {distribution.name} is installed, answers and verifies")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

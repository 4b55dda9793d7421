"""Where a run takes place: machine, libraries, commit."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from projseg.benchmarks.records import Environment

__all__ = ["checkout", "describe_environment"]

_LIBRARIES: Final = ("projseg", "numpy", "numba", "pyarrow", "duckdb", "chdb", "pyspark")


def describe_environment() -> Environment:
    """Return the machine, the libraries and the commit that a run's figures depend on."""
    root = checkout()
    return Environment(
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=_git(root, "rev-parse", "HEAD"),
        has_local_changes=bool(_git(root, "status", "--porcelain", "--untracked-files=no")),
        cpu=_cpu_name(),
        cpu_count=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=platform.platform(),
        python=platform.python_version(),
        versions=_versions(),
    )


def checkout() -> Path | None:
    """Return the root of the working tree that this code runs from; None when installed."""
    root = Path(__file__).resolve().parent.parent
    return root if (root / ".git").exists() else None


def _versions() -> dict[str, str]:
    found = {}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _git(root: Path | None, *arguments: str) -> str | None:
    """Return what git prints; None outside a checkout or without git."""
    git = shutil.which("git")
    if root is None or git is None:
        return None
    done = subprocess.run(  # noqa: S603  fixed arguments, no shell
        [git, "-C", str(root), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None

"""Build projseg from a copy of what a checkout holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.name for path in (ROOT / "src/projseg").iterdir() if path.is_symlink())


def checkout(folder):
    """Copy what a build reads, links as links."""
    folder.mkdir()
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "LICENSE", *documents("*.md")):
        shutil.copy(ROOT / name, folder)
    for name in ("src", "docs", *FOLDERS):
        without = shutil.ignore_patterns("__pycache__", "*.egg-info", "results")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=without)
    return folder


def documents(*patterns):
    return [str(path.relative_to(ROOT)) for one in patterns for path in ROOT.glob(one)]


def build(folder, *words, **environment):
    """Build without compiled kernels, which take a minute, unless an environment is given."""
    return subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", *words, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder.parent,
        env=os.environ | (environment or {"PROJSEG_WITHOUT_KERNELS": "1"}),
    )

"""What a wheel and a source distribution hold, and a checkout that cannot make them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import projseg

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.name for path in (ROOT / "src/projseg").iterdir() if path.is_symlink())
RESOURCES = (".py", ".json", ".scala", ".typed")


def checkout(folder):
    """Copy what a build reads, links as links."""
    folder.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in ("src", *FOLDERS):
        without = shutil.ignore_patterns("__pycache__", "*.egg-info", "results")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=without)
    return folder


def build(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", *words, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder.parent,
    )


def modules():
    """Return the paths that a distribution should have."""
    paths = {path for path in (ROOT / "src").rglob("*") if path.parent.name != "__pycache__"}
    own = {str(path.relative_to(ROOT / "src")) for path in paths if path.suffix in RESOURCES}
    linked = {
        f"projseg/{path.relative_to(ROOT)}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in RESOURCES and "results" not in path.parts
    }
    return own | linked


def test_distributions_hold_every_module(tmp_path):
    folder = checkout(tmp_path / "checkout")
    built = build(folder)  # the wheel is made from the source distribution
    assert built.returncode == 0, built.stdout + built.stderr
    release = f"projseg-{projseg.__version__}"
    with tarfile.open(folder / "dist" / f"{release}.tar.gz") as archive:
        files = {member.name for member in archive if member.isreg()}
    assert {f"{release}/src/{path}" for path in modules()} <= files
    assert f"{release}/LICENSE" in files
    with zipfile.ZipFile(next(folder.glob("dist/*.whl"))) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(f"{release}.dist-info/METADATA").decode()
    assert {name for name in names if ".dist-info/" not in name} == modules()
    assert f"{release}.dist-info/licenses/LICENSE" in names
    assert "License-Expression: Apache-2.0" in metadata
    plain = [
        line
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist") and "extra ==" not in line
    ]
    assert any("pyarrow" in line for line in plain)
    assert not any("pyspark" in line for line in plain)


@pytest.mark.parametrize("kind", ["text", "dangling"])
def test_a_checkout_without_links_is_refused(tmp_path, kind):
    folder = checkout(tmp_path / "checkout")
    link = folder / "src/projseg/reader"
    target = link.readlink()
    link.unlink()
    if kind == "text":
        link.write_text(str(target))  # what git writes where core.symlinks is false
    else:
        link.symlink_to("../nowhere")
    built = build(folder, "--wheel")
    assert built.returncode != 0
    assert "reader in src/projseg should be symbolic links" in built.stdout + built.stderr
    assert list(folder.glob("dist/*.whl")) == []

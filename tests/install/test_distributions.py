"""What a wheel and a source distribution hold, and a checkout that cannot make them."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from distributions import FOLDERS, ROOT, build, checkout, documents

import projseg

RESOURCES = (".py", ".json", ".scala", ".sql", ".toml", ".typed", ".html", ".css", ".js", ".svg")


_USE = """
import pyarrow, projseg
rows = pyarrow.table({"n": range(100_000), "k": [str(n % 7) for n in range(100_000)]})
projseg.Table.create("table", rows.schema).append(rows)
assert projseg.Table("table").query(aggregators="sum(n) AS n", group_by="k").num_rows == 7
print(projseg.__file__)
"""
_FIND = """
from importlib.util import find_spec
print(find_spec("projseg"), find_spec("pyspark_projseg"))
"""


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


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A checkout with both distributions; the wheel is made from the source distribution."""
    folder = checkout(tmp_path_factory.mktemp("built") / "checkout")
    ran = build(folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


def test_distributions_hold_every_module(built):
    release = f"projseg-{projseg.__version__}"
    with tarfile.open(built / "dist" / f"{release}.tar.gz") as archive:
        files = {member.name for member in archive if member.isreg()}
    assert {f"{release}/src/{path}" for path in modules()} <= files
    told = documents("*.md", "docs/*.md")
    assert {"SPEC.md", "CHANGELOG.md", "SECURITY.md", "docs/sql.md"} <= set(told)
    assert {f"{release}/{path}" for path in ("LICENSE", *told)} <= files
    with zipfile.ZipFile(next(built.glob("dist/*.whl"))) as wheel:
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


@pytest.mark.slow
def test_a_wheel_on_a_fresh_machine_compiles_nothing(tmp_path):
    folder = checkout(tmp_path / "checkout")
    built = build(folder, "--wheel", PYTHONWARNINGS="default")
    assert built.returncode == 0, built.stdout + built.stderr
    place = tmp_path / "installed"
    with zipfile.ZipFile(next(folder.glob("dist/*.whl"))) as wheel:
        assert "projseg/kernels/runtime/shipped.code" in wheel.namelist()
        wheel.extractall(place)
    use = _USE + "import sys; assert 'numba' not in sys.modules"
    environment = {"PYTHONPATH": str(place), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run(
        [sys.executable, "-c", use], check=True, cwd=tmp_path, env=os.environ | environment
    )


@pytest.mark.slow
def test_nothing_stays_of_an_install(built, tmp_path):
    """Install, use and uninstall: no folder is left that Python would import."""
    wheel, place = next(built.glob("dist/*.whl")), tmp_path / "venv"

    def run(*words, **environment):
        ran = subprocess.run(
            [place / "bin/python", *words],
            capture_output=True,
            text=True,
            check=True,
            cwd=place,
            env={"PATH": "/usr/bin:/bin", "HOME": str(place / "home"), **environment},
        )
        return ran.stdout

    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    run("-m", "pip", "install", "--quiet", "--no-deps", wheel)
    others = str(Path(pytest.__file__).parents[1])
    assert str(place) in run("-c", _USE, PYTHONPATH=others)
    run("-m", "pip", "uninstall", "--quiet", "--yes", "projseg")
    assert run("-c", _FIND).split() == ["None", "None"]
    assert [path for path in place.glob("lib/*/site-packages/**/*") if "projseg" in path.name] == []


@pytest.mark.sampled(1)
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
